"""Sending a file to a Computer: hashed first, then chunk by chunk, strictly in order (C-UP-33, C-UP-34)."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import random
import stat
import tempfile
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio.to_thread
import msgspec

from ..wire.base64_text import to_base64
from ..wire.blobs import PutBlobRet
from ..wire.errors import ConfigValidationError, MalformedReplyError, NetworkError, PeerError, SmcpError
from ..wire.payload import reason_of
from ..wire.protocol import CHUNK_MAX, RETRY_ATTEMPTS_MAX
from ..wire.retry import backoff_delay
from .download import Progress

UPLOAD_REFUSED = 4019
_ANOTHER_FILE = "name a regular file that can be read"
SPOOL_IN_MEMORY = 4_194_304

Source = bytes | bytearray | memoryview | str | PathLike[str] | BinaryIO | AsyncIterable[bytes]
"""Bytes, a path, a binary file that can seek, or a stream of bytes."""


class UploadUnsupported(SmcpError):
    """This Computer takes no uploads; nothing was stored (W-BLOB-6).

    Attributes:
        payload: What was to be sent, to be used otherwise. A stream has been read by then, so its bytes are in a file
            here, at its beginning, which the caller closes.
    """

    category = "peer"
    default_code = "unsupported"
    payload: Source


class UploadFailed(SmcpError):
    """What the Computer stored is not what was sent."""

    category = "peer"
    default_code = "upload_failed"


class Uploaded(msgspec.Struct, frozen=True):
    """A finished upload: `landing_path` is for the parameters of a later tool call, verbatim (C-UP-23).

    `acknowledgement` is that of the last chunk, as the Computer sent it.
    """

    upload_id: str
    landing_path: str
    total_size: int
    sha256: str
    acknowledgement: PutBlobRet


class _Declared(msgspec.Struct, frozen=True):
    total_size: int
    sha256: str


PutChunk = Callable[..., Awaitable[PutBlobRet]]
"""`put(blob, *, offset, eof, upload_id, total_size, sha256, name_hint)`."""


async def upload(
    put: PutChunk, source: Source, *, name_hint: str | None = None, progress: Progress | None = None
) -> Uploaded:
    """Sends the whole of `source`.

    Raises:
        ConfigValidationError: It is empty, or a path that cannot be read.
        UploadUnsupported: The Computer does not know uploads (no answer to the first chunk, or an empty one).
        PeerError: The Computer refuses it.
        UploadFailed: The stored bytes differ (`integrity`), or the source changed meanwhile (`source_changed`).
        NetworkError, MalformedReplyError: A later chunk went unanswered, or was answered with nonsense.
    """
    async with AsyncExitStack() as stack:
        file = await _opened(source, stack)
        with _readable():
            declared = await anyio.to_thread.run_sync(_measure, file)
        if declared.total_size == 0:
            raise ConfigValidationError("an empty payload cannot be uploaded", field="source")
        for attempt in range(RETRY_ATTEMPTS_MAX):
            try:
                return await _send(put, file, declared, name_hint, progress)
            except UploadUnsupported as unsupported:
                unsupported.payload = source
                if isinstance(source, AsyncIterable):
                    unsupported.payload = file
                    stack.pop_all()
                    await anyio.to_thread.run_sync(file.seek, 0)
                raise
            except PeerError as refusal:
                if attempt == RETRY_ATTEMPTS_MAX - 1 or not _may_begin_anew(refusal):
                    raise
                await asyncio.sleep(backoff_delay(attempt, random.random()))
    raise AssertionError("unreachable")


async def _send(
    put: PutChunk, file: BinaryIO, declared: _Declared, name_hint: str | None, progress: Progress | None
) -> Uploaded:
    await anyio.to_thread.run_sync(file.seek, 0)
    sent, upload_id = 0, None
    ahead = asyncio.create_task(_next(file))
    try:
        while True:
            size, chunk = await ahead
            end = sent + size
            eof = end >= declared.total_size
            if not (size or eof):
                raise UploadFailed("the source became shorter while it was sent", code="source_changed")
            if not eof:
                # Sent only after the acknowledgement of this one, but made ready meanwhile.
                ahead = asyncio.create_task(_next(file))
            declaration: dict[str, Any] = {}
            if upload_id is None:
                declaration = {"total_size": declared.total_size, "sha256": declared.sha256, "name_hint": name_hint}
            ret = await _put(
                put, chunk, first=upload_id is None, offset=sent, eof=eof, upload_id=upload_id, **declaration
            )
            if ret.chunk_offset != sent or (upload_id is not None and ret.upload_id != upload_id):
                raise MalformedReplyError("the acknowledgement is of another chunk")
            sent, upload_id = end, ret.upload_id
            if progress is not None:
                progress(sent, declared.total_size)
            if eof:
                return _finished(ret, declared)
    finally:
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)


async def _next(file: BinaryIO) -> tuple[int, str]:
    """The next chunk: its size in bytes, and its base64."""

    def read() -> tuple[int, str]:
        data = file.read(CHUNK_MAX)
        return len(data), to_base64(data)

    return await anyio.to_thread.run_sync(read)


async def _put(put: PutChunk, chunk: str, *, first: bool, **fields: Any) -> PutBlobRet:
    try:
        return await put(chunk, **fields)
    except (MalformedReplyError, NetworkError) as error:
        if first and error.code in ("unsupported", "no_answer"):
            raise UploadUnsupported("uploads are not supported by this Computer") from error
        raise


def _finished(ret: PutBlobRet, declared: _Declared) -> Uploaded:
    if not isinstance(ret.landing_path, str) or not isinstance(ret.sha256, str):
        raise MalformedReplyError("the last chunk was acknowledged without a landing path and a hash")
    if ret.sha256.lower() != declared.sha256 or ret.total_size != declared.total_size:
        raise UploadFailed("the stored bytes differ from those sent", code="integrity")
    return Uploaded(ret.upload_id, ret.landing_path, declared.total_size, declared.sha256, ret)


def _may_begin_anew(refusal: PeerError) -> bool:
    """A busy Computer, a session that is gone, or bytes that got lost: a new upload from the start may work (§9.4)."""
    retried = ("busy", "invalid_upload", "range", "integrity", "io_error")
    return refusal.wire_code == UPLOAD_REFUSED and reason_of(refusal.payload) in retried


async def _opened(source: Source, stack: AsyncExitStack) -> BinaryIO:
    """The source as a file that can seek; a stream is kept aside, because its hash is sent before its bytes."""
    if isinstance(source, bytes | bytearray | memoryview):
        return io.BytesIO(source)
    if isinstance(source, str | PathLike):
        with _readable():
            return stack.enter_context(await anyio.to_thread.run_sync(_file_at, source))
    if isinstance(source, AsyncIterable):
        spool = tempfile.SpooledTemporaryFile(SPOOL_IN_MEMORY)  # noqa: SIM115  closed by the stack
        stack.callback(spool.close)
        async for data in source:
            await anyio.to_thread.run_sync(spool.write, data)
        return cast(BinaryIO, spool)
    return source


def _file_at(path: str | PathLike[str]) -> BinaryIO:
    # The hash goes out before the bytes, so they are read twice; a pipe would also wait for its writer, out of reach.
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ConfigValidationError(
            "only a regular file can be uploaded", field="source", code="not_a_file", retry_hint=_ANOTHER_FILE
        )
    return Path(path).open("rb")


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigValidationError(
            f"the file cannot be read: {error.strerror}", field="source", retry_hint=_ANOTHER_FILE
        ) from error


def _measure(file: BinaryIO) -> _Declared:
    file.seek(0)
    digest, size = hashlib.sha256(), 0
    while data := file.read(1_048_576):
        digest.update(data)
        size += len(data)
    return _Declared(size, digest.hexdigest())
