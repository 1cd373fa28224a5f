"""What of one server has to be staged: nothing twice, nothing forgotten, and failures again after a while. Pure.

Spec: C-SKILL-18…21, C-SKILL-75.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from .manifest import Manifest
from .roots import Root, Selection

RETRY_DELAYS: Final = (5.0, 30.0)
"""Seconds after which a failed transfer is tried again; then the next trigger must come (C-SKILL-18)."""

Cause = Literal["listed", "updated", "retry"]


class Copy(msgspec.Struct, frozen=True):
    """A package that was staged.

    Attributes:
        fingerprint: That of its root then.
        etag, mode, files: What its root said then; an equal etag needs no second transfer.
        tree: Signature of the staged directory, to see that the copy is still intact.
    """

    fingerprint: bytes
    name: str
    directory: str
    manifest: Manifest
    mode: str
    etag: str | None
    files: tuple[str, ...]
    tree: bytes

    def stands_for(self, root: Root) -> bool:
        """Whether the package of a root is known to be the same without looking (C-SKILL-21)."""
        return (
            root.etag is not None
            and (self.etag, self.mode) == (root.etag, root.mode)
            and self.files == tuple(file.uri for file in root.files)
        )


class Due(msgspec.Struct, frozen=True):
    """One root to be staged, and why."""

    root: Root
    cause: Cause


class StagingPlan:
    """The plan of one server. It lives as long as the server is configured; sessions come and go."""

    def __init__(self, retry_delays: tuple[float, ...] = RETRY_DELAYS) -> None:
        self.selection = Selection()
        self.copies: dict[str, Copy] = {}
        self._delays = retry_delays
        self._session: int | None = None
        self._due: dict[str, Cause] = {}
        self._failures: dict[str, int] = {}

    @property
    def is_live(self) -> bool:
        """Whether the server is connected and has been listed."""
        return self._session is not None

    def listed(self, session: int, selection: Selection) -> bool:
        """A listing of a connected server; `True` when there is something to do about it."""
        anew = session != self._session
        if not anew and selection.signature == self.selection.signature:
            self.selection = selection
            return False
        before = {root.uri: root.fingerprint for root in self.selection.roots}
        for root in selection.roots:
            if anew or before.get(root.uri) != root.fingerprint:
                self._want(root.uri, "listed")
        self._session, self.selection = session, selection
        wanted = {root.uri for root in selection.roots}
        self._due = {uri: cause for uri, cause in self._due.items() if uri in wanted}
        self._failures = {uri: count for uri, count in self._failures.items() if uri in wanted}
        self.copies = {uri: copy for uri, copy in self.copies.items() if uri in wanted}
        return True

    def updated(self, uri: str) -> bool:
        """The server announced new contents; `True` when they belong to a skill."""
        covering = [root.uri for root in self.selection.roots if root.covers(uri)] if self.is_live else []
        for root_uri in covering:
            self._want(root_uri, "updated")
        return bool(covering)

    def refresh(self) -> None:
        """Everything is to be staged again."""
        for root in self.selection.roots if self.is_live else ():
            self._want(root.uri, "updated")

    def retry(self, uri: str, failures: int) -> bool:
        """The time of a retry has come; `False` when something else happened to the root since."""
        if not self.is_live or self._failures.get(uri) != failures or uri in self._due:
            return False
        self._due[uri] = "retry"
        return True

    def lost(self) -> None:
        """The server is not connected any more. What was staged is kept in mind, what was planned is not."""
        self._session = None
        self.selection = Selection()
        self._due.clear()
        self._failures.clear()

    def take(self) -> list[Due]:
        """What is due now, in listing order; it is not due any more."""
        taken, self._due = self._due, {}
        return [Due(root, taken[root.uri]) for root in self.selection.roots if root.uri in taken]

    def staged(self, uri: str, copy: Copy) -> None:
        """A root was staged."""
        self.copies[uri] = copy
        self._failures.pop(uri, None)

    def failed(self, uri: str, *, transfer: bool) -> tuple[float, int] | None:
        """A root could not be staged; the delay of the next try and its mark for `retry`, or `None` for no try."""
        self.copies.pop(uri, None)
        if not transfer:
            self._failures.pop(uri, None)
            return None
        failures = self._failures.get(uri, 0) + 1
        if failures > len(self._delays):
            self._failures.pop(uri, None)
            return None
        self._failures[uri] = failures
        return self._delays[failures - 1], failures

    def names(self) -> dict[str, int]:
        """Names of the listed roots that are staged, with their position in the listing."""
        copies = ((root, self.copies.get(root.uri)) for root in self.selection.roots)
        return {copy.name: root.position for root, copy in copies if copy is not None}

    def owner_of(self, name: str, besides: str) -> str | None:
        """The listed root that a name belongs to, other than `besides`."""
        listed: Iterable[str] = (root.uri for root in self.selection.roots)
        return next((u for u in listed if u != besides and u in self.copies and self.copies[u].name == name), None)

    def _want(self, uri: str, cause: Cause) -> None:
        # An announced update says that the content changed, whatever an etag says (C-SKILL-20).
        if self._due.get(uri) != "updated":
            self._due[uri] = cause
        self._failures.pop(uri, None)
