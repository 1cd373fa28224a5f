"""What a peer may do about an error code (01 §9.6): a pure answer, the waiting is the caller's."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .protocol import RETRY_ATTEMPTS_MAX

Retry = Literal["never", "backoff", "after_refresh", "after_join", "after_user", "new_attempt"]


class Advice(msgspec.Struct, frozen=True):
    """Whether and how to ask again.

    `retry`: `never`; `backoff` (a bounded number of times, `backoff_delay` apart); `after_refresh` (once, with
    refreshed names); `after_join`; `after_user` (only when the user asks); `new_attempt` (from the start of
    this channel: a new handle, offset or upload).
    """

    retry: Retry
    hint: str


_NEVER: Final = Advice("never", "do not repeat the request")
_FIX: Final = Advice("never", "fix the request")
_BACKOFF: Final = Advice("backoff", "retry after a growing delay")

_BY_CODE: Final[dict[int, Advice]] = {
    **dict.fromkeys((400, 4012, 4016, 4204), _FIX),
    401: Advice("never", "use other credentials"),
    4008: Advice("never", "use another protocol version"),
    **dict.fromkeys((403, 4002, 4005, 4015, 4101, 4104), _NEVER),
    404: Advice("never", "wait for the Computer to enter the office"),
    **dict.fromkeys((408, 500, 4003, 4004), _BACKOFF),
    4001: Advice("after_refresh", "refresh the tools, then retry once"),
    4014: Advice("after_refresh", "refresh the configuration, then retry once"),
    **dict.fromkeys((4006, 4007), Advice("after_user", "retry when the user asks again")),
    **dict.fromkeys((4011, 4013), Advice("never", "report it")),
    **dict.fromkeys((4201, 4202, 4203), Advice("never", "list the documents again")),
    **dict.fromkeys((4102, 4103), Advice("after_join", "join an office first")),
}

_BY_REASON: Final[dict[tuple[int, str], Advice]] = {
    (403, "rate_limited"): _BACKOFF,
    (4018, "gone"): Advice("new_attempt", "fetch a new handle from its channel"),
    (4018, "range"): Advice("new_attempt", "correct the offset"),
    (4019, "busy"): _BACKOFF,
    (4019, "invalid_upload"): Advice("new_attempt", "upload again from the start"),
    (4019, "range"): Advice("new_attempt", "continue at the right offset or upload again"),
    (4019, "integrity"): Advice("new_attempt", "upload again from the start"),
    (4019, "io_error"): Advice("new_attempt", "upload again from the start"),
}


def advise(
    code: int,
    *,
    reason: str | None = None,
    tool_call: bool = False,
    not_executed: bool = False,
    repeatable: bool = False,
) -> Advice:
    """What to do about an error.

    Args:
        code: Numeric code; an unknown one is never retried.
        reason: Its reason, where it has one; an unknown one is never retried (W-ERR-7).
        tool_call: Whether a tool call failed: then a retry could act twice.
        not_executed: Its `a2c_outcome` says that nothing was handed over.
        repeatable: The tool is annotated read-only or idempotent.
    """
    advice = _BY_REASON.get((code, reason or "")) or _BY_CODE.get(code, _NEVER)
    if tool_call and advice.retry == "backoff" and not (not_executed or repeatable):
        return Advice("never", "the call may have had its effect")
    return advice


def backoff_delay(attempt: int, jitter: float) -> float:
    """Seconds to wait after attempt `attempt` (0 for the first): `2^attempt` plus `jitter` in [0, 1).

    Raises:
        ValueError: That many attempts were enough (at most 3).
    """
    if not 0 <= attempt < RETRY_ATTEMPTS_MAX - 1:
        raise ValueError(f"at most {RETRY_ATTEMPTS_MAX} attempts are made")
    return 2.0**attempt + jitter
