"""Socket.IO packets on msgspec JSON, given to python-socketio as `serializer=`.

`JsonPacket` decodes payloads to plain values, `RawPacket` leaves each event argument and
acknowledgement value as `msgspec.Raw`, so that a relay never reads a body and fields it
does not know survive (W-GEN-2). Never use the `json=` option of python-socketio instead:
it sets an attribute of the shared packet class, and two stacks in one process collide.

Payloads of this protocol are JSON (W-GEN-1). A binary event arrives without its payload
and a binary acknowledgement without its values, so both fail validation at the receiver
and are answered instead of waiting for attachments.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, NamedTuple

import msgspec
from socketio import packet

CONNECT: int = packet.CONNECT
DISCONNECT: int = packet.DISCONNECT
EVENT: int = packet.EVENT
ACK: int = packet.ACK
CONNECT_ERROR: int = packet.CONNECT_ERROR
_BINARY: dict[int, int] = {packet.BINARY_EVENT: EVENT, packet.BINARY_ACK: ACK}

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


def dumps(value: Any, **_options: Any) -> str:
    """Compact JSON; `msgspec.Raw` goes out as it is, structs and plain values are encoded."""
    return _encode(value).decode()


def loads(text: str | bytes, **_options: Any) -> Any:
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


_encode = msgspec.json.Encoder().encode
_plain = msgspec.json.Decoder().decode
_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


class _Json:
    """The two functions python-socketio expects of a JSON module."""

    dumps = staticmethod(dumps)
    loads = staticmethod(loads)


class JsonPacket(packet.Packet):  # type: ignore[misc]
    """A packet whose payload is read into plain values.

    Encodes `msgspec.Raw` untouched and `msgspec.Struct` directly; an argument of type `bytes` is refused,
    because JSON bytes belong into a `Raw` and nothing else travels.
    """

    uses_binary_events = False
    json: ClassVar[Any] = _Json

    def encode(self) -> str:
        """The text of this packet.

        Raises:
            TypeError: An argument is `bytes`, or of a type that has no JSON form.
        """
        namespace = "" if self.namespace in (None, "/") else f"{self.namespace},"
        identifier = "" if self.id is None else self.id
        if self.data is None:
            return f"{self.packet_type}{namespace}{identifier}"
        if isinstance(self.data, list) and any(isinstance(argument, _BYTES) for argument in self.data):
            raise TypeError("JSON bytes travel as msgspec.Raw, other bytes do not travel")
        return f"{self.packet_type}{namespace}{identifier}{_encode(self.data).decode()}"

    def decode(self, encoded_packet: str | bytes) -> int:
        """Reads a text packet; returns the number of attachments to wait for, which is always 0.

        Raises:
            MalformedPacket: Not a text packet, or the payload does not fit the packet type.
        """
        if not isinstance(encoded_packet, str):
            raise MalformedPacket("binary packets are not part of the protocol")
        parts = split(encoded_packet)
        self.data: Any
        self.packet_type = parts.type
        self.namespace = None if parts.namespace == "/" else parts.namespace
        self.id = parts.id
        if parts.type == EVENT:
            self.data = self._event(split_arguments(parts.body), binary=parts.binary)
        elif parts.type == ACK:
            self.data = [] if parts.binary else self._values(split_arguments(parts.body))
        else:
            self.data = loads(parts.body) if parts.body else None
        return 0

    def _event(self, arguments: list[msgspec.Raw], *, binary: bool) -> list[Any]:
        try:
            name = _text(arguments[0])
        except (IndexError, msgspec.DecodeError) as error:
            raise MalformedPacket("event without a name") from error
        return [name] if binary else [name, *self._values(arguments[1:])]

    def _values(self, values: list[msgspec.Raw]) -> list[Any]:
        return [loads(value) for value in values]


class RawPacket(JsonPacket):
    """A packet whose event arguments and acknowledgement values stay `msgspec.Raw`."""

    def _values(self, values: list[msgspec.Raw]) -> list[Any]:
        return values


_BYTES = (bytes, bytearray, memoryview)
