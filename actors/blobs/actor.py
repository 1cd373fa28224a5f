"""BlobActor: handles for large contents, slices of them, and uploads into the landing root.

Downloads are stateless: every chunk verifies its handle and asks the producer again.
Uploads are bounded sessions, each with one chunk in work at a time. Files are touched in
worker threads, so that a big chunk never holds up a call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from ...wire.blobs import PutBlobRet
from ...wire.codec import Attachment
from ...wire.envelope import Address
from ...wire.errors import SmcpError, StartupError
from ...wire.messages.blobs import (
    BlobChunk,
    BlobTicket,
    ChangeOffice,
    EndUploads,
    GetBlobChunk,
    KeepFile,
    KeptFile,
    MintHandle,
    PutAnswer,
    ReceiveChunk,
    SpoolBytes,
)
from ...wire.messages.channels import BlobSlice, BlobSource, ReadSkillBytes
from ...wire.payload import blob_refused, upload_refused
from ...wire.protocol import CHUNK_MAX
from ..kernel import Actor, handler
from .eviction import Quota
from .handle import InvalidHandle, Minter, bounded_type
from .key import load_key
from .spool import Spool, SpoolFull
from .upload_desk import UploadDesk
from .uploads import UploadLimits

logger = logging.getLogger(__name__)

SKILLS = Address("skills")
T = TypeVar("T")


class BlobSettings(msgspec.Struct, frozen=True):
    """Places and limits, times in seconds (02 §F: D-12, D-25, D-27…36).

    Attributes:
        computer: Protocol name; handles of another one are invalid here.
        state_dir: Keeps the key of handles.
        spool_dir: `<blob cache root>/.blobspool`.
        landing_root: Asked while it is unset; `None` refuses every upload.
        office: Where the Computer is when this actor starts, `""` for nowhere; a restarted one goes on there.
    """

    computer: str
    state_dir: Path
    spool_dir: Path
    landing_root: Callable[[], str | None] = lambda: None
    office: Callable[[], str] = str
    chunk_max: int = CHUNK_MAX
    parallel_reads: int = 8
    uploads: UploadLimits = UploadLimits()
    quota: Quota = Quota()
    collect_every: float = 600.0
    persistent: bool = True


class BlobActor(Actor):
    """Owner of handles, spool and uploads."""

    def __init__(self, settings: BlobSettings) -> None:
        self._settings = settings
        self._spool = Spool(settings.spool_dir, settings.quota)
        self._office = settings.office()
        self._minter: Minter
        self._uploads: UploadDesk
        self._threads: anyio.CapacityLimiter

    async def started(self) -> None:
        self._threads = anyio.CapacityLimiter(self._settings.parallel_reads)
        self._minter = Minter(await self._in_thread(load_key, self._settings.state_dir), self._settings.computer)
        self._uploads = UploadDesk(self._settings.uploads, self._settings.landing_root, self.now, self._threads)
        self.tasks.start_soon(self._collect)
        self.tasks.start_soon(self._uploads.expire)

    async def stopping(self) -> None:
        await self._uploads.close()
        await self._in_thread(partial(self._spool.close, persistent=self._settings.persistent))

    # -- handles and chunks -----------------------------------------------------------

    @handler
    def mint(self, message: MintHandle) -> BlobTicket:
        """A handle for bytes that stay where they are."""
        return BlobTicket(self._minter.mint(message.source), message.total_size, message.sha256)

    @handler(concurrent=16)
    async def spool(self, message: SpoolBytes) -> BlobTicket:
        """Keeps bytes in the spool, bound to the present office."""
        data, mime_type = message.data.data, bounded_type(message.mime_type)
        content_id = await self._stored(self._spool.store, data, mime_type)
        kind: Any = message.kind
        office_tag = self._minter.office_tag(self._office)
        source = BlobSource(kind, content_id=content_id, mime_type=mime_type, office_tag=office_tag)
        return BlobTicket(self._minter.mint(source), len(data), content_id)

    @handler(concurrent=16)
    async def keep(self, message: KeepFile) -> KeptFile:
        """Keeps bytes as a file for Agents on the same filesystem."""
        return KeptFile(str(await self._stored(self._spool.store_file, message.data.data)))

    @handler(concurrent=64)
    async def get(self, message: GetBlobChunk) -> BlobChunk:
        """One slice, after the checks of C-BLOB-7…10 in their order."""
        try:
            source = self._minter.verify(message.handle)
        except InvalidHandle:
            raise blob_refused("invalid_handle").to_error() from None
        offset = 0 if message.offset is None else message.offset
        wanted = message.max_bytes if message.max_bytes and message.max_bytes > 0 else self._settings.chunk_max
        length = min(wanted, self._settings.chunk_max)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            # The producer is asked all the same: a removed source outranks a bad offset (C-BLOB-8, C-BLOB-9).
            await self._slice(source, 0, 0)
            raise blob_refused("range").to_error()
        part = await self._slice(source, offset, length)
        end = offset + len(part.data.data)
        return BlobChunk(part.data, part.mime_type, part.total_size, part.sha256, offset, end == part.total_size)

    # -- uploads ----------------------------------------------------------------------

    @handler(concurrent=32)
    async def receive(self, message: ReceiveChunk) -> PutAnswer:
        """One chunk of an upload."""
        try:
            request = msgspec.json.decode(message.request.data, type=dict[str, Any])
        except msgspec.DecodeError:
            raise upload_refused("invalid_declaration").to_error() from None
        reply: PutBlobRet = await self._uploads.receive(request, agent=message.agent, office=self._office)
        fields = msgspec.to_builtins(reply)
        fields.pop("req_id", None)
        return PutAnswer(Attachment(msgspec.json.encode(fields)))

    @handler
    async def change_office(self, message: ChangeOffice) -> None:
        """Handles of the old office stop working, its uploads end (C-BLOB-16, C-UP-27)."""
        if message.office_id != self._office:
            self._office = message.office_id
            await self._uploads.discard()

    @handler
    async def end_uploads(self, message: EndUploads) -> None:
        """Uploads end with the stay of the Agent."""
        await self._uploads.discard()

    # -- inside -----------------------------------------------------------------------

    async def _slice(self, source: BlobSource, offset: int, length: int) -> BlobSlice:
        if source.kind == "s":
            return await self.ask(SKILLS, ReadSkillBytes(source.name, source.rel_path, offset, length))
        if source.office_tag != self._minter.office_tag(self._office) or not self._office:
            raise blob_refused("forbidden").to_error()
        try:
            data, size = await self._in_thread(_read, self._spool, source.content_id, offset, length)
        except FileNotFoundError:
            raise blob_refused("gone").to_error() from None
        if offset > size:
            raise blob_refused("range", size).to_error()
        return BlobSlice(Attachment(data), source.mime_type, size, source.content_id)

    async def _stored(self, store: Callable[..., T], *arguments: Any) -> T:
        try:
            return await self._in_thread(store, *arguments)
        except SpoolFull:
            raise StartupError("the spool has no room", code="spool_full") from None
        except OSError as error:
            raise StartupError(f"the spool cannot be written to: {error.strerror}", code="spool_unwritable") from None

    async def _collect(self) -> None:
        while True:
            try:
                gone = await self._in_thread(self._spool.collect)
            except (OSError, SmcpError) as error:
                logger.warning("the spool could not be collected: %s", type(error).__name__)
            else:
                if gone:
                    logger.info("%d spooled contents were collected", gone)
            await anyio.sleep(self._settings.collect_every)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=self._threads)


def _read(spool: Spool, content_id: str, offset: int, length: int) -> tuple[bytes, int]:
    descriptor, size = spool.open(content_id)
    try:
        return os.pread(descriptor, length, offset), size
    finally:
        os.close(descriptor)
