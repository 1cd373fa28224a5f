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

_NUMBERS: dict[str, int] = {"warning": logging.WARNING, "info": logging.INFO}
_encode = msgspec.json.Encoder().encode


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log; the time is added by the logging system.

    `action` is what happened, from a closed vocabulary of ours; `who` the peer, as `identify` writes it; `code` the
    numeric code the peer was given.
    """

    level: Level
    action: str
    who: str = ""
    office: str = ""
    event: str = ""
    code: int | None = None
    req_id: str = ""


def identify(*, address: str = "", user_agent: str = "", sid: str = "") -> str:
    """A peer in words of the log; made once per connection."""
    named = (("address", address), ("user_agent", user_agent), ("sid", sid))
    return " ".join(f"{name}={_quote(value)}" for name, value in named if value)


def write(record: Record) -> None:
    """Writes a record as one line `action key="value" …`, empty fields left out."""
    logger, level = logging.getLogger(LOGGER), _NUMBERS[record.level]
    if logger.isEnabledFor(level):
        # Where in our source it was written says nothing, and finding out costs more than the line.
        logger.handle(logger.makeRecord(LOGGER, level, "(security)", 0, render(record), (), None))


def render(record: Record) -> str:
    """The text of a record."""
    line = f"{record.action} {record.who}" if record.who else record.action
    if record.office:
        line += f" office={_quote(record.office)}"
    if record.event:
        line += f" event={_quote(record.event)}"
    if record.req_id:
        line += f" req_id={_quote(record.req_id)}"
    return line if record.code is None else f"{line} code={record.code}"


def _quote(value: str) -> str:
    try:
        return _encode(value[:_SHOWN]).decode()
    except UnicodeEncodeError:  # a lone surrogate from an escape
        return ascii(value[:_SHOWN])
