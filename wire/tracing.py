"""Distributed tracing: the one door to OpenTelemetry, and what crosses a boundary of it, a W3C `traceparent`.

Only the API is used; whoever wants traces sets a tracer provider up in this process. Where
nobody has, and so nobody has even imported the API, a call costs one look at the clock.
A `traceparent` that came in is passed on all the same, so a trace is not cut by a process
that does not take part in it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import msgspec

Kind = Literal["internal", "server", "client"]

FIELD: Final = "traceparent"
"""The member of a request, and of an MCP `_meta`, that carries it."""
TRACER: Final = "smcp_runtime"
LOOK_EVERY: Final = 0.05
"""Seconds between two looks for a tracer provider, which cost as much as a part of a call."""

_on = False
_look_at = 0.0

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class _Request(msgspec.Struct):
    traceparent: Any = None


_decode = msgspec.json.Decoder(_Request).decode


def is_traceparent(value: object) -> bool:
    """Whether a value is one, as W3C Trace Context writes them."""
    return isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None


def traceparent_of(request: bytes | msgspec.Raw | None) -> str:
    """The `traceparent` member of a JSON object, `""` when it has none that is valid."""
    if request is None or b'"traceparent"' not in (text := bytes(request)):
        return ""
    try:
        found = _decode(text).traceparent
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return found if is_traceparent(found) else ""


def stamped(request: bytes, traceparent: str) -> bytes:
    """A JSON object with members, and a `traceparent` as its last one; untouched without one."""
    if not traceparent:
        return request
    return b'%b,"traceparent":"%b"}' % (request[:-1], traceparent.encode("ascii"))


class Span:
    """Something that takes time, in a trace.

    Attributes:
        traceparent: What is passed on to whoever works for it; that of the parent where nothing is traced.
    """

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: Any, traceparent: str) -> None:
        self._span = span
        self.traceparent = traceparent

    def end(self, failure: str = "") -> None:
        """It is over; `failure` says in a code of ours, never in a text of somebody else, what went wrong."""
        if self._span is None:
            return
        if failure:
            trace = sys.modules["opentelemetry.trace"]
            self._span.set_attribute("error.type", failure)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))
        self._span.end()


def is_on() -> bool:
    """Whether a tracer provider was set up in this process, as far as it was looked for in the last `LOOK_EVERY` s."""
    global _on, _look_at  # noqa: PLW0603 - what the whole process shares, as OpenTelemetry's own provider
    now = time.monotonic()
    if now >= _look_at:
        _look_at = now + LOOK_EVERY
        trace = sys.modules.get("opentelemetry.trace")
        _on = trace is not None and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return _on


def begin(name: str, kind: Kind, parent: str = "", **attributes: str) -> Span:
    """Begins a span; `end` ends it.

    Args:
        parent: The `traceparent` it continues; without one the span that is current in this task, if there is one.
        attributes: Their names are written with dots for double underscores.
    """
    if not is_on():
        return Span(None, parent)
    trace = sys.modules["opentelemetry.trace"]
    shown = {key.replace("__", "."): value for key, value in attributes.items() if value}
    span = trace.get_tracer(TRACER).start_span(
        name, context=_context(parent), kind=getattr(trace.SpanKind, kind.upper()), attributes=shown
    )
    known = span.get_span_context()
    return Span(span, _written(known) if known.is_valid else parent)


@contextmanager
def span(name: str, kind: Kind, parent: str = "", **attributes: str) -> Iterator[Span]:
    """A span as long as the block. What is raised through it is its failure, by the name of its type alone."""
    begun = begin(name, kind, parent, **attributes)
    try:
        yield begun
    except BaseException as error:
        begun.end(str(getattr(error, "code", None) or type(error).__name__))
        raise
    begun.end()


def _context(parent: str) -> Any:
    """The OpenTelemetry context of a remote parent; `None` is that of this task."""
    if not parent:
        return None
    trace = sys.modules["opentelemetry.trace"]
    _, trace_id, span_id, flags = parent.split("-")
    remote = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))


def _written(known: Any) -> str:
    return f"00-{known.trace_id:032x}-{known.span_id:016x}-{int(known.trace_flags):02x}"
