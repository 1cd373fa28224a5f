"""Running and embedding a Server (server/app.py, server/sync_shell.py, the package's face)."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import smcp_runtime.server as package
from smcp_runtime.server import create_asgi_app, create_wsgi_app, serve, tls_context
from smcp_runtime.server.app import Running
from smcp_runtime.wire.protocol import NAMESPACE
from support.raw_socket import RawPeer, member, raw_peer
from support.servers import asgi_server, open_options, serving, wsgi_server

pytestmark = pytest.mark.anyio


async def hello(_: Any) -> PlainTextResponse:
    return PlainTextResponse("host")


@pytest.mark.spec("W-ARCH-3")
@pytest.mark.parametrize("mount", ["/a2c", "/deep/er"])
async def test_it_can_be_mounted_in_a_starlette_application_under_any_path(mount: str) -> None:
    smcp = create_asgi_app(open_options())
    host = Starlette(routes=[Route("/", hello), Mount(mount, app=smcp)])
    async with asgi_server(host) as url:
        async with (
            member(url, "computer", "pc", path=f"{mount}/socket.io") as pc,
            member(url, "agent", "ag", path=f"{mount}/socket.io", transport="polling") as ag,
        ):
            await pc.next()
            await ag.settle()
        async with aiohttp.ClientSession() as http:
            for path, status in (("/", 200), (f"{mount}/socket.io/", 400), (f"{mount}/x", 404), ("/socket.io/", 404)):
                async with http.get(url + path) as response:
                    assert (path, response.status) == (path, status)
        await smcp.close()


async def test_two_servers_in_one_host_share_nothing() -> None:
    first, second = create_asgi_app(open_options()), create_asgi_app(open_options(protocol_version="0.5.0"))
    host = Starlette(routes=[Mount("/one", app=first), Mount("/two", app=second)])
    async with (
        asgi_server(host) as url,
        member(url, "agent", "same", path="/one/socket.io") as one,
        member(url, "agent", "same", path="/two/socket.io", version="0.5.1") as two,
    ):
        await one.settle()
        await two.settle()
        assert (len(first.shell.rooms), len(second.shell.rooms)) == (1, 1)


async def test_a_wsgi_mount_takes_its_path_from_the_host() -> None:
    app = create_wsgi_app(open_options())

    def host(environ: dict[str, Any], start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        if path.startswith("/a2c/"):
            return app(environ | {"SCRIPT_NAME": "/a2c", "PATH_INFO": path[4:]}, start_response)
        start_response("200 OK", [])
        return [b"host"]

    async with wsgi_server(host, app.close) as url, member(url, "computer", "pc", path="/a2c/socket.io") as pc:
        await pc.settle()


async def test_serving_says_where_it_listens_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async with serve(options=open_options()) as running:
        assert isinstance(running, Running)
        assert running.url == f"http://127.0.0.1:{running.port}"
        async with member(running.url, "computer", "pc") as pc:
            await pc.settle()
    assert capfd.readouterr() == ("", "")


async def test_an_address_in_use_is_an_os_error_and_leaves_nothing_behind() -> None:
    async with serve(options=open_options()) as running:
        with pytest.raises(OSError, match="in use"):
            async with serve(port=running.port):
                pass
        async with member(running.url, "computer", "pc") as pc:
            await pc.settle()


async def test_its_port_is_free_again_when_it_has_stopped() -> None:
    async with serve(options=open_options()) as running:
        port = running.port
        async with raw_peer(running.url):
            pass
    async with serve(port=port, options=open_options()) as again:
        assert again.port == port


async def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    async with serve(host="::1", options=open_options()) as running:
        assert running.url == f"http://[::1]:{running.port}"
        async with member(running.url, "computer", "pc") as pc:
            await pc.settle()


@pytest.mark.spec("W-ROOM-25")
async def test_the_lifespan_of_an_asgi_server_ends_its_connections() -> None:
    app = create_asgi_app(open_options())
    async with asgi_server(app, lifespan="on") as url, raw_peer(url) as peer:
        await peer.connect()
        assert len(app.shell.rooms) == 1
    assert len(app.shell.rooms) == 0


@pytest.mark.spec("W-ROOM-25")
async def test_a_cancelled_server_still_ends_its_connections_and_frees_its_port() -> None:
    urls: list[str] = []

    async def run(*, task_status: Any) -> None:
        async with serve(options=open_options()) as running:
            urls.append(running.url)
            task_status.started(running)
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        running = await tasks.start(run)
        async with member(running.url, "computer", "pc") as pc:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await pc.until_closed()
    assert len(running.shell.rooms) == 0
    async with serve(port=running.port, options=open_options()):
        pass


@pytest.mark.spec("W-HS-18")
async def test_the_declared_version_is_kept_in_the_socketio_session(kind: str) -> None:
    async with serving(kind) as server, raw_peer(server.url, version="0.4.007") as peer:
        await peer.connect()
        session = server.shell.server.get_session(peer.sid, namespace=NAMESPACE)  # type: ignore[attr-defined]
        assert (session if kind == "wsgi" else await session) == {"a2c_version": "0.4.007"}


@pytest.mark.parametrize("name", ["smcp_runtime.server", "smcp_runtime.server.app", "smcp_runtime.server.sync_shell"])
def test_importing_it_loads_neither_mcp_nor_pydantic(name: str) -> None:
    program = f"import sys, json, {name}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30)
    loaded = set(json.loads(done.stdout))
    assert loaded.isdisjoint({"mcp", "pydantic", "pydantic_core", "uvicorn", "starlette", "smcp_runtime.actors"})
    assert done.stderr == ""


def test_importing_it_configures_no_logging() -> None:
    program = (
        "import logging, smcp_runtime.server; print([len(logging.getLogger(n).handlers) for n in ('', 'socketio')])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "[0, 0]"


async def test_a_running_server_adds_no_handlers_to_the_libraries_loggers() -> None:
    program = (
        "import asyncio, logging\nfrom smcp_runtime.server import serve\n"
        "async def main():\n    async with serve(): pass\nasyncio.run(main())\n"
        "names = ('engineio.server', 'socketio.server', 'socketio', 'engineio')\n"
        "print([len(logging.getLogger(name).handlers) for name in names])"
    )
    with anyio.fail_after(20):
        done = await anyio.run_process([sys.executable, "-c", program])
    assert done.stdout.decode().strip() == "[0, 0, 0, 0]"


def test_the_face_of_the_package_is_sorted_and_complete() -> None:
    names = package.__all__
    assert sorted(names) == list(names)
    assert all(hasattr(package, name) for name in names)


@pytest.mark.spec("W-SRV-6")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_from_1_2_on_carries_the_whole_protocol(tmp_path: Path, version: ssl.TLSVersion) -> None:
    certificate, key = self_signed(tmp_path)
    trusting = ssl.create_default_context(cafile=str(certificate))
    trusting.minimum_version = trusting.maximum_version = version
    context = tls_context(str(certificate), str(key))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    async with serve("127.0.0.1", 0, open_options(), ssl_context=context) as running:
        assert running.url == f"https://127.0.0.1:{running.port}"
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with aiohttp.ClientSession(connector=connector) as http:
            peer = RawPeer(http, running.url + "/socket.io", {"a2c_version": "0.4.0"})
            await peer.open_polling()
            await peer.upgrade()
            await peer.connect()
            assert await peer.join("agent", "ag") == [True, None]
            cipher = peer.tls_cipher()
            await peer.close()
        if version is ssl.TLSVersion.TLSv1_3:
            assert cipher in {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "smcp test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
