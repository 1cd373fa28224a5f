"""Exit statuses of the command line, decided in one place (R-CLI-1)."""

from __future__ import annotations

from typing import Final

from ..wire.errors import SmcpError

SUCCESS: Final = 0
FAILED: Final = 1
"""The user's mistake, or an operation that failed: a refusal by a peer, a failed tool call, an interrupt."""
USAGE: Final = 2
"""Wrong usage, a bad file given on the command line, or no way to the peer."""
INTERNAL: Final = 3
"""Something nobody expected: a defect of ours, or of the machine."""

_BY_CATEGORY: Final = {"network": USAGE, "protocol_version": USAGE, "internal": INTERNAL, "bus": INTERNAL}


def exit_status(error: BaseException) -> int:
    """The status that an error ends a command with.

    Spec: R-CLI-1.
    """
    if isinstance(error, SmcpError):
        return _BY_CATEGORY.get(error.category, FAILED)
    if isinstance(error, KeyboardInterrupt | BrokenPipeError):
        return FAILED
    return INTERNAL


def root_error(error: BaseException) -> BaseException:
    """The error that counts in nested exception groups: the first that says what happened, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [root_error(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, SmcpError)), leaves[0])
