"""What `desktop` answers: the organised windows of all servers."""

from __future__ import annotations

from ..codec import Attachment
from ..message import Ask, Record
from .channels import ResourceSlice
from .tools import Applied


class ApplyDesktop(Ask[Applied]):
    """Replaces the desktop's slice with that of commit `number`, servers ordered by bundle_id."""

    lane = "control"
    number: int
    servers: tuple[ResourceSlice, ...]


class Desktop(Record):
    """`desktops` is the JSON array of rendered entries (C-DESK-24)."""

    desktops: Attachment


class GetDesktop(Ask[Desktop]):
    """One `client:get_desktop`: at most `size` entries, `None` for all; `window` filters exactly (C-DESK-12, -13)."""

    size: int | None = None
    window: str | None = None
