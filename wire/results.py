"""Tool results: how each way a call can end looks on the wire, and how any peer's result is read (01 §8).

A result is a plain JSON object in the shape of MCP's CallToolResult. Its own metadata is
under `meta`, that of an item under `_meta` (W-CALL-19). The names under which the
Computer reports how a call went are its own: what an MCP server wrote there is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from .base import to_json
from .codes import message_of
from .protocol import CANCEL_REASON, RESERVED_META_PREFIX

Outcome = Literal["not_executed", "unknown"]

OWN_META_KEYS: Final = frozenset(
    {
        "a2c_cancelled",
        "a2c_cancel_reason",
        "a2c_timeout",
        "error_code",
        "a2c_outcome",
        "a2c_attempts",
        "a2c_busy",
        "a2c_result_too_large",
        "mcp_server",
        "auth_hint",
        "a2c_tool_meta",
        "a2c_vrl_transformed",
    }
)
"""Result-level metadata the Computer alone writes (table of §8.3)."""


def text_item(text: str) -> dict[str, Any]:
    """A content item of plain text."""
    return {"type": "text", "text": text}


def error_result(text: str, **meta: Any) -> dict[str, Any]:
    """A failed call: one text item and metadata; members that are `None` are left out."""
    kept = {name: value for name, value in meta.items() if value is not None}
    result: dict[str, Any] = {"content": [text_item(text)], "isError": True}
    return result | {"meta": kept} if kept else result


def malformed_request(text: str = "", *, field: str | None = None) -> dict[str, Any]:
    """C-10: the request is malformed, or its `req_id` is in flight here (W-CALL-16)."""
    where = f": {field}" if field else ""
    return error_result(text or f"{message_of(400)}{where}", error_code=400, a2c_outcome="not_executed")


def unknown_tool(name: str) -> dict[str, Any]:
    """C-3: nothing of that name was ever listed (W-CALL-5)."""
    return error_result(f"{message_of(4001)}: {name}", error_code=4001, a2c_outcome="not_executed")


def disabled_tool(name: str, mcp_server: str | None = None) -> dict[str, Any]:
    """C-4: the tool is forbidden, or its server disabled (W-CALL-6)."""
    text = f"{message_of(4002)}: {name}"
    return error_result(text, error_code=4002, mcp_server=mcp_server, a2c_outcome="not_executed")


def unconfirmed(name: str, why: Literal["missing", "denied", "timed out"]) -> dict[str, Any]:
    """C-5: nobody confirmed, somebody refused, or the confirmation took too long (W-CALL-7)."""
    text = f"{message_of(4005)}: {name} (confirmation {why})"
    return error_result(text, error_code=4005, a2c_outcome="not_executed")


def failed(text: str, mcp_server: str | None = None, outcome: Outcome | None = "unknown") -> dict[str, Any]:
    """C-6: execution or transport failed. `text` holds no secret and no address (W-ERR-6)."""
    return error_result(text or message_of(4003), error_code=4003, mcp_server=mcp_server, a2c_outcome=outcome)


def timed_out(timeout: float, mcp_server: str | None = None, outcome: Outcome = "unknown") -> dict[str, Any]:
    """C-7: the Computer's own limit of `timeout` seconds ended the call."""
    return error_result(
        f"Tool call timed out after {timeout:g} s",
        a2c_timeout=True,
        error_code=4004,
        mcp_server=mcp_server,
        a2c_outcome=outcome,
    )


def timed_out_locally(timeout: float) -> dict[str, Any]:
    """What an Agent returns when no acknowledgement came in time; it has no error code (W-CALL-11)."""
    return error_result(f"No answer within {timeout:g} s", a2c_timeout=True, a2c_outcome="unknown")


def cancelled(outcome: Outcome = "unknown", reason: str = CANCEL_REASON) -> dict[str, Any]:
    """C-8: the Agent cancelled the call; no error code (W-CALL-15)."""
    return error_result("Tool call cancelled", a2c_cancelled=True, a2c_cancel_reason=reason, a2c_outcome=outcome)


_AUTHORIZATION: Final[dict[int, tuple[str, str]]] = {
    4006: ("user_authorization_required", "Authorize this MCP server on the computer that runs it, then try again."),
    4007: ("token_refresh_required", "Check the permissions of this MCP server or authorize it again."),
}


def unauthorized(code: Literal[4006, 4007], mcp_server: str, outcome: Outcome | None = None) -> dict[str, Any]:
    """C-9: the upstream wants an authorization it does not have (W-UP-2). All texts are constant (W-UP-3)."""
    action, message = _AUTHORIZATION[code]
    hint = {"action": action, "message": message}
    return error_result(message, error_code=code, mcp_server=mcp_server, auth_hint=hint, a2c_outcome=outcome)


def too_large(size: int, limit: int) -> dict[str, Any]:
    """C-11: the acknowledgement would not fit a packet; both numbers in bytes (W-CALL-21)."""
    text = f"The tool result is too large to be sent: {size} bytes, limit {limit} bytes"
    return error_result(text, error_code=4003, a2c_result_too_large=True)


def busy(text: str, mcp_server: str | None = None) -> dict[str, Any]:
    """C-13: the server's queue is full, or a breaker is open (DEC-29)."""
    return error_result(text, error_code=4003, a2c_busy=True, mcp_server=mcp_server, a2c_outcome="not_executed")


def not_connected(state: str, mcp_server: str) -> dict[str, Any]:
    """C-14: the server is enabled but not connected; `state` says why, for people (DEC-25)."""
    text = f"MCP server {mcp_server} is not connected ({state})"
    return error_result(text, error_code=4003, mcp_server=mcp_server, a2c_outcome="not_executed")


