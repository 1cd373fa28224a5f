"""Messages of the bus tests; also imported by `worker.py` in a process of its own."""

from __future__ import annotations

from typing import ClassVar

from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.message import Ask, Fact, Record, Tell


class BusEchoed(Record):
    """Reply of the asks below."""

    text: str = ""


class BusEcho(Ask[BusEchoed]):
    """Wants its text back."""

    text: str = ""


class BusUrgent(Ask[BusEchoed]):
    """Overtakes `BusEcho`."""

    lane: ClassVar[str] = "control"
    text: str = ""


class BusFetched(Record):
    """Reply with bytes that travel beside the body."""

    note: str
    chunk: Attachment


class BusFetch(Ask[BusFetched]):
    """Wants its bytes back."""

    chunk: Attachment


class BusNote(Tell):
    """A numbered note."""

    number: int = 0
    padding: bytes = b""


class BusElse(Fact):
    """A fact of another type."""

    number: int = 0


class BusSaid(Fact):
    """Something was said; facts about one topic replace each other unless the topic is empty."""

    number: int = 0
    topic: str = ""

    def coalesce_key(self) -> str | None:
        return self.topic or None
