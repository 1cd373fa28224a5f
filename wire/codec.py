"""Codec of the bus: messages to bytes and back, with attachments carried beside the body.

An `Attachment` field holds bytes that are never re-encoded: the body keeps only its
index, the bytes themselves travel as a frame of their own (blob chunks, tool results
that are already JSON). Bodies are encoded on every transport, the in-process one too,
so that actors cannot share mutable state by accident.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .message import Message, message_types

T = TypeVar("T")


class Attachment:
    """Bytes that cross the bus beside the body, untouched.

    Attributes:
        data: The bytes. Treat as immutable; on the in-process bus the receiver gets the same object.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attachment) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Attachment({len(self.data)} bytes)"


def encode(value: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """The body of a message or reply, and the attachments it refers to by index."""
    if _is_plain(type(value)):
        return _plain_encode(value), ()
    attachments: list[bytes] = []

    def lift(part: Any) -> int:
        if isinstance(part, Attachment):
            attachments.append(part.data)
            return len(attachments) - 1
        raise NotImplementedError(f"{type(part).__name__} cannot travel on the bus")

    body = msgspec.msgpack.Encoder(enc_hook=lift).encode(value)
    return body, tuple(attachments)


def decode(tp: type[T] | Any, body: bytes, attachments: tuple[bytes, ...] = ()) -> T:
    """The value of type `tp` in `body`.

    Raises:
        msgspec.ValidationError: The body does not fit the type; the text names the path.
        msgspec.DecodeError: The body is not msgpack.
    """
    if not attachments:
        return _decoder(tp).decode(body)  # type: ignore[no-any-return]

    def settle(expected: type, index: Any) -> Any:
        return _settle(expected, index, attachments)

    return msgspec.msgpack.Decoder(tp, dec_hook=settle).decode(body)  # type: ignore[no-any-return]


def decode_message(subject: str, body: bytes, attachments: tuple[bytes, ...] = ()) -> Message:
    """The message of this subject.

    Raises:
        LookupError: No message type of that name is registered.
        msgspec.ValidationError: The body does not fit the type.
    """
    cls = message_types().get(subject)
    if cls is None:
        raise LookupError(f"unknown message {subject!r}")
    return decode(cls, body, attachments)


_plain_encode = msgspec.msgpack.Encoder().encode


_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
_plain: dict[type, bool] = {}


def _decoder(tp: Any) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(tp)
    if decoder is None:
        decoder = msgspec.msgpack.Decoder(tp, dec_hook=lambda expected, index: _settle(expected, index, ()))
        _decoders[tp] = decoder
    return decoder


def _is_plain(tp: type) -> bool:
    """Whether no value of this type can hold an attachment, so the shared encoder will do."""
    plain = _plain.get(tp)
    if plain is None:
        plain = _plain[tp] = not _mentions_attachment(tp, set())
    return plain


def _mentions_attachment(tp: Any, seen: set[Any]) -> bool:
    if tp is Attachment:
        return True
    if isinstance(tp, type) and issubclass(tp, msgspec.Struct):
        if tp in seen:
            return False
        seen.add(tp)
        return any(_mentions_attachment(field.type, seen) for field in msgspec.structs.fields(tp))
    return any(_mentions_attachment(argument, seen) for argument in getattr(tp, "__args__", ()))


def _settle(expected: type, index: Any, attachments: tuple[bytes, ...]) -> Any:
    if expected is Attachment:
        if isinstance(index, int) and 0 <= index < len(attachments):
            return Attachment(attachments[index])
        raise ValueError(f"attachment {index!r} is missing")
    raise NotImplementedError(f"{expected.__name__} cannot travel on the bus")
