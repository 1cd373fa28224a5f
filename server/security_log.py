"""The security log: who was refused what, and who did something sensitive (W-SRV-7, W-SRV-8).

A record has a fixed set of fields. None can hold `auth`, params, results, blob content
or credentials, because nobody who makes a record is handed them as text. Values chosen
by peers are written as JSON strings, so that no line can be forged with a line break.
"""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

LOGGER = "smcp_runtime.server.security"
_SHOWN = 200

Level = Literal["warning", "info"]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log; the time is added by the logging system.

    `action` is what happened, from a closed vocabulary of ours; `code` the numeric code the peer was given.
    """

    level: Level
    action: str
    address: str = ""
    user_agent: str = ""
    sid: str = ""
    office: str = ""
    event: str = ""
    code: int | None = None
    req_id: str = ""


def write(record: Record, logger: logging.Logger | None = None) -> None:
    """Writes a record as one line `action key="value" …`, empty fields left out."""
    logger = logger or logging.getLogger(LOGGER)
    level = logging.WARNING if record.level == "warning" else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, "%s", render(record))


def render(record: Record) -> str:
    """The text of a record."""
    words = [record.action]
    for name in ("address", "user_agent", "sid", "office", "event", "req_id"):
        if value := getattr(record, name):
            words.append(f"{name}={msgspec.json.encode(value[:_SHOWN]).decode()}")
    if record.code is not None:
        words.append(f"code={record.code}")
    return " ".join(words)
