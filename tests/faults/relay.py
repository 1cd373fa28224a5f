"""A TCP relay in a process of its own: `python relay.py PORT` prints `ready N` and passes on what comes to port N."""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def main(port: int) -> None:
    """Relays for ever."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.closing(back):
                await asyncio.wait(
                    [asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))],
                    return_when=asyncio.FIRST_COMPLETED,
                )
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes on until either side ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
