"""Clients of python-socketio, which official peers are made of, on every stack."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import socketio

from smcp_runtime.server import ServerOptions, TokenAuth, serve
from smcp_runtime.wire.protocol import NAMESPACE
from support.office import request, tool_call
from support.raw_socket import member
from support.servers import Serving, open_options, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.spec("W-ARCH-2", "W-ARCH-7"),
    # The library's client leaves connections to the garbage collector now and then.
    pytest.mark.filterwarnings("ignore:Exception ignored in.*Connection:pytest.PytestUnraisableExceptionWarning"),
]

QUIET = logging.getLogger("tests.library")


@contextlib.asynccontextmanager
async def library_client(url: str, *, transports: list[str] | None = None, **options: Any) -> AsyncIterator[Any]:
    client = socketio.AsyncClient(logger=QUIET, engineio_logger=QUIET, **options)
    try:
        await client.connect(f"{url}?a2c_version=0.4.0", namespaces=[NAMESPACE], transports=transports, wait_timeout=5)
        yield client
    finally:
        await client.shutdown()


async def join(client: Any, role: str, name: str) -> None:
    answer = await client.call(
        "server:join_office", {"role": role, "name": name, "office_id": "o1"}, namespace=NAMESPACE, timeout=5
    )
    assert list(answer) == [True, None]


@pytest.mark.parametrize(
    ("transports", "ends_on"), [(None, "websocket"), (["polling"], "polling"), (["websocket"], "websocket")]
)
async def test_it_connects_joins_calls_and_answers(server: Serving, transports: list[str] | None, ends_on: str) -> None:
    async with library_client(server.url, transports=transports) as pc, library_client(server.url) as ag:
        assert pc.transport() == ends_on
        told: asyncio.Queue[Any] = asyncio.Queue()
        ag.on("notify:enter_office", told.put, namespace=NAMESPACE)

        async def run(data: dict[str, Any]) -> dict[str, Any]:
            return {"content": [], "isError": False, "echo": data["params"]}

        pc.on("client:tool_call", run, namespace=NAMESPACE)
        await join(ag, "agent", "ag")
        await join(pc, "computer", "pc")
        with anyio.fail_after(5):
            assert await told.get() == {"office_id": "o1", "computer": "pc"}
        result = await ag.call("client:tool_call", tool_call(params={"ü": [1.5]}), namespace=NAMESPACE, timeout=5)
        assert result["echo"] == {"ü": [1.5]}


@pytest.mark.spec("W-EVT-3", "W-SRV-4")
async def test_a_computer_that_does_not_know_an_event_costs_the_agent_no_wait(server: Serving) -> None:
    async with library_client(server.url) as pc, member(server.url, "agent", "ag") as ag:
        await join(pc, "computer", "pc")
        [error] = await ag.call("client:put_blob", request("pc"))
        assert error["code"] == 500


@pytest.mark.spec("F-76", "DEC-17")
async def test_a_polling_client_sends_and_receives_200_notices_in_one_go_and_stays(server: Serving) -> None:
    async with (
        library_client(server.url, transports=["polling"]) as pc,
        library_client(server.url, transports=["polling"]) as ag,
    ):
        lost: list[str] = []
        told: asyncio.Queue[Any] = asyncio.Queue()
        for client in (pc, ag):
            client.on("disconnect", lost.append, namespace=NAMESPACE)
        ag.on("notify:update_tool_list", told.put, namespace=NAMESPACE)
        await join(pc, "computer", "pc")
        await join(ag, "agent", "ag")
        async with anyio.create_task_group() as tasks:
            for _ in range(200):
                tasks.start_soon(pc.emit, "server:update_tool_list", {"computer": "pc"}, NAMESPACE)
        with anyio.fail_after(10):
            for _ in range(200):
                assert await told.get() == {"computer": "pc"}
        assert lost == []
        assert await pc.call("still:there", namespace=NAMESPACE, timeout=5) is None


@pytest.mark.spec("W-ROOM-25", "E-21")
async def test_disconnecting_properly_is_a_leave(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag:
        async with library_client(server.url) as pc:
            await join(pc, "computer", "pc")
            await ag.next()
        assert await ag.next() == '2/smcp,["notify:leave_office",{"office_id":"o1","computer":"pc"}]'


@pytest.mark.spec("W-AUTH-5")
async def test_a_refused_client_gets_a_connection_error_and_never_a_session(kind: str) -> None:
    connected: list[str] = []
    async with serving(kind, ServerOptions(auth=TokenAuth(["t"]))) as server:
        client = socketio.AsyncClient(logger=QUIET, engineio_logger=QUIET, reconnection=False)
        client.on("connect", lambda: connected.append("yes"), namespace=NAMESPACE)
        with pytest.raises(socketio.exceptions.ConnectionError):
            await client.connect(f"{server.url}?a2c_version=0.4.0", namespaces=[NAMESPACE], auth={"token": "x"})
        assert connected == []


@pytest.mark.spec("W-HS-5", "H-2", "W-HS-22")
async def test_a_client_of_another_version_can_read_why() -> None:
    # On aiohttp, which sends head and body as one: the library closes its connection before it reads the body.
    client = socketio.AsyncClient(logger=QUIET, engineio_logger=QUIET, reconnection=False)
    async with serving("aiohttp") as server:
        with pytest.raises(socketio.exceptions.ConnectionError) as caught:
            await client.connect(f"{server.url}?a2c_version=0.3.0", namespaces=[NAMESPACE])
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.args[1]["code"] == 4008


@pytest.mark.spec("W-ROOM-27", "W-ROOM-25")
async def test_a_client_comes_back_by_itself_after_the_server_restarted() -> None:
    back = asyncio.Event()
    async with contextlib.AsyncExitStack() as first:
        running = await first.enter_async_context(serve(options=open_options()))
        async with library_client(running.url, reconnection_delay=0.05, randomization_factor=0) as client:
            await join(client, "computer", "pc")
            client.on("connect", back.set, namespace=NAMESPACE)
            await first.aclose()
            async with serve(port=running.port, options=open_options()):
                with anyio.fail_after(10):
                    await back.wait()
                await join(client, "computer", "pc")
