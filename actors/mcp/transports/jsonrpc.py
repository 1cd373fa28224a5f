"""JSON-RPC messages as bytes: composing ours, reading theirs, without building what nobody looks at.

Results and parameters stay the bytes they arrived as. Reading is lenient where a peer's meaning is
clear: a byte order mark, a batch, `NaN`, half a surrogate pair, an id echoed as text or as a float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ....wire.lenient_json import read_leniently

RequestId = int | str

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
ID_DIGITS = 19
"""Digits of the longest id that we would ever count up to."""

_NOTHING = msgspec.Raw()
_encode = msgspec.json.Encoder().encode


class Incoming(msgspec.Struct):
    """One message of the peer. An absent member is `None` or empty bytes; `result` is present even when `null`."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


class PeerFault(msgspec.Struct):
    """The error member of an answer."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(Incoming).decode
_decode_fault = msgspec.json.Decoder(PeerFault).decode


def request(request_id: RequestId, method: str, params: bytes | None) -> bytes:
    """A request; `params` is JSON text without line ends."""
    written_id = b"%d" % request_id if isinstance(request_id, int) else _encode(request_id)
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":"%b"}' % (written_id, method.encode())
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (written_id, method.encode(), params)


def notification(method: str, params: bytes | None) -> bytes:
    """A notification; `params` is JSON text without line ends."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def answer(request_id: RequestId, result: bytes) -> bytes:
    """Our answer to a request of the peer."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(request_id), result)


def refusal(request_id: RequestId, code: int, message: str) -> bytes:
    """Our error answer to a request of the peer."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode(request_id), _encode({"code": code, "message": message}))


def number_in(text: str) -> int | None:
    """The id of ours that a peer echoes as text, if it can be one."""
    return int(text) if len(text) <= ID_DIGITS and text.isascii() and text.isdecimal() else None


def one_line(text: bytes) -> bytes:
    """JSON text without line ends. Between tokens they are only layout, and inside strings JSON forbids them."""
    if b"\n" not in text and b"\r" not in text:
        return text
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def read(text: bytes) -> Sequence[Incoming]:
    """The messages in one line or body; none if it is not JSON-RPC, or nested beyond what can be read."""
    try:
        message = _decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return tuple(_read_leniently(text))
    return (message,) if message.method is not None or message.result or message.error else ()


def fault(error: msgspec.Raw) -> PeerFault:
    """The error member of an answer; what cannot be read of it is left out."""
    try:
        return _decode_fault(error)
    except msgspec.MsgspecError:
        return PeerFault(message="the error answer cannot be read")


def valid_utf8(text: bytes) -> bool:
    """Whether bytes that were passed over unread can be sent on as JSON text."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def plain_object(text: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """A JSON object, decoded; `None` if it is none."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_leniently(text: bytes) -> Iterator[Incoming]:
    try:
        found = read_leniently(text)  # NaN is then written as null
        messages = [_from_plain(item) for item in (found if isinstance(found, list) else [found])]
    except (ValueError, RecursionError):
        return
    yield from (message for message in messages if message is not None)


def _from_plain(item: Any) -> Incoming | None:
    if not isinstance(item, dict) or {"method", "result", "error"}.isdisjoint(item):
        return None
    request_id, method = item.get("id"), item.get("method")
    if isinstance(request_id, float) and request_id.is_integer():
        request_id = int(request_id)
    if isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
        return None
    if not isinstance(method, str | None):
        return None
    raw = {name: msgspec.Raw(_encode(item[name])) for name in ("params", "result", "error") if name in item}
    return Incoming(request_id, method, **raw)
