"""Where log records of a command go: stderr, or a file; never stdout, which carries results (R-OPT-3)."""

from __future__ import annotations

import logging
import os
import sys

from ..wire.errors import ConfigValidationError

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
    logging.basicConfig(
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[_handler(os.environ.get("A2C_LOG_FILE", "").strip())],
        force=True,
    )


def _handler(path: str) -> logging.Handler:
    if not path:
        return logging.StreamHandler(sys.stderr)
    try:
        return logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise ConfigValidationError(f"cannot write the log file: {error.strerror}", field="A2C_LOG_FILE") from None
