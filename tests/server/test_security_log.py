"""What a running Server writes about its peers, and what never (W-SRV-7, W-SRV-8)."""

from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from smcp_runtime.server.auth import TokenAuth
from smcp_runtime.server.options import ServerOptions
from support.office import request, tool_call
from support.raw_socket import member, raw_peer
from support.servers import serving

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-SRV-7", "W-SRV-8", "W-ARCH-8")]

SECURITY = "smcp_runtime.server.security"


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == SECURITY and r.levelno == level]


async def test_no_log_of_ours_or_of_the_socket_libraries_holds_arguments_results_credentials_or_blobs(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        serving(kind, ServerOptions(auth=TokenAuth(["s3cret-token"]))) as server,
        raw_peer(server.url) as pc,
        raw_peer(server.url, transport="polling") as ag,
    ):
        for peer, role in ((pc, "computer"), (ag, "agent")):
            await peer.connect('{"token":"s3cret-token","password":"s3cret-password"}')
            assert await peer.join(role, role) == [True, None]
        calls = [
            ("client:tool_call", tool_call("computer", params={"key": "s3cret-argument"})),
            ("client:put_blob", request("computer", blob="s3cret-blob")),
            ("client:tool_call", tool_call("computer", params="s3cret-malformed")),
            ("client:get_tools", request("nobody", note="s3cret-refused")),
            ("unknown:event", {"x": "s3cret-unknown"}),
        ]
        for event, payload in calls[:2]:
            waiting = asyncio.create_task(ag.call(event, payload))
            await pc.answer(await pc.next(lambda frame: "client:" in frame), {"content": "s3cret-result"})
            await waiting
        for event, payload in calls[2:]:
            await ag.call(event, payload)
        await ag.send('2/smcp,5["broken",{"a":"s3cret-broken"', "9s3cret-nonsense", '0/smcp,{"a":"s3cret-json"')
        await ag.settle()
    # What a host's web server writes at DEBUG is its own affair.
    hosts = ("asyncio", "werkzeug", "uvicorn")
    kept = [record for record in caplog.records if not record.name.startswith(hosts)]
    ours = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in kept)
    assert "s3cret" not in ours
    assert lines(caplog, logging.INFO)


async def test_refusals_are_warnings_and_sensitive_operations_information(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, SECURITY)
    async with (
        serving(kind) as server,
        member(server.url, "computer", "pc") as pc,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "far", "o2"),
    ):
        waiting = asyncio.create_task(ag.call("client:tool_call", tool_call(req_id="req-77")))
        await pc.answer(await pc.next(lambda frame: "client:" in frame), {})
        await waiting
        await ag.call("client:get_tools", request("far"))
        await pc.call("client:get_tools", request("pc"))
        await pc.emit("server:update_config", {"computer": "somebody else"})
        await pc.settle()
        await raw_refused(server.url)
        told = lines(caplog, logging.INFO)
        warned = lines(caplog, logging.WARNING)
    assert [line.split()[0] for line in told].count("joined") == 3
    [audit] = [line for line in told if line.startswith("relayed")]
    for part in (
        'event="client:tool_call"',
        'req_id="req-77"',
        f'sid="{ag.sid}"',
        'office="o1"',
        'address="127.0.0.1"',
    ):
        assert part in audit
    assert [line.rsplit("code=")[1] for line in warned] == ["4104", "403", "403", "4008"]
    assert all('address="127.0.0.1"' in line and "user_agent=" in line for line in warned)
    assert warned[3].startswith("handshake refused")


async def raw_refused(url: str) -> None:
    with pytest.raises(AssertionError):
        async with raw_peer(url, version="0.3.0"):
            pass


async def test_a_request_that_is_no_http_is_one_line_with_the_address_and_nothing_it_held(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving("aiohttp") as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        writer.write(b"GET / HTTP/1.1\r\nAuthorization: Bearer " + b"s3cret" * 5000 + b"\r\n\r\n")
        with anyio.fail_after(5):
            assert b"400" in await reader.readline()
        writer.close()
    assert [record.getMessage() for record in caplog.records] == ['malformed request address="127.0.0.1" code=400']
    assert lines(caplog, logging.WARNING)
