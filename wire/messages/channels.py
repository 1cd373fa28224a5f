"""What every channel of resources shares: the slice a commit gives it, and reading the bytes behind a handle."""

from __future__ import annotations

from typing import Final, Literal

from ..codec import Attachment
from ..message import Ask, Fact, Record
from .projection import Slice

RELIST_EVERY: Final = 5.0
"""Seconds between two `ResourcesRead` of one channel."""


class ResourceSlice(Record):
    """What one server contributes to the channels: its last full `resources/list` as a JSON array.

    `session` is the number of the server's session, as its listings tell it; a new one means that every cached content
    is stale. `local` says that the server runs on this machine, as a process or behind a loopback URL, so that it may
    name local directories.
    """

    bundle_id: str
    name: str
    resources: Attachment
    declared: bool = False
    subscribe: bool = False
    connected: bool = False
    session: int = 0
    local: bool = False


class ResourcesRead(Fact):
    """An Agent read a list that is made of resources; each channel says so at most once in `RELIST_EVERY` seconds.

    The cue for servers that announce no changes to be listed again in the background (DEC-4).
    """

    def coalesce_key(self) -> str:
        return "resources"


class SliceChanged(Fact):
    """Contents behind a slice changed without a commit: a window was updated, a skill file edited (R-PROJ-3).

    `signature` is that of the slice now, as in `Applied`, where the slice itself can change without a commit.
    """

    slice: Slice
    signature: str | None = None

    def coalesce_key(self) -> str:
        return self.slice


BlobKind = Literal["s", "t", "d"]
"""Producer of a handle: skill, tool result, document (C-BLOB-4)."""


class BlobSource(Record):
    """Where the bytes of a handle come from: the authenticated description inside it.

    Skills use `name` and `rel_path`; spooled contents use `content_id`, `mime_type` and `office_tag`.
    """

    kind: BlobKind
    name: str = ""
    rel_path: str = ""
    content_id: str = ""
    mime_type: str = ""
    office_tag: str = ""


class BlobSlice(Record):
    """A slice of a resource and what identifies the whole of it."""

    data: Attachment
    mime_type: str
    total_size: int
    sha256: str


class ReadSkillBytes(Ask[BlobSlice]):
    """Reads a slice of a skill file after repeating every check of `client:get_skill` (C-BLOB-8, C-BLOB-16).

    Raises `PeerError` with a 4018 payload: `gone`, `forbidden` or `range`.
    """

    name: str
    rel_path: str
    offset: int
    length: int
