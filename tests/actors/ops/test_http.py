"""The operator endpoint over real HTTP, on a Computer that runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from smcp_runtime.actors.ops import http
from smcp_runtime.actors.ops.http import STREAMS
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import StartupError
from support.leftovers import nothing_left
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio

TOKEN = "an-operator-token-of-some-length"
PATHS = ("/", "/metrics", "/healthz", "/readyz", "/status", "/view", "/calls", "/events")


@pytest.fixture(autouse=True)
async def clean(anyio_backend: str) -> AsyncIterator[None]:
    async with nothing_left():
        yield


class Endpoint:
    """A Computer with the endpoint, and a client."""

    def __init__(self, computer: Computer, client: aiohttp.ClientSession) -> None:
        self.computer, self.client = computer, client

    @property
    def url(self) -> str:
        assert self.computer.operations.url is not None
        return self.computer.operations.url

    async def get(self, path: str, **more: Any) -> tuple[int, str]:
        async with self.client.get(self.url + path, **more) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def endpoint(tmp_path: Path, *servers: Any, **more: Any) -> AsyncIterator[Endpoint]:
    runtime = options(**{"ops": "127.0.0.1:0", "home": str(tmp_path), **more})
    async with Computer.from_config(config(*servers), runtime) as computer, aiohttp.ClientSession() as client:
        yield Endpoint(computer, client)


async def test_metrics_are_read_by_a_parser_and_hold_what_runs(tmp_path: Path) -> None:
    async with endpoint(tmp_path, light("clock")) as here:
        status, text = await here.get("/metrics")
        assert status == 200
        names = {family.name for family in text_string_to_metric_families(text)}
        assert {"smcp_bus_messages", "smcp_actor_mailbox_depth", "smcp_mcp_server_up", "process_open_fds"} <= names
        assert 'smcp_mcp_server_up{server="clock"} 1.0' in text.splitlines()


async def test_status_is_the_diagnostics_as_json(tmp_path: Path) -> None:
    async with endpoint(tmp_path, light("clock")) as here:
        status, text = await here.get("/status")
        shown = json.loads(text)
        assert (status, shown["name"], shown["phase"]) == (200, "desk", "started")
        assert [server["bundle_id"] for server in shown["servers"]] == ["clock"]


async def test_probes_say_yes_and_no_with_a_reason(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        assert await here.get("/healthz") == (200, '{"ok":true,"state":"started","reasons":[]}')
        assert (await here.get("/readyz"))[0] == 200
        here.computer._bulletin.during("stopping")
        status, text = await here.get("/readyz")
        assert (status, json.loads(text)["reasons"]) == (503, ["it is in phase stopping"])


async def test_probes_wait_for_no_server_and_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with endpoint(tmp_path) as here:
        for asking in ("status", "view", "_diagnostics"):
            monkeypatch.setattr(here.computer.operations, asking, anyio.sleep_forever)
        with anyio.fail_after(5):
            for path in ("/healthz", "/readyz"):
                assert (await here.get(path))[0] == 200, path


async def test_the_stream_tells_a_new_moment_every_second(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here, here.client.get(here.url + "/events") as stream:
        assert stream.content_type == "text/event-stream"
        moments = []
        with anyio.fail_after(10):
            async for line in stream.content:
                if line.startswith(b"data: "):
                    moments.append(json.loads(line[6:])["at"])
                if len(moments) == 3:
                    break
        assert moments == sorted(set(moments))


async def test_more_live_pages_than_the_limit_are_refused_and_those_that_left_make_room(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        streams = [await here.client.get(here.url + "/events") for _ in range(STREAMS)]
        assert (await here.get("/events"))[0] == 503
        for stream in streams:
            stream.close()

        async def admitted() -> bool:
            async with here.client.get(here.url + "/events") as answer:
                return answer.status == 200

        await until(admitted, 10)


class Large(msgspec.Struct):
    """A view that fits into no buffer between the endpoint and whoever looks."""

    at: str = "x" * 8_000_000


async def test_a_live_page_that_reads_too_slowly_loses_its_connection_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def large() -> Large:
        return Large()

    monkeypatch.setattr(http, "STREAMS", 1)
    monkeypatch.setattr(http, "SLOW_READER", 0.2)
    monkeypatch.setattr(http, "EVERY", 0.01)
    async with (
        endpoint(tmp_path) as here,
        await anyio.connect_tcp("127.0.0.1", here.computer.operations.port) as slow,
    ):
        monkeypatch.setattr(here.computer.operations, "view", large)
        await slow.send(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")

        async def admitted() -> bool:
            async with here.client.get(here.url + "/events") as answer:
                return answer.status == 200

        assert (await slow.receive()).startswith(b"HTTP/1.1 200 ")
        await until(admitted, 10)
        tail = b""
        with anyio.fail_after(10), suppress(anyio.BrokenResourceError):
            async for piece in slow:
                tail = (tail + piece)[-8:]
        # The connection did not wait for it to read the rest: what it gets breaks off.
        assert not tail.endswith(b"\r\n")


async def test_a_computer_stops_at_once_though_somebody_is_watching(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here, here.client.get(here.url + "/events"):
        with anyio.fail_after(5):
            await here.computer.stop()
        assert here.computer.operations.url is None


async def test_with_a_token_nothing_is_answered_without_it(tmp_path: Path) -> None:
    async with endpoint(tmp_path, ops_token=TOKEN) as here:
        for path in PATHS:
            status, text = await here.get(path)
            assert status == 401, path
            assert "desk" not in text
        status, _ = await here.get("/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert status == 200


async def test_signing_in_gives_a_pass_that_scripts_cannot_read(tmp_path: Path) -> None:
    async with endpoint(tmp_path, ops_token=TOKEN) as here:
        async with here.client.post(here.url + "/login", data={"token": "wrong"}) as answer:
            assert answer.status == 401
            assert "Set-Cookie" not in answer.headers
        async with here.client.post(here.url + "/login", data={"token": TOKEN}, allow_redirects=False) as answer:
            assert answer.status == 303
            cookie = answer.headers["Set-Cookie"]
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


@pytest.mark.parametrize("header", [b"Authorization: Bearer \xff\xfe", b"Cookie: smcp_ops=\xff"])
async def test_a_header_of_any_bytes_is_answered_401(
    tmp_path: Path, header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        endpoint(tmp_path, ops_token=TOKEN) as here,
        await anyio.connect_tcp("127.0.0.1", here.computer.operations.port) as stream,
    ):
        await stream.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 401 ")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"\xff"),
        ("application/x-www-form-urlencoded; charset=nope", b"token=x"),
        ("application/x-www-form-urlencoded; charset=hex", b"token=x"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"x"),
        ("application/json", b"{}"),
    ],
)
async def test_signing_in_with_what_is_no_form_is_answered_400(
    tmp_path: Path, kind: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        endpoint(tmp_path, ops_token=TOKEN) as here,
        here.client.post(here.url + "/login", data=body, headers={"Content-Type": kind}) as answer,
    ):
        assert answer.status == 400
        assert "Set-Cookie" not in answer.headers
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("header", "body"), [(b"Content-Encoding: gzip", b"token=x"), (b"Content-Encoding: deflate", b"token=\xff")]
)
async def test_a_form_that_is_said_to_be_compressed_is_not_unpacked(
    tmp_path: Path, header: bytes, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n" % len(body)
    async with (
        endpoint(tmp_path, ops_token=TOKEN) as here,
        await anyio.connect_tcp("127.0.0.1", here.computer.operations.port) as stream,
    ):
        await stream.send(b"POST /login HTTP/1.1\r\nHost: x\r\n" + form + header + b"\r\n\r\n" + body)
        with anyio.fail_after(5):
            assert (await stream.receive()).startswith(b"HTTP/1.1 40")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_token_of_other_bytes_is_the_wrong_one(tmp_path: Path) -> None:
    async with endpoint(tmp_path, ops_token=TOKEN) as here:
        for shown in (b"token=%ff", b"token=%ED%A0%80", b"token="):
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            async with here.client.post(here.url + "/login", data=shown, headers=headers) as answer:
                assert answer.status == 401


async def test_a_page_of_somebody_else_that_gives_its_name_our_address_gets_nothing(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        for path in PATHS:
            status, text = await here.get(path, headers={"Host": "evil.example"})
            assert status == 421, path
            assert "desk" not in text


async def test_nothing_can_be_changed_and_every_answer_is_hardened(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        for path in (*PATHS, "/nothing"):
            async with here.client.post(here.url + path) as answer:
                assert answer.status in (404, 405), path
            async with here.client.get(here.url + path) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff", path
                assert answer.headers["Cache-Control"] == "no-store", path
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"], path


async def test_a_port_that_is_taken_is_a_clear_failure_to_start(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        taken = here.url.removeprefix("http://")
        second = Computer.from_config(config(name="second"), options(ops=taken, home=str(tmp_path / "second")))
        with pytest.raises(StartupError) as refused:
            await second.start()
        assert (refused.value.code, refused.value.field) == ("cannot_listen", "ops")
        await second.shutdown()


async def test_counters_go_on_over_a_stop_and_a_start(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as here:
        before = here.computer.operations.tally.work["reconcile"]["GetProjectionStatus"].count
        await here.computer.stop()
        await here.computer.start()
        assert here.computer.operations.tally.work["reconcile"]["GetProjectionStatus"].count > before


async def test_without_the_option_nothing_listens(tmp_path: Path) -> None:
    async with endpoint(tmp_path, ops=None) as here:
        assert here.computer.operations.url is None
        assert "ops" not in [actor.address for actor in (await here.computer.diagnostics()).actors]
        assert b"smcp_computer_info" in await here.computer.operations.metrics()
