"""The channels of a Computer in whole: blobs in one piece, uploads, skills as text, documents with their content.

Builds on the single requests of `requests.py`; base of `AsyncAgent`.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from os import PathLike
from pathlib import Path

import msgspec

from ..wire.documents import DocumentSummary, GetDpeRet
from ..wire.errors import MalformedReplyError, PeerError, SmcpError
from ..wire.mime import is_text
from ..wire.payload import reason_of
from ..wire.protocol import ABSOLUTE_CAP, DPE_TIMEOUT, FINDER_PAGE_MAX
from ..wire.skills import A2CSkillRef, GetSkillRet
from .chunk_fetcher import ChunkFetcher
from .download import PARALLEL, Memory, Progress, download, stream
from .requests import Requests
from .room import Room
from .tool_blobs import handles, put_back
from .tool_result import CallToolResult
from .upload import Source, Uploaded, upload
from .whole_file import WholeFile

BLOB_URI = "a2c-blob:"
SKILL_DIR = "${TFROBOT_SKILL_DIR}"
DOCUMENTS_MAX = 100_000
"""Documents of one Computer that are read; a total that grows for ever must not keep an Agent paging."""

_log = logging.getLogger(__name__)


class Blob(msgspec.Struct, frozen=True):
    """A blob read whole."""

    data: bytes
    mime_type: str
    sha256: str


class SavedBlob(msgspec.Struct, frozen=True):
    """A blob read into a file."""

    path: Path
    total_size: int
    mime_type: str
    sha256: str


class SkillFile(msgspec.Struct, frozen=True):
    """One file of a skill: `text` where it is text, else `blob_handle` for `read_blob` (C-SKILL-77)."""

    name: str
    rel_path: str
    mime_type: str
    total_size: int
    sha256: str
    text: str | None = None
    blob_handle: str | None = None

    def for_model(self, skill: A2CSkillRef) -> str:
        """The text with the directory of the skill in place of its one placeholder (C-SKILL-72).

        Raises:
            ValueError: It is no text.
        """
        if self.text is None:
            raise ValueError(f"{self.rel_path} is no text")
        return self.text.replace(SKILL_DIR, skill.path)


class Document(msgspec.Struct, frozen=True):
    """Where a document, page or element can be read, and its bytes where they came through the Computer."""

    uri: str
    mime_type: str
    size: int
    data: bytes | None = None


class Channels(Requests):
    """Desktop, skills, blobs, uploads and documents of the Computers in the office."""

    _room: Room

    # --- desktop and skills ---

    async def desktop(self, computer: str, *, size: int | None = None, window: str | None = None) -> tuple[str, ...]:
        """The windows of a Computer as text, the most relevant first."""
        return (await self.get_desktop(computer, size=size, window=window)).desktops

    async def skills(self, computer: str) -> tuple[A2CSkillRef, ...]:
        """The active skills of a Computer."""
        return (await self.get_skills(computer)).skills

    async def skill(self, computer: str, name: str, rel_path: str | None = None) -> SkillFile:
        """One file of a skill, `SKILL.md` by default; long texts are fetched too.

        Raises:
            PeerError: 4016, 4014 or 4017, as the Computer says.
            BlobUnavailable: A long text could not be read whole.
        """
        for again in (True, False):
            ret = await self.get_skill(computer, name, rel_path)
            if isinstance(ret.body, str):
                if ret.sha256.lower() != hashlib.sha256(ret.body.encode()).hexdigest():
                    raise MalformedReplyError("the text of a skill does not match its hash", code="integrity")
                return _skill_file(ret, text=ret.body)
            assert isinstance(ret.blob_handle, str)
            if not is_text(ret.mime_type):
                return _skill_file(ret, blob_handle=ret.blob_handle)
            try:
                blob = await self.read_blob(computer, ret.blob_handle)
            except PeerError as refusal:
                if again and reason_of(refusal.payload) == "gone":
                    continue  # replaced between the two requests; its producer has a fresh handle
                raise
            try:
                return _skill_file(ret, text=blob.data.decode())
            except UnicodeDecodeError:
                return _skill_file(ret, blob_handle=ret.blob_handle)
        raise AssertionError("unreachable")

    # --- blobs ---

    async def read_blob(
        self,
        computer: str,
        blob_handle: str,
        *,
        limit: int = ABSOLUTE_CAP,
        parallel: int = PARALLEL,
        progress: Progress | None = None,
    ) -> Blob:
        """A whole blob in memory, its hash verified; goes on after a lost connection, once the Computer is back too.

        Args:
            limit: Largest blob accepted, in bytes.
            parallel: Chunks under way at a time.
            progress: Hears (bytes so far, bytes in total).
        Raises:
            PeerError: 4018, as the Computer says.
            BlobUnavailable: Too large, or it changed at every attempt.
        """
        memory = Memory()
        facts = await download(
            self._chunks(computer, blob_handle),
            blob_handle,
            memory,
            limit=limit,
            parallel=parallel,
            progress=progress,
        )
        return Blob(bytes(memory.data), facts.mime_type, facts.sha256)

    async def save_blob(
        self,
        computer: str,
        blob_handle: str,
        path: str | PathLike[str],
        *,
        limit: int = ABSOLUTE_CAP,
        parallel: int = PARALLEL,
        progress: Progress | None = None,
    ) -> SavedBlob:
        """As `read_blob`, into a file; it appears under its name only once it is whole and verified.

        Raises:
            ConfigValidationError: The file cannot be written.
        """
        target = Path(path)
        file = await WholeFile.for_target(target)
        try:
            facts = await download(
                self._chunks(computer, blob_handle),
                blob_handle,
                file,
                limit=limit,
                parallel=parallel,
                progress=progress,
            )
            await file.finish()
        except BaseException:
            file.discard()
            raise
        return SavedBlob(target, facts.total_size, facts.mime_type, facts.sha256)

    async def stream_blob(
        self, computer: str, blob_handle: str, *, limit: int = ABSOLUTE_CAP, parallel: int = PARALLEL
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a blob as they arrive, in bounded memory; the end is only reached when its hash matched.

        Raises:
            BlobChanged: Its source changed after the first bytes were handed out; begin again.
            PeerError, BlobUnavailable: As `read_blob`.
        """
        fetch = self._chunks(computer, blob_handle)
        async with aclosing(stream(fetch, blob_handle, limit=limit, parallel=parallel)) as chunks:
            async for data in chunks:
                yield data

    async def upload(
        self, computer: str, source: Source, *, name_hint: str | None = None, progress: Progress | None = None
    ) -> Uploaded:
        """Sends bytes, a file or a stream to a Computer; the landing path is for parameters of later tool calls.

        Raises:
            UploadUnsupported: The Computer takes no uploads.
            PeerError: 4019, as the Computer says.
            UploadFailed: What was stored differs.
        """
        if name_hint is None and isinstance(source, str | PathLike):
            name_hint = Path(source).name

        put = functools.partial(self.put_blob, computer)
        return await upload(put, source, name_hint=name_hint, progress=progress)

    def _chunks(self, computer: str, blob_handle: str) -> ChunkFetcher:
        get = functools.partial(self.get_blob, computer, blob_handle)
        return ChunkFetcher(get, computer, self._link, self._room)

    # --- tool results ---

    async def _resolved(self, computer: str, result: CallToolResult) -> CallToolResult:
        return await self.resolve_blobs(computer, result) if handles(result) else result

    async def resolve_blobs(self, computer: str, result: CallToolResult) -> CallToolResult:
        """A tool result with the binaries behind its handles put back (C-BLOB-39).

        What cannot be fetched keeps its handle, and `unresolved` says why.
        """
        fetched: dict[int, bytes] = {}
        failed: dict[int, str] = {}
        for handle in handles(result):
            memory = Memory()
            source = self._chunks(computer, handle.blob_handle)
            try:
                await download(source, handle.blob_handle, memory, size=handle.size, sha256=handle.sha256)
                fetched[handle.index] = bytes(memory.data)
            except SmcpError as error:
                _log.warning("a blob of a tool result could not be fetched: %s", error)
                failed[handle.index] = f"content item {handle.index}: {error}"
        return put_back(result, fetched, failed)

    # --- documents ---

    async def documents(
        self, computer: str, *, tags: Sequence[str] = (), file_type: str | None = None
    ) -> tuple[DocumentSummary, ...]:
        """All documents of a Computer that pass the filters.

        Raises:
            MalformedReplyError: The peer has no document channel (`unsupported`), or more than `DOCUMENTS_MAX`
                documents (`endless_list`).
        """
        found: list[DocumentSummary] = []
        while True:
            page = await self.list_finder(
                computer, tags=tags, file_type=file_type, offset=len(found), limit=FINDER_PAGE_MAX
            )
            found.extend(page.documents)
            if not page.documents or len(found) >= page.total_count:
                return tuple(found)
            if len(found) >= DOCUMENTS_MAX:
                raise MalformedReplyError(f"the list of documents goes on after {len(found)}", code="endless_list")

    async def open_document(
        self,
        computer: str,
        uri: str,
        *,
        timeout: float = DPE_TIMEOUT,
        limit: int = ABSOLUTE_CAP,
        progress: Progress | None = None,
    ) -> Document:
        """Resolves a `dpe://` URI; content the Computer holds itself is read as well, other access URIs are returned.

        Raises:
            PeerError: 4011 to 4013 or 4201 to 4203, as the Computer says; never retried (C-DOC-25).
            MalformedReplyError: The peer has no document channel (`unsupported`).
            BlobUnavailable: The content could not be read whole.
        """
        for again in (True, False):
            ret: GetDpeRet = await self.get_dpe(computer, uri, timeout=timeout)
            if not ret.uri.startswith(BLOB_URI):
                return Document(ret.uri, ret.mime_type, ret.size)
            try:
                blob = await self.read_blob(computer, ret.uri[len(BLOB_URI) :], limit=limit, progress=progress)
                return Document(ret.uri, ret.mime_type, ret.size, blob.data)
            except PeerError as refusal:
                if not (again and reason_of(refusal.payload) == "gone"):
                    raise
        raise AssertionError("unreachable")


def _skill_file(ret: GetSkillRet, *, text: str | None = None, blob_handle: str | None = None) -> SkillFile:
    return SkillFile(ret.name, ret.rel_path, ret.mime_type, ret.total_size, ret.sha256, text, blob_handle)
