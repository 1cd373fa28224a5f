"""Where log records of a command go: stderr, or a file; never stdout, which carries results (R-OPT-3)."""

from __future__ import annotations

import logging
import os
import sys
from typing import TextIO

from ..wire.errors import ConfigValidationError
from .open_question import QUESTION
from .output import printable

_TRUE = frozenset({"1", "true", "yes", "on"})


def set_up_logging(default: str = "WARNING") -> None:
    """Sets the root logger up from `A2C_LOG_LEVEL`, `A2C_LOG_FILE` and `A2C_LOG_SILENT`.

    Args:
        default: Level where the environment names none.
    Raises:
        ConfigValidationError: The environment names a level that does not exist, or a file that cannot be written.
    Spec: R-OPT-2, R-OPT-3.
    """
    if os.environ.get("A2C_LOG_SILENT", "").strip().lower() in _TRUE:
        logging.disable(logging.CRITICAL)
        return
    level = os.environ.get("A2C_LOG_LEVEL", "").strip().upper() or default
    if level not in logging.getLevelNamesMapping():
        raise ConfigValidationError(f"no such log level: {level}", field="A2C_LOG_LEVEL")
    handler = _handler(os.environ.get("A2C_LOG_FILE", "").strip())
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _OneLine(logging.Formatter):
    """One line for a record, and nothing that steers a terminal: peers have a say in what is logged."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\n", "\\n")

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _ToStderr(logging.StreamHandler[TextIO]):
    """A question that somebody is answering at the same terminal stays readable."""

    def emit(self, record: logging.LogRecord) -> None:
        with QUESTION.aside():
            super().emit(record)


def _handler(path: str) -> logging.Handler:
    if not path:
        return _ToStderr(sys.stderr)
    try:
        return logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigValidationError(f"cannot write the log file: {error.strerror}", field="A2C_LOG_FILE") from None
