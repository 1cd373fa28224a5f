"""Reading a blob: chunk by chunk or several at once, to wherever the bytes shall go (C-BLOB-36…38)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol

from ..wire.blobs import GetBlobRet
from ..wire.errors import PeerError, SmcpError
from ..wire.payload import reason_of
from ..wire.protocol import ABSOLUTE_CAP, CHUNK_MAX
from .blob_assembly import Assembly, BlobChanged, BlobUnavailable, Facts

ATTEMPTS = 3
"""How often a blob whose source changes is begun (D-32)."""
PARALLEL = 4

Progress = Callable[[int, int], None]
"""Hears (bytes so far, bytes in total) after each chunk; goes back when reading starts over."""

FetchChunk = Callable[[int, int], Awaitable[GetBlobRet]]
"""Asks for the chunk at an offset, of at most so many bytes."""


class Sink(Protocol):
    """Where the bytes go."""

    async def restart(self) -> None:
        """Forgets what was written. Called before the first byte too.

        Raises:
            SmcpError: It cannot.
        """

    async def write(self, data: bytes) -> None:
        """Takes the next bytes."""


class Memory:
    """Collects a blob."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def restart(self) -> None:
        self.data.clear()

    async def write(self, data: bytes) -> None:
        self.data += data


async def download(
    fetch: FetchChunk,
    blob_handle: str,
    sink: Sink,
    *,
    limit: int = ABSOLUTE_CAP,
    size: int | None = None,
    sha256: str | None = None,
    parallel: int = PARALLEL,
    progress: Progress | None = None,
) -> Facts:
    """Reads a whole blob into `sink`, beginning again when its source changes.

    Args:
        limit: Largest blob accepted.
        size, sha256: What the producer of the handle promised.
        parallel: Chunks under way at a time.
    Raises:
        PeerError: The peer refuses it.
        BlobUnavailable: Too large (`blob_too_large`), or it changed at every attempt (`max_retries_exceeded`).
        MalformedReplyError: The chunks make no sense.
        NetworkError: No answer, or the connection was lost.
    """
    for _attempt in range(ATTEMPTS):
        assembly = Assembly(blob_handle, limit=limit, size=size, sha256=sha256)
        await sink.restart()
        try:
            async with aclosing(_chunks(fetch, assembly, parallel)) as chunks:
                async for data in chunks:
                    assembly.add(data)
                    await sink.write(data)
                    if progress is not None:
                        progress(assembly.received, assembly.facts.total_size)
            return assembly.finish()
        except BlobChanged:
            pass
        except PeerError as refusal:
            # Only a race of chunks can ask beyond an end that moved; in a row the same refusal is final.
            if parallel == 1 or reason_of(refusal.payload) != "range":
                raise
        parallel = 1
    raise BlobUnavailable(f"the blob changed during all {ATTEMPTS} attempts", code="max_retries_exceeded")


async def stream(
    fetch: FetchChunk, blob_handle: str, *, limit: int = ABSOLUTE_CAP, parallel: int = PARALLEL
) -> AsyncGenerator[bytes, None]:
    """The bytes of a blob in order; begins again only while nothing was handed out.

    Raises:
        BlobChanged: The source changed after that.
        PeerError, BlobUnavailable, MalformedReplyError, NetworkError: As `download`.
    """
    for _attempt in range(ATTEMPTS):
        assembly = Assembly(blob_handle, limit=limit)
        try:
            async with aclosing(_chunks(fetch, assembly, parallel)) as chunks:
                async for data in chunks:
                    assembly.add(data)
                    yield data
            assembly.finish()
            return
        except BlobChanged:
            if assembly.received:
                raise
    raise BlobUnavailable(f"the blob changed during all {ATTEMPTS} attempts", code="max_retries_exceeded")


async def _chunks(fetch: FetchChunk, assembly: Assembly, parallel: int) -> AsyncGenerator[bytes, None]:
    """The checked bytes, in order. After the first chunk several are under way."""
    first = await _range(fetch, assembly, 0, None)
    yield first
    total = assembly.facts.total_size
    starts = iter(range(len(first), total, CHUNK_MAX))
    under_way: deque[asyncio.Task[bytes]] = deque()
    try:
        while True:
            while len(under_way) < max(parallel, 1) and (start := next(starts, None)) is not None:
                end = min(start + CHUNK_MAX, total)
                under_way.append(asyncio.ensure_future(_range(fetch, assembly, start, end)))
            if not under_way:
                return
            try:
                data = await under_way[0]
            except SmcpError as error:
                raise _gravest(error, under_way) from None
            under_way.popleft()
            yield data
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _range(fetch: FetchChunk, assembly: Assembly, start: int, end: int | None) -> bytes:
    """The bytes from `start` to `end` (`None`: one chunk), in several requests where the peer gives less."""
    parts: list[bytes] = []
    while True:
        wanted = CHUNK_MAX if end is None else min(end - start, CHUNK_MAX)
        data = assembly.check(start, await fetch(start, wanted))[:wanted]
        parts.append(data)
        start += len(data)
        if end is None or start >= end:
            return b"".join(parts)


def _gravest(error: SmcpError, under_way: deque[asyncio.Task[bytes]]) -> SmcpError:
    """Of all that failed together: a fatal reason before a change, a change before a range (C-BLOB-38)."""
    failed: list[Any] = [task.exception() for task in under_way if task.done() and not task.cancelled()]
    return max([error, *(other for other in failed if isinstance(other, SmcpError))], key=_gravity)


def _gravity(error: SmcpError) -> int:
    if isinstance(error, BlobChanged):
        return 1
    return 0 if isinstance(error, PeerError) and reason_of(error.payload) == "range" else 2
