"""Answers of the channels beside tools: desktop, skills, blobs both ways, documents (02 §0).

One way for each event: what was asked becomes a message to the owner of that channel, and
its reply, which is JSON already, becomes the acknowledgement. Bytes of a blob are encoded
here, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import UNSET

from ...wire import events, payload
from ...wire.base import Structure, to_json
from ...wire.blobs import GetBlobReq
from ...wire.codec import Attachment
from ...wire.documents import GetDpeReq, ListFinderReq
from ...wire.envelope import Address
from ...wire.errors import ActorLost, BusError, DeadlineExceeded
from ...wire.messages.blobs import GetBlobChunk, ReceiveChunk
from ...wire.messages.desktop import GetDesktop
from ...wire.messages.finder import ListDocuments, OpenDocument
from ...wire.messages.skills import GetSkillFile, ListSkills
from ...wire.payload import ErrorPayload
from ...wire.resources import GetDeskTopReq
from ...wire.skills import SKILL_ENTRY, GetSkillReq, GetSkillsReq
from .answers import embed, extended, refusal
from .owners import ANSWER_LIMIT, Owners
from .requests import Upload

DESKTOP: Final = Address("desktop")
SKILLS: Final = Address("skills")
BLOBS: Final = Address("blobs")
FINDER: Final = Address("finder")

MARGIN: Final = 1.0
"""Seconds by which an ask outlives the limit its owner keeps to by itself."""


Way = Callable[[Any], Awaitable[bytes]]


class _BlobAnswer(Structure, frozen=True, kw_only=True):
    """GetBlobRet with its bytes, which become base64 as the answer is encoded, in one pass (C-BLOB-11)."""

    blob_handle: str
    mime_type: str
    total_size: int
    sha256: str
    chunk_offset: int
    eof: bool
    blob: bytes
    req_id: str


class ChannelAnswers:
    """The ways of one Computer."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self.ways: Mapping[str, Way] = {
            events.CLIENT_GET_DESKTOP: self._get_desktop,
            events.CLIENT_GET_SKILLS: self._get_skills,
            events.CLIENT_GET_SKILL: self._get_skill,
            events.CLIENT_GET_BLOB: self._get_blob,
            events.CLIENT_PUT_BLOB: self._put_blob,
            events.CLIENT_LIST_FINDER: self._list_finder,
            events.CLIENT_GET_DPE: self._get_dpe,
        }

    async def _get_desktop(self, request: GetDeskTopReq) -> bytes:
        message = GetDesktop(_given(request.desktop_size), _given(request.window))
        desktop = await self._owners.read(DESKTOP, message, ANSWER_LIMIT + MARGIN)
        return embed(request.req_id, desktops=desktop.desktops.data)

    async def _get_skills(self, request: GetSkillsReq) -> bytes:
        listed = await self._owners.read(SKILLS, ListSkills())
        return embed(request.req_id, skills=listed.skills.data)

    async def _get_skill(self, request: GetSkillReq) -> bytes:
        rel_path = _given(request.rel_path)
        try:
            message = GetSkillFile(request.name, rel_path)
            found = await self._owners.read(SKILLS, message, ANSWER_LIMIT + MARGIN)
        except DeadlineExceeded:
            return refusal(payload.skill_resource_refused("not_found", rel_path or SKILL_ENTRY))
        return extended(found.fields.data, request.req_id)

    async def _get_blob(self, request: GetBlobReq) -> bytes:
        message = GetBlobChunk(request.blob_handle, _offset(request.chunk_offset), _given(request.max_chunk_bytes))
        try:
            chunk = await self._owners.read(BLOBS, message, ANSWER_LIMIT + MARGIN)
        except DeadlineExceeded:
            return refusal(payload.blob_refused("gone"))
        return to_json(
            _BlobAnswer(
                blob_handle=request.blob_handle,
                mime_type=chunk.mime_type,
                total_size=chunk.total_size,
                sha256=chunk.sha256,
                chunk_offset=chunk.offset,
                eof=chunk.eof,
                blob=chunk.data.data,
                req_id=request.req_id,
            )
        )

    async def _put_blob(self, request: Upload) -> bytes:
        message = ReceiveChunk(request.agent, Attachment(request.body))
        try:
            # Never asked twice: a chunk that was written is not written again.
            taken = await self._owners.ask(BLOBS, message, ANSWER_LIMIT + MARGIN)
        except ActorLost:
            return refusal(_lost_upload(request.upload_id))
        except BusError:
            return refusal(payload.upload_refused("io_error", _text(request.upload_id)))
        return extended(taken.fields.data, request.req_id)

    async def _list_finder(self, request: ListFinderReq) -> bytes:
        message = ListDocuments(request.tags, _given(request.file_type), request.offset, request.page_size)
        page = await self._owners.read(FINDER, message)
        return embed(request.req_id, documents=page.documents.data, total_count=b"%d" % page.total_count)

    async def _get_dpe(self, request: GetDpeReq) -> bytes:
        limit = request.effective_timeout
        try:
            found = await self._owners.read(FINDER, OpenDocument(request.uri, limit), limit + MARGIN)
        except DeadlineExceeded:
            return refusal(payload.resolution_failed(request.uri, "timeout"))
        return embed(
            request.req_id, uri=to_json(found.uri), mime_type=to_json(found.mime_type), size=b"%d" % found.size
        )


def _lost_upload(upload_id: Any) -> ErrorPayload:
    """The owner of the sessions died: those are gone with it, and a first chunk may be sent anew (C-GEN-15)."""
    if upload_id is None:
        return payload.upload_refused("io_error")
    return payload.upload_refused("invalid_upload", _text(upload_id))


def _offset(value: Any) -> Any:
    """The offset as it was sent; an integer that no message can carry is as much out of range as -1 (C-BLOB-9)."""
    return -1 if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _given(value: Any) -> Any:
    return None if value is UNSET else value
