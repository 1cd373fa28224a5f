"""The log guard: while a Computer runs, no log record of this process holds one of its secrets (R-INPUT-23).

Ours are written without them; those of the libraries that carry requests are not, and a
traceback quotes what it likes. So every record is looked at where it is made, before any
handler sees it. That is one hook for the whole process, as logging is.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...wire.redaction import Redaction, SecretRegistry

PACKAGE = __name__.partition(".")[0]
UNREADABLE = "a record that could not be formatted"

_lock = threading.Lock()
_guarded: list[SecretRegistry] = []
_makers: list[Callable[..., logging.LogRecord]] = []
"""The factory that was there before ours, while ours is."""


@contextmanager
def guarded(registry: SecretRegistry, hook: Callable[[Mapping[str, Any]], None] | None = None) -> Iterator[None]:
    """Keeps the secrets of a registry out of every record until the end of the block.

    Args:
        hook: Also given each record of this package, redacted, as a mapping.
    """
    handler = None if hook is None else _HookHandler(hook)
    _enter(registry)
    if handler is not None:
        logging.getLogger(PACKAGE).addHandler(handler)
    try:
        yield
    finally:
        if handler is not None:
            logging.getLogger(PACKAGE).removeHandler(handler)
        _leave(registry)


def clean(record: logging.LogRecord, redaction: Redaction) -> None:
    """Takes secrets out of a record: of its message, its arguments and its traceback."""
    try:
        message = record.getMessage()
    except Exception:
        # The handler would print message and arguments to say so.
        record.msg, record.args, message = UNREADABLE, None, UNREADABLE
    shown = redaction.text(message)
    if shown != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        shown = redaction.text(text)
        if shown != text:
            record.exc_info, record.exc_text = None, shown


def _make(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = _makers[-1](*args, **kwargs)
    for registry in tuple(_guarded):
        redaction = registry.redaction
        if not redaction.is_empty:
            clean(record, redaction)
    return record


def _enter(registry: SecretRegistry) -> None:
    with _lock:
        _guarded.append(registry)
        if not _makers:
            _makers.append(logging.getLogRecordFactory())
            logging.setLogRecordFactory(_make)


def _leave(registry: SecretRegistry) -> None:
    with _lock:
        _guarded[:] = [other for other in _guarded if other is not registry]
        # Whoever put a factory over ours still calls it; it then stays and has nothing to do.
        if not _guarded and logging.getLogRecordFactory() is _make:
            logging.setLogRecordFactory(_makers.pop())


class _HookHandler(logging.Handler):
    """Hands records to the embedding application."""

    def __init__(self, hook: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._hook = hook
        self._calling = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(self._calling, "now", False):
            return  # the hook logs: that is its own business
        self._calling.now = True
        try:
            self._hook(
                {
                    "time": record.created,
                    "level": record.levelname,
                    "logger": record.name,
                    "message": record.getMessage(),
                }
            )
        except Exception:
            self.handleError(record)
        finally:
            self._calling.now = False
