"""Codec of the bus: messages to bytes and back, with attachments carried beside the body.

An `Attachment` field holds bytes that are never re-encoded: the body keeps only its
index, the bytes themselves travel as a frame of their own (blob chunks, tool results
that are already JSON). Bodies are encoded on every transport, the in-process one too,
so that actors cannot share mutable state by accident.
"""

from __future__ import annotations

import threading
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
    _beside.lifted = []
    try:
        return _lifting_encode(value), tuple(_beside.lifted)
    finally:
        _beside.lifted = []  # a big attachment should not stay until the next message


def decode(tp: type[T] | Any, body: bytes, attachments: tuple[bytes, ...] = ()) -> T:
    """The value of type `tp` in `body`.

    Raises:
        msgspec.ValidationError: The body does not fit the type; the text names the path.
        msgspec.DecodeError: The body is not msgpack.
    """
    if not attachments:
        return _decoder(tp).decode(body)  # type: ignore[no-any-return]
    _beside.attachments = attachments
    try:
        return _decoder(tp).decode(body)  # type: ignore[no-any-return]
    finally:
        _beside.attachments = ()


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


class _Beside(threading.local):
    """What lies beside the body this thread works on. Coders are made once a type, so their hooks look here."""

    def __init__(self) -> None:
        self.lifted: list[bytes] = []
        self.attachments: tuple[bytes, ...] = ()


_beside = _Beside()


def _lift(part: Any) -> int:
    if isinstance(part, Attachment):
        _beside.lifted.append(part.data)
        return len(_beside.lifted) - 1
    raise NotImplementedError(f"{type(part).__name__} cannot travel on the bus")


def _settle(expected: type, index: Any) -> Any:
    if expected is not Attachment:
        raise NotImplementedError(f"{expected.__name__} cannot travel on the bus")
    if isinstance(index, int) and 0 <= index < len(_beside.attachments):
        return Attachment(_beside.attachments[index])
    raise ValueError(f"attachment {index!r} is missing")


_plain_encode = msgspec.msgpack.Encoder().encode
_lifting_encode = msgspec.msgpack.Encoder(enc_hook=_lift).encode

_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
_plain: dict[type, bool] = {}


def _decoder(tp: Any) -> msgspec.msgpack.Decoder[Any]:
    decoder = _decoders.get(tp)
    if decoder is None:
        decoder = _decoders[tp] = msgspec.msgpack.Decoder(tp, dec_hook=_settle)
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
