"""The packet class that python-socketio works with here, given to it as `serializer=`.

Event arguments and acknowledgement values stay `msgspec.Raw` (W-GEN-2). Never use the `json=` option of
python-socketio instead: it sets an attribute of the shared packet class, and two stacks in one process collide.

Payloads of this protocol are JSON (W-GEN-1). A binary event arrives without its payload
and a binary acknowledgement without its values, so both fail validation at the receiver
and are answered instead of waiting for attachments.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from socketio import packet

from ..wire.packet import ACK, EVENT, MalformedPacket, loads, split, split_arguments

_BYTES = (bytes, bytearray, memoryview)
_encode = msgspec.json.Encoder().encode
_text = msgspec.json.Decoder(str).decode


def dumps(value: Any, **_options: Any) -> str:
    """Compact JSON; `msgspec.Raw` goes out as it is, structs and plain values are encoded."""
    return _encode(value).decode()


class _Json:
    """The two functions python-socketio expects of a JSON module."""

    dumps = staticmethod(dumps)

    @staticmethod
    def loads(text: str | bytes, **_options: Any) -> Any:
        """Plain values."""
        return loads(text)


class RawPacket(packet.Packet):  # type: ignore[misc]
    """A packet whose event arguments and acknowledgement values are `msgspec.Raw`, all others plain values.

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
        return f"{self.packet_type}{namespace}{identifier}{dumps(self.data)}"

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
            self.data = _event(split_arguments(parts.body), binary=parts.binary)
        elif parts.type == ACK:
            self.data = [] if parts.binary else split_arguments(parts.body)
        else:
            self.data = loads(parts.body) if parts.body else None
        return 0


def _event(arguments: list[msgspec.Raw], *, binary: bool) -> list[Any]:
    try:
        name = _text(arguments[0])
    except (IndexError, msgspec.DecodeError) as error:
        raise MalformedPacket("event without a name") from error
    return [name] if binary else [name, *arguments[1:]]
