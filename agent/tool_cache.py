"""The tools of every Computer in the office, kept current by notifications.

A pure core: it is told what happened and answers with what to fetch; whoever runs it
fetches and tells it the outcome. For each Computer at most one fetch is under way, and
an answer that was overtaken by a newer change is thrown away (W-AGT-2).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from ..wire.tools import SMCPTool

Freshness = Literal["fresh", "refreshing", "failed"]


class ListRoom(msgspec.Struct, frozen=True):
    """Order: list the office, then call `listed`."""

    epoch: int


class FetchTools(msgspec.Struct, frozen=True):
    """Order: fetch the tools of a Computer, then call `fetched` or `failed`."""

    computer: str
    ticket: int


Order = ListRoom | FetchTools


class _Entry(msgspec.Struct):
    ticket: int
    tools: tuple[SMCPTool, ...] = ()
    fetching: bool = False
    dirty: bool = False
    error: str | None = None


class ToolCache:
    """Tools by Computer.

    Every method that takes a fact returns the orders it causes.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._tickets = 0
        self._epoch = 0
        self._listed = False
        self._complete = False
        self._gone: set[str] = set()

    # --- what happened ---

    def joined(self) -> list[Order]:
        """The office was joined, for the first time or again: whatever was known is void (W-ROOM-27, W-AGT-10)."""
        self.outside()
        return [ListRoom(self._epoch)]

    def outside(self) -> None:
        """The connection or the office is gone."""
        self._entries.clear()
        self._epoch += 1
        self._listed = self._complete = False
        self._gone.clear()

    def listed(self, epoch: int, computers: Iterable[str] | None) -> list[Order]:
        """The office holds these Computers (`None`: it cannot be listed); who came or went since is known already."""
        if epoch != self._epoch:
            return []
        self._listed, self._complete = True, computers is not None
        new = [computer for computer in computers or () if computer not in self._entries and computer not in self._gone]
        return [order for computer in new for order in self.entered(computer)]

    def entered(self, computer: str) -> list[Order]:
        """A Computer came; one of that name that was here before is another one now."""
        self._tickets += 1
        self._gone.discard(computer)
        self._entries[computer] = _Entry(self._tickets)
        return self._fetch(computer)

    def left(self, computer: str) -> None:
        """A Computer went, and its tools with it (E-21)."""
        self._entries.pop(computer, None)
        if not self._listed:
            self._gone.add(computer)

    def changed(self, computer: str, *, tools: bool) -> list[Order]:
        """Something changed at a Computer: its tool list, which is cleared (E-23), or its configuration (E-22)."""
        entry = self._entries.get(computer)
        if entry is None:
            return [] if self._complete else self.entered(computer)
        if tools:
            entry.tools = ()
        if entry.fetching:
            entry.dirty = True
            return []
        return self._fetch(computer)

    def fetched(self, order: FetchTools, tools: tuple[SMCPTool, ...]) -> list[Order]:
        """The tools arrived. Overtaken by a change they are fetched again, for they may be older than it."""
        entry = self._entry_of(order)
        if entry is None:
            return []
        entry.fetching = False
        if entry.dirty:
            return self._fetch(order.computer)
        entry.tools, entry.error = tools, None
        return []

    def failed(self, order: FetchTools, error: str) -> list[Order]:
        """The fetch failed for good; a change meanwhile starts another one."""
        entry = self._entry_of(order)
        if entry is None:
            return []
        entry.fetching = False
        if entry.dirty:
            return self._fetch(order.computer)
        entry.tools, entry.error = (), error
        return []

    def _entry_of(self, order: FetchTools) -> _Entry | None:
        entry = self._entries.get(order.computer)
        return entry if entry is not None and entry.ticket == order.ticket else None

    def _fetch(self, computer: str) -> list[Order]:
        entry = self._entries[computer]
        entry.fetching, entry.dirty = True, False
        return [FetchTools(computer, entry.ticket)]

    # --- what is known ---

    @property
    def settled(self) -> bool:
        """Whether the office was listed and nothing is being fetched."""
        return self._listed and not any(entry.fetching for entry in self._entries.values())

    def snapshot(self) -> ToolCache:
        """A copy that stays as it is, for another thread."""
        copied = ToolCache()
        copied.__dict__.update(self.__dict__)
        copied._entries = {computer: copy.copy(entry) for computer, entry in self._entries.items()}
        copied._gone = set(self._gone)
        return copied

    @property
    def computers(self) -> tuple[str, ...]:
        """Names of the Computers in the office, in order."""
        return tuple(sorted(self._entries))

    def freshness(self, computer: str) -> Freshness | None:
        """How current the tools of a Computer are; `None` when it is not in the office."""
        entry = self._entries.get(computer)
        if entry is None:
            return None
        return "refreshing" if entry.fetching else "failed" if entry.error is not None else "fresh"

    def error(self, computer: str) -> str | None:
        """Why the tools of a Computer could not be fetched."""
        entry = self._entries.get(computer)
        return entry.error if entry else None

    def of(self, computer: str) -> tuple[SMCPTool, ...]:
        """The tools of a Computer, ordered by name; none while they are not known."""
        entry = self._entries.get(computer)
        return entry.tools if entry else ()

    def find(self, tool_name: str) -> tuple[str, ...]:
        """The Computers that offer a tool of this exposed name."""
        return tuple(
            computer for computer in self.computers if any(tool.name == tool_name for tool in self.of(computer))
        )

    def __iter__(self) -> Iterator[tuple[str, SMCPTool]]:
        """Every tool with its Computer, in a stable order."""
        for computer in self.computers:
            for tool in self.of(computer):
                yield computer, tool
