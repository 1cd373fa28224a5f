"""What one relayed `client:tool_call` costs the Server: processor time, rate, latency.

    python benchmarks/socketio_relay.py [--calls N] [--in-flight N] [--payload BYTES] [variant …]

A Server of each variant runs in a process of its own. Agent and Computer are frames written by
hand in this process, so that what is measured is the Server; the Computer answers at once. The
processor time is that of the Server's process, which does not depend on who else uses the
machine. Rounds are interleaved and medians shown.

    ours         our Server on aiohttp and uvloop
    ours-audit   the same with the security log at INFO, as `smcp server` runs it: one line a call, here to /dev/null
    ours-asgi    our Server as an ASGI application under uvicorn with uvloop and httptools
    library      a relay that is nothing but `server.call` of python-socketio, on aiohttp and uvloop, packets by msgspec
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import psutil
import uvloop

NAMESPACE = "/smcp"


async def _ours(ready: Connection) -> None:
    from smcp_runtime.server.app import serve  # noqa: PLC0415
    from smcp_runtime.server.auth import ANONYMOUS  # noqa: PLC0415
    from smcp_runtime.server.options import ServerOptions  # noqa: PLC0415

    async with serve(options=ServerOptions(auth=ANONYMOUS)) as server:
        ready.send(server.url)
        await asyncio.Event().wait()


async def _ours_audit(ready: Connection) -> None:
    logging.basicConfig(level=logging.INFO, filename=os.devnull)
    await _ours(ready)


async def _ours_asgi(ready: Connection) -> None:
    import uvicorn  # noqa: PLC0415

    from smcp_runtime.server.app import create_asgi_app  # noqa: PLC0415
    from smcp_runtime.server.auth import ANONYMOUS  # noqa: PLC0415
    from smcp_runtime.server.options import ServerOptions  # noqa: PLC0415

    app = create_asgi_app(ServerOptions(auth=ANONYMOUS))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    ready.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    await server.serve([listening])


async def _library(ready: Connection) -> None:
    import socketio  # noqa: PLC0415
    from aiohttp import web  # noqa: PLC0415

    from smcp_runtime.server.packets import RawPacket  # noqa: PLC0415

    sio = socketio.AsyncServer(async_mode="aiohttp", serializer=RawPacket, namespaces=[NAMESPACE])
    names: dict[str, str] = {}

    async def join(sid: str, data: Any) -> tuple[bool, None]:
        names[json.loads(bytes(data))["name"]] = sid
        return True, None

    async def relay(sid: str, data: Any) -> Any:
        return await sio.call("client:tool_call", data, to=names["pc"], namespace=NAMESPACE)

    sio.on("server:join_office", join, namespace=NAMESPACE)
    sio.on("client:tool_call", relay, namespace=NAMESPACE)
    app = web.Application()
    sio.attach(app)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
    await asyncio.Event().wait()


VARIANTS: dict[str, Callable[[Connection], Awaitable[None]]] = {
    "ours": _ours,
    "ours-audit": _ours_audit,
    "ours-asgi": _ours_asgi,
    "library": _library,
}


def _run(variant: str, ready: Connection) -> None:
    os.environ["PYTHONWARNINGS"] = "ignore"
    uvloop.run(VARIANTS[variant](ready))  # type: ignore[arg-type]


class Pair:
    """An Agent and a Computer of one office, hand-framed."""

    def __init__(self, agent: aiohttp.ClientWebSocketResponse, computer: aiohttp.ClientWebSocketResponse) -> None:
        self.agent = agent
        self.computer = computer

    async def serve(self, reply: str) -> None:
        async for message in self.computer:
            frame = message.data
            if frame.startswith("42/smcp,") and "client:" in frame[:40]:
                await self.computer.send_str(f"43/smcp,{frame[8 : frame.index('[')]}[{reply}]")
            elif frame == "2":
                await self.computer.send_str("3")

    async def calls(self, count: int, in_flight: int, request: str) -> list[float]:
        """Latencies in seconds of `count` calls, `in_flight` at a time."""
        started: dict[str, float] = {}
        taken: list[float] = []
        sent = 0
        while len(taken) < count:
            while sent < count and len(started) < in_flight:
                started[str(sent)] = time.perf_counter()
                await self.agent.send_str(f"42/smcp,{sent}{request}")
                sent += 1
            frame = (await self.agent.receive()).data
            if frame == "2":
                await self.agent.send_str("3")
            elif frame.startswith("43/smcp,"):
                taken.append(time.perf_counter() - started.pop(frame[8 : frame.index("[")]))
        return taken


async def _join(http: aiohttp.ClientSession, url: str, role: str, name: str) -> aiohttp.ClientWebSocketResponse:
    websocket = await http.ws_connect(f"{url}/socket.io/?EIO=4&transport=websocket&a2c_version=0.4.0", max_msg_size=0)
    await websocket.receive_str()
    await websocket.send_str("40/smcp,")
    await websocket.receive_str()
    join = json.dumps(["server:join_office", {"role": role, "name": name, "office_id": "o"}])
    await websocket.send_str(f"42/smcp,0{join}")
    while not (await websocket.receive_str()).startswith("43/smcp,0"):
        pass
    return websocket


async def measure(url: str, pid: int, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Processor microseconds of the Server per call, calls per second, and p50 milliseconds of a lone call."""
    request = json.dumps(
        [
            "client:tool_call",
            {
                "agent": "ag",
                "req_id": "r" * 32,
                "computer": "pc",
                "tool_name": "s__t",
                "params": {"text": "x" * arguments.payload},
                "timeout": 30,
            },
        ]
    )
    reply = json.dumps({"content": [{"type": "text", "text": "y" * arguments.payload}], "isError": False})
    process = psutil.Process(pid)
    async with aiohttp.ClientSession() as http:
        pair = Pair(await _join(http, url, "agent", "ag"), await _join(http, url, "computer", "pc"))
        serving = asyncio.create_task(pair.serve(reply))
        await pair.calls(arguments.calls // 10, arguments.in_flight, request)
        before, began = sum(process.cpu_times()[:2]), time.perf_counter()
        await pair.calls(arguments.calls, arguments.in_flight, request)
        rate = arguments.calls / (time.perf_counter() - began)
        processor = (sum(process.cpu_times()[:2]) - before) / arguments.calls
        alone = statistics.median(await pair.calls(arguments.calls // 20, 1, request))
        serving.cancel()
    return processor * 1e6, rate, alone * 1e3


def main() -> None:
    """Measures the variants side by side and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", metavar="variant")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--payload", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.variants = arguments.variants or list(VARIANTS)
    if unknown := set(arguments.variants) - set(VARIANTS):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    spawn = multiprocessing.get_context("spawn")
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in arguments.variants}
    for _ in range(arguments.rounds):
        for name in arguments.variants:
            here, there = spawn.Pipe()
            process = spawn.Process(target=_run, args=(name, there), daemon=True)
            process.start()
            try:
                assert here.poll(20), f"{name} did not start"
                results[name].append(uvloop.run(measure(here.recv(), process.pid or 0, arguments)))
            finally:
                process.kill()
                process.join()
    print(f"{'variant':12} {'us of Server per call':>22} {'calls/s':>10} {'p50 alone, ms':>14}")
    for name, rounds in results.items():
        processor, rate, alone = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:12} {processor:22.0f} {rate:10.0f} {alone:14.2f}")


if __name__ == "__main__":
    sys.exit(main())
