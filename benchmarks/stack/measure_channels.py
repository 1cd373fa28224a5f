"""What both Agents measure of the channels, over one set of callables; standard library only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

MB = 1_000_000


class Peer(NamedTuple):
    """One Agent's way to each channel.

    Attributes:
        desktop: The windows; their number.
        change: Makes one window show another text.
        skills: The skills; their number.
        read: Reads the blob whole with so many chunks under way; its size in bytes.
        send: Uploads these bytes.
        call: One tool call.
    """

    desktop: Callable[[], Awaitable[int]]
    change: Callable[[int], Awaitable[Any]]
    skills: Callable[[], Awaitable[int]]
    read: Callable[[int], Awaitable[int]]
    send: Callable[[bytes], Awaitable[Any]]
    call: Callable[[int], Awaitable[Any]]


async def figures(peer: Peer, plan: dict[str, Any]) -> dict[str, float]:
    """Medians in seconds, rates in MB/s."""
    result: dict[str, float] = {}
    if plan["desktops"]:
        assert await peer.desktop() == plan["windows"]
        result["get_desktop, unchanged"] = await _median(peer.desktop, plan["desktops"])
        result["get_desktop, one change"] = await _changing(peer, plan["desktops"])
    if plan["skill_lists"]:
        assert await peer.skills() == plan["skills"], await peer.skills()
        result["get_skills"] = await _median(peer.skills, plan["skill_lists"])
    if plan["blobs"]:
        size = await peer.read(1)
        result["get_blob in a row"] = size / MB / await _median(lambda: peer.read(1), plan["blobs"])
        result["get_blob, 4 at once"] = size / MB / await _median(lambda: peer.read(4), plan["blobs"])
        data = bytes(range(256)) * (size // 256)
        result["put_blob"] = len(data) / MB / await _median(lambda: peer.send(data), plan["blobs"])
    if plan["calls"]:
        quiet = await _median(lambda: peer.call(0), plan["calls"])
        result["tool_call, quiet"] = quiet
        for at_once in (1, 4):
            busy = await _beside(peer, at_once, plan["calls"])
            result[f"tool_call, blob read {at_once} at once"] = busy
            result[f"tool_call, {at_once} at once / quiet"] = busy / quiet
    return result


async def _changing(peer: Peer, times: int) -> float:
    waits = []
    for number in range(times):
        await peer.change(number)
        await asyncio.sleep(0.02)  # the announcement of the change is on its way
        waits.append(await _timed(peer.desktop()))
    return sorted(waits)[times // 2]


async def _beside(peer: Peer, at_once: int, calls: int) -> float:
    """The median of calls while a blob is read again and again."""

    async def read() -> None:
        while True:
            await peer.read(at_once)

    reading = asyncio.create_task(read())
    try:
        await asyncio.sleep(0.2)
        return await _median(lambda: peer.call(0), calls)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _median(work: Callable[[], Awaitable[Any]], times: int) -> float:
    waits = sorted([await _timed(work()) for _ in range(times)])
    return waits[times // 2]


async def _timed(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began
