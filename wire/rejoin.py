"""Joining an office: what an acknowledgement means, and when a lost membership is asked for again.

Pure. A first join is tried once. After a lost connection the wish to be in the office is
replayed, because until the Server notices the loss our own ghost holds the name; only
refusals that such a ghost can cause are retried, and only for a bounded time (DEC-17).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .backoff import Backoff
from .errors import ConflictError, MalformedReplyError, NetworkError, PolicyError, SmcpError
from .handshake import printable
from .payload import parse_refusal

JOIN_FAILED = "join_failed"
ROOM_FULL = 4101
_CONFLICTS = (403, ROOM_FULL)
_TRANSIENT = (403, ROOM_FULL, 500, None)
_SECOND_AGENT = "an office has one Agent at a time: wait until that one leaves, end it, or join another office"


def refused(arguments: list[Any]) -> SmcpError | None:
    """What the two values of an acknowledgement to join or leave say: `None` for success.

    Returns:
        `ConflictError` for a taken name or place and for a refusal without a readable code, `PolicyError` for every
        other code, `MalformedReplyError` for something that is no such acknowledgement (R-LIFE-12).
    """
    match arguments:
        case [True, *_]:
            return None
        case [False, *rest]:
            code, text = parse_refusal(rest[0] if rest else None)
        case _:
            return MalformedReplyError("the answer is not a success flag and a text", code=JOIN_FAILED)
    kind = ConflictError if code is None or code in _CONFLICTS else PolicyError
    details = {} if code is None else {"code": code}
    hint = _SECOND_AGENT if code == ROOM_FULL else None
    said = printable(text) or "no reason given"
    return kind(f"the Server refused: {said}", code=JOIN_FAILED, details=details, retry_hint=hint)


def unanswered(seconds: float) -> NetworkError:
    """The error for a join without an acknowledgement in time (R-LIFE-12)."""
    return NetworkError(f"no answer to the join within {seconds:g} s", code=JOIN_FAILED)


def is_transient(error: SmcpError) -> bool:
    """Whether our own ghost, or a Server that is just starting, can be the reason (DEC-17)."""
    if isinstance(error, NetworkError):
        return True
    if isinstance(error, ConflictError | PolicyError):
        return error.details.get("code") in _TRANSIENT
    return False


class Rejoin:
    """The attempts to get back into an office after one reconnect.

    Args:
        budget: Seconds from the first attempt within which a refused attempt is repeated.
        backoff: Shape of the waits between attempts (R-MCP-21).
        now: Clock at the first attempt.
    """

    def __init__(self, budget: float, backoff: Backoff, now: float) -> None:
        self._until = now + budget
        self._backoff = backoff
        self._refusals = 0

    def wait_after(
        self, error: SmcpError, now: float, delay: Callable[[Backoff, int], float] = Backoff.delay
    ) -> float | None:
        """Seconds to wait before the next attempt; `None` ends the wish with this error.

        The last attempt is made when the budget ends, so that a Server which notices the loss late is still met.
        """
        left = self._until - now
        if left <= 0 or not is_transient(error):
            return None
        wait = min(delay(self._backoff, self._refusals), left)
        self._refusals += 1
        return wait
