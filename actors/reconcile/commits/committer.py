"""The commits: one whole projection after another, each applied everywhere before it is announced (R-LIFE-3, R-PROJ-3).

Whatever changed is only marked; one task makes the next commit out of the state it finds
then, so a burst of changes costs few commits. Who changed something on purpose can wait
for the commit that holds it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, get_args

import anyio
import msgspec

from ....wire.envelope import Address
from ....wire.errors import ActorLost, SmcpError, Undeliverable
from ....wire.message import Ask, Fact
from ....wire.messages.projection import Committed, Slice
from ....wire.messages.tools import Applied
from ..held import Held

logger = logging.getLogger(__name__)

APPLY_LIMIT = 10.0
"""Seconds an answering actor may take to apply a slice."""
RETRY_AFTER = 1.0
"""Seconds until a slice that an actor did not apply is sent to it again."""

R = TypeVar("R")


class Mouth(Protocol):
    """What the committer needs of its actor."""

    async def ask(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R: ...

    def publish(self, fact: Fact) -> None: ...


class SliceFeed(msgspec.Struct):
    """One slice and the actor that answers for it.

    Attributes:
        make: The slice as it stands, a value that compares equal while nothing changed for it.
        message: The ask that applies a slice as commit `number`.
        sent: The slice the actor has; `None` when that is not known.
    """

    slice: Slice
    target: Address
    make: Callable[[], tuple[Any, ...]]
    message: Callable[[int, tuple[Any, ...]], Ask[Applied]]
    sent: tuple[Any, ...] | None = None
    notes: tuple[str, ...] = ()


class Projection(msgspec.Struct, frozen=True):
    """The part of a commit this actor answers for itself."""

    config: bytes
    is_filled: bool
    notes: tuple[str, ...] = ()


class Committer:
    """Makes the commits of one Computer."""

    def __init__(
        self, held: Held, mouth: Mouth, project: Callable[[], Projection], feeds: tuple[SliceFeed, ...]
    ) -> None:
        self._held = held
        self._mouth = mouth
        self._project = project
        self._feeds = feeds
        self._wanted = 0
        self._done = 0
        self._retry = False
        self._marked = anyio.Event()
        self._progress = anyio.Event()
        self._notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the last commit, and those who answer for its slices, found odd."""
        return (*self._notes, *(note for feed in self._feeds for note in feed.notes))

    @property
    def filled(self) -> tuple[Slice, ...]:
        """Slices that are not empty now."""
        return tuple(name for name in get_args(Slice) if self._held.signatures.get(name))

    def mark(self) -> None:
        """Says that something may have changed; the next commit looks."""
        self._wanted += 1
        self._marked.set()

    def forget(self, address: str) -> None:
        """An answering actor began a new life: it has no slice until it is sent one."""
        for feed in self._feeds:
            if feed.target == address:
                feed.sent = None
                self.mark()

    def learned(self, slice: Slice, signature: str | None) -> None:
        """What is behind a slice changed without a commit; a later commit that finds it so is no change."""
        if signature is not None:
            self._held.signatures[slice] = signature

    def noted(self, slice: Slice, notes: tuple[str, ...]) -> None:
        """Who answers for a slice finds other things odd by now."""
        for feed in self._feeds:
            if feed.slice == slice:
                feed.notes = notes

    async def commit(self) -> int:
        """Waits until everything said so far is committed; the number of the commit that stands then."""
        self.mark()
        goal = self._wanted
        while self._done < goal:
            await self._progress.wait()
        return self._held.commit

    async def run(self) -> None:
        """Makes commits as long as it is let."""
        while True:
            with anyio.move_on_after(RETRY_AFTER if self._retry else None):
                await self._marked.wait()
            self._marked = anyio.Event()
            goal = self._wanted
            await self._make()
            self._done = goal
            progress, self._progress = self._progress, anyio.Event()
            progress.set()

    async def _make(self) -> None:
        held, number = self._held, self._held.commit + 1
        self._retry = False
        projection = self._project()
        pending = [(feed, made) for feed in self._feeds if (made := feed.make()) != feed.sent]
        changed: list[Slice] = ["config"] if projection.config != held.projection else []
        if not (changed or pending) and held.commit:
            return
        for feed, made in pending:
            if await self._apply(feed, made, number):
                changed.append(feed.slice)
        # Only now, so that nobody sees the new configuration beside the old tools.
        held.projection, held.commit = projection.config, number
        held.signatures["config"] = "config" if projection.is_filled else ""
        self._notes = projection.notes
        self._mouth.publish(Committed(number, tuple(changed), self.filled))

    async def _apply(self, feed: SliceFeed, made: tuple[Any, ...], number: int) -> bool:
        """Sends a slice; `True` when an Agent sees a difference.

        An actor that is down gets it in its next life, one that is slow gets it again soon.
        """
        try:
            applied = await self._mouth.ask(feed.target, feed.message(number, made), timeout=APPLY_LIMIT)
        except SmcpError as error:
            feed.sent = None
            self._retry = self._retry or not isinstance(error, ActorLost | Undeliverable)
            logger.warning("commit %d was not applied by %s: %s", number, feed.target, error.code)
            return False
        feed.sent, feed.notes = made, applied.notes
        before = self._held.signatures.get(feed.slice, "")
        after = applied.signature
        if after is None:
            # The actor leaves it to us to guess whether anything is in its slice.
            after = f"commit {number}" if applied.changed else before
        self._held.signatures[feed.slice] = after
        return after != before
