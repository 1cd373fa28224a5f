"""How large a package may be, and when work on it stops. Counted on what is really written (C-SKILL-24)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from .rel_path import COMPONENT_BYTES, PATH_BYTES

MIB: Final = 1024 * 1024


class PackageLimits(msgspec.Struct, frozen=True):
    """Limits of one package (D-13…D-17). Sizes in bytes.

    Attributes:
        ratio: How many times larger than its archive a package may be, once it exceeds `ratio_free` bytes.
    """

    archive_bytes: int = 64 * MIB
    bytes: int = 256 * MIB
    entries: int = 10_000
    depth: int = 32
    path_bytes: int = PATH_BYTES
    component_bytes: int = COMPONENT_BYTES
    ratio: int = 250
    ratio_free: int = 16 * MIB


class DownloadRules(msgspec.Struct, frozen=True):
    """Limits of one transfer (D-13, D-18, D-19). Times in seconds, sizes in bytes."""

    size: int = 64 * 1024 * 1024
    redirects: int = 5
    time: float = 60.0
    connect_time: float = 10.0
    allow_insecure: bool = False


class StagingFailed(Exception):
    """A package cannot be staged; the text says why, for people, and holds no content and no query of a URL.

    Attributes:
        transfer: Whether bytes could not be had, so that trying again later may help (C-SKILL-18).
    """

    def __init__(self, text: str, *, transfer: bool = False) -> None:
        super().__init__(text)
        self.transfer = transfer


class Stop:
    """Ends work in a thread: by a deadline, or because nobody waits for it any more.

    Args:
        seconds: Time from now.
        what: What is being done, for the text of the failure.
    """

    def __init__(self, seconds: float, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock() + seconds
        self._seconds = seconds
        self._what = what
        self._given_up = False

    def give_up(self) -> None:
        """Makes the next `check` fail."""
        self._given_up = True

    def check(self) -> None:
        """Called between pieces of work.

        Raises:
            StagingFailed: It is to stop.
        """
        if self._given_up:
            raise StagingFailed(f"{self._what} was given up", transfer=True)
        if self._clock() >= self._until:
            raise StagingFailed(f"{self._what} took longer than {self._seconds:g} s", transfer=True)
