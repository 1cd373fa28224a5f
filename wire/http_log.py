"""What an HTTP server of ours logs of connections that speak no HTTP: that they did, never what they sent.

aiohttp writes such a request as an error with a traceback that quotes it, and the long header or
address in question may be the one with a token (W-SRV-8). Whoever scans ports could also fill a log with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_LIBRARY = "aiohttp.http_exceptions"


def http_logger(name: str, refused: Callable[[str], None]) -> logging.Logger:
    """A logger for aiohttp's runner; faults of ours pass through it as they are.

    Args:
        refused: Told the address of a peer whose request could not be read.
    """
    logger = logging.getLogger(name)

    def keep(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or type(error).__module__ != _LIBRARY:
            return True
        refused(str(record.args[0]) if isinstance(record.args, tuple) and record.args else "")
        return False

    logger.filters[:] = [keep]
    return logger