def own_meta(upstream: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Result-level metadata: the MCP server's without the names that are ours, then ours."""
    theirs = {name: value for name, value in (upstream or {}).items() if not is_reserved(name)}
    return theirs | {name: value for name, value in ours.items() if value is not None}


def is_reserved(name: str) -> bool:
    """Whether only the Computer may write a result-level metadata name (C-BLOB-20)."""
    return name in OWN_META_KEYS or name.startswith(RESERVED_META_PREFIX)


def seal(result: bytes, ours: Mapping[str, Any] | None = None) -> bytes:
    """An MCP server's result as the acknowledgement carries it.

    Metadata moves to the spelling of its level, names that are ours are taken out of it at every level,
    and `ours` is added. Content, structured content and unknown members stay byte for byte where nothing
    had to be taken out.

    Args:
        result: CallToolResult as JSON.
        ours: Metadata of the Computer; members that are `None` are left out.
    Raises:
        ValueError: Not a JSON object, or `content` is no list.
    Spec: W-CALL-18, W-CALL-19, C-BLOB-20.
    """
    members = _members(result)
    meta = own_meta(_meta_of_raw(members), ours or {})
    members.pop("meta", None)
    members.pop("_meta", None)
    members.setdefault("content", _EMPTY_LIST)
    members["isError"] = msgspec.Raw(b"true") if _is_true(members.get("isError")) else msgspec.Raw(b"false")
    content = bytes(members["content"])
    if not content.lstrip().startswith(b"["):
        if content.strip() != b"null":
            raise ValueError("content is not a list")
        members["content"] = _EMPTY_LIST
    elif _may_hold_metadata(content):
        members["content"] = msgspec.Raw(to_json([_clean_item(item) for item in msgspec.json.decode(content)]))
    if _is_null(members.get("structuredContent")):
        members.pop("structuredContent", None)
    if meta:
        members["meta"] = msgspec.Raw(to_json(meta))
    return to_json(members)


def read_result(ack: Mapping[str, Any]) -> dict[str, Any]:
    """A peer's result in our spelling, whatever spelling it used.

    `content` is a list and `isError` a boolean afterwards; metadata is under `meta` at result level and under
    `_meta` in items and embedded resources; nulls are gone. An error without content gets its text from
    `structuredContent` (W-CALL-27), and the timeout mark of an early draft is read (W-D-30).

    Spec: W-CALL-18, W-CALL-20.
    """
    result = {name: value for name, value in ack.items() if value is not None and name not in ("meta", "_meta")}
    content = result.get("content")
    result["content"] = [_read_item(item) for item in content] if isinstance(content, list | tuple) else []
    result["isError"] = result.get("isError") is True
    meta = result_meta(ack)
    if meta:
        result["meta"] = meta
    if result["isError"] and not result["content"]:
        text = _structured_error(result.get("structuredContent"))
        if text:
            result["content"] = [text_item(text)]
    return result


def result_meta(result: Mapping[str, Any]) -> dict[str, Any]:
    """Result-level metadata under either spelling, `meta` first; empty when there is none (W-CALL-20)."""
    meta = _either(result, "meta", "_meta")
    if meta.get("timeout") is True and "a2c_timeout" not in meta:
        meta = {**meta, "a2c_timeout": True}
    return meta


def item_meta(item: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a content item or embedded resource under either spelling, `_meta` first (W-CALL-20)."""
    return _either(item, "_meta", "meta")


Failure = Literal["cancelled", "timed_out", "other"]


def failure_kind(result: Mapping[str, Any]) -> Failure | None:
    """How a failed call ended by its metadata, `None` for one that did not fail (W-AGT-5)."""
    if result.get("isError") is not True:
        return None
    meta = result_meta(result)
    if meta.get("a2c_cancelled") is True:
        return "cancelled"
    return "timed_out" if meta.get("a2c_timeout") is True else "other"


def error_code(result: Mapping[str, Any]) -> int | None:
    """The numeric code a failed call carries, if any."""
    code = result_meta(result).get("error_code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _either(holder: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    for name in (first, second):
        value = holder.get(name)
        if isinstance(value, Mapping):
            return dict(value)
    return {}


def _read_item(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    read = {name: value for name, value in item.items() if value is not None and name not in ("meta", "_meta")}
    if isinstance(read.get("resource"), Mapping):
        read["resource"] = _read_item(read["resource"])
    meta = item_meta(item)
    return read | {"_meta": meta} if meta else read


def _structured_error(structured: Any) -> str:
    error = structured.get("error") if isinstance(structured, Mapping) else None
    return error if isinstance(error, str) else ""


_EMPTY_LIST: Final = msgspec.Raw(b"[]")
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _members(result: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _decode_members(result)
    except (ValueError, RecursionError):
        raise ValueError("a tool result is a JSON object") from None


def _meta_of_raw(members: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    named = {name: msgspec.json.decode(members[name]) for name in ("_meta", "meta") if name in members}
    return _either(named, "_meta", "meta")


def _is_true(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(raw).strip() == b"true"


def _is_null(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(raw).strip() == b"null"


def _may_hold_metadata(content: bytes) -> bool:
    # An escape could spell a name in a way a byte search misses, so escaped text takes the slow way too.
    return b'meta"' in content or b"\\u" in content


def _clean_item(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    cleaned = {name: value for name, value in item.items() if name not in ("meta", "_meta")}
    if isinstance(item.get("resource"), dict):
        cleaned["resource"] = _clean_item(item["resource"])
    meta = {name: value for name, value in item_meta(item).items() if not name.startswith(RESERVED_META_PREFIX)}
    return cleaned | {"_meta": meta} if meta else cleaned
