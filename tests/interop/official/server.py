"""The official Server on the loopback: ``server.py [PORT]`` (a free one by default). Serves until stdin ends."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from a2c_smcp.testing.server import create_local_async_server
from commands import obey, ready


async def main(port: int = 0) -> None:
    """Until stdin ends."""
    listening = socket.create_server(("127.0.0.1", port))
    _, _, app = create_local_async_server()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))  # its socket takes connections already
    ready(url=f"http://127.0.0.1:{listening.getsockname()[1]}")
    await obey({})
    server.should_exit = True
    server.force_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
