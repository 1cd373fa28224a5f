"""Socket.IO packets as text: cut into their parts, their JSON read or left as it came.

Event arguments and acknowledgement values are cut out as `msgspec.Raw`, so that a relay never reads a
body and fields it does not know survive (W-GEN-2). Without the Socket.IO library: only the Server runs on it
(`server/packets.py` gives it these).
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import msgspec

CONNECT: Final = 0
DISCONNECT: Final = 1
EVENT: Final = 2
ACK: Final = 3
CONNECT_ERROR: Final = 4
_BINARY: Final = {5: EVENT, 6: ACK}

MAX_ID_DIGITS = 100
"""The longest acknowledgement id python-socketio reads."""


class MalformedPacket(ValueError):
    """The text is not a Socket.IO packet, or its JSON is broken. Never quotes the text."""


class Parts(NamedTuple):
    """A text packet cut at its joints, the JSON still unread.

    `namespace` is `/` when the packet names none; `id` is the acknowledgement id, if any; `binary` says that
    the packet announces attachments (its `type` is then already that of the plain form).
    """

    type: int
    namespace: str
    id: int | None
    body: str
    binary: bool


def split(text: str) -> Parts:
    """Cuts a text packet into its parts.

    Raises:
        MalformedPacket: There is no known packet type, or the acknowledgement id is too long.
    """
    kind = ord(text[0]) - 48 if text else -1
    if not 0 <= kind <= 6:
        raise MalformedPacket("unknown packet type")
    at, binary = 1, kind in _BINARY
    if binary:
        kind = _BINARY[kind]
        dash = text.find("-", 1)
        if not (1 < dash <= 11 and text[1:dash].isdecimal()):
            raise MalformedPacket("binary packet without attachment count")
        at = dash + 1
    namespace = "/"
    if text.startswith("/", at):
        comma = text.find(",", at)
        end = len(text) if comma < 0 else comma
        namespace = text[at:end].partition("?")[0]
        at = end + 1
    end = at
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
        if end - at > MAX_ID_DIGITS:
            raise MalformedPacket("acknowledgement id too long")
    return Parts(kind, namespace, int(text[at:end]) if end > at else None, text[end:], binary)


def split_arguments(body: str | bytes) -> list[msgspec.Raw]:
    """The elements of a JSON array, unread.

    Raises:
        MalformedPacket: The body is not a JSON array.
    """
    try:
        return _raw_list(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        values = _lenient(body)
    if not isinstance(values, list):
        raise MalformedPacket("body is not a JSON array")
    return [msgspec.Raw(json.dumps(value).encode()) for value in values]


def loads(text: str | bytes) -> Any:
    """Plain Python values of a JSON text.

    Raises:
        MalformedPacket: The text is not JSON.
    """
    try:
        return _plain(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _lenient(text)


def _lenient(text: str | bytes) -> Any:
    """Second try with the standard library, which reads what peers in Python may send: escaped lone surrogates."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedPacket("not JSON") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_plain = msgspec.json.Decoder().decode
_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
