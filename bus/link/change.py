"""What a link is at a moment, and the news that it has become something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ...wire.errors import SmcpError

LinkState = Literal["idle", "connecting", "connected", "joined", "ended"]
"""`connecting` also while a lost connection is repaired; `connected` is without an office; `ended` is final."""


class LinkChange(msgspec.Struct, frozen=True):
    """A change of state.

    Attributes:
        state: What it is now.
        generation: Counts the connections from 1.
        restored: Whether an office was joined again after a loss.
        error: Why a connection was lost, a wish was given up, or the link ended; `None` for success and on request.
    """

    state: LinkState
    generation: int
    restored: bool = False
    error: SmcpError | None = None


ChangeHandler = Callable[[LinkChange], None]
"""Hears changes of state in their order, on the event loop; must return at once."""
