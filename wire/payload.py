"""Protocol errors as they travel: flat, with a code from one table, recognised the same way everywhere (01 §9).

A builder exists for each code a peer of ours sends, so that fields sit where readers look
for them. `message` is constant text for people; what varies goes into fields, and
`details` is for logs and never holds a secret (W-ERR-6).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from .base import Structure, to_wire
from .codes import CODES, message_of
from .errors import InvalidPayload, MalformedReplyError, PeerError
from .retry import advise

UNSUPPORTED = "unsupported"


class ErrorPayload(Structure, frozen=True, kw_only=True):
    """A flat protocol error. Which optional field belongs to which code: `codes.CODES`."""

    code: int
    message: str
    details: dict[str, Any] | UnsetType = UNSET
    server_version: str | UnsetType = UNSET
    client_version: str | UnsetType = UNSET
    min_supported: str | UnsetType = UNSET
    max_supported: str | UnsetType = UNSET
    mcp_server: str | UnsetType = UNSET
    capability: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    doc_ref: str | UnsetType = UNSET
    page: int | UnsetType = UNSET
    page_count: int | UnsetType = UNSET
    element_id: str | UnsetType = UNSET

    def to_wire(self) -> dict[str, Any]:
        """The JSON object of an A1 acknowledgement."""
        return to_wire(self)

    def to_error(self, event: str = "") -> PeerError:
        """The exception a caller sees."""
        return to_error(self.to_wire(), event=event)


def bad_request(field: str | None = None, expected: str | None = None, message: str | None = None) -> ErrorPayload:
    """400: a field is missing or wrong, or a request may not be made now."""
    details = {name: value for name, value in (("field", field), ("expected", expected)) if value is not None}
    return _payload(400, message, details=details)


def forbidden(message: str | None = None, *, reason: str | None = None) -> ErrorPayload:
    """403: a role or name is violated; `reason` `rate_limited` for a limit (W-SRV-5)."""
    return _payload(403, message, details=_only(reason=reason))


def computer_not_found(name: str) -> ErrorPayload:
    """404, the same bytes as an official Server (W-CALL-2)."""
    return _payload(404, f"Computer with name '{name}' not found", details={"computer_name": name})


def server_gave_up() -> ErrorPayload:
    """408: the Server waited for the Computer to the end of its limit (W-CALL-12)."""
    return _payload(408)


def event_unsupported() -> ErrorPayload:
    """500 of a Server whose Computer acknowledged an event with nothing, which is how it says that it has none such."""
    return _payload(500, "The Computer does not support this event", details={"reason": UNSUPPORTED})


def internal_error() -> ErrorPayload:
    """500; the cause is in the log of whoever answers, never in the payload."""
    return _payload(500)


def authorization_required(mcp_server: str) -> ErrorPayload:
    """4006, flat form for resource listings (W-RES-3)."""
    return _payload(4006, mcp_server=mcp_server)


def authorization_failed(mcp_server: str) -> ErrorPayload:
    """4007, flat form for resource listings (W-RES-3)."""
    return _payload(4007, mcp_server=mcp_server)


def version_mismatch(server: str, client: str, lowest: str, highest: str) -> ErrorPayload:
    """4008; byte-exact bodies are made in `version`."""
    return _payload(4008, server_version=server, client_version=client, min_supported=lowest, max_supported=highest)


def resolver_missing(uri: str) -> ErrorPayload:
    """4011: nobody registered a document resolver."""
    return _payload(4011, uri=uri)


def invalid_dpe_uri(uri: str, reason: str) -> ErrorPayload:
    """4012: the URI breaks the grammar of C-DOC-2."""
    return _payload(4012, uri=uri, reason=reason)


def resolution_failed(uri: str, reason: str) -> ErrorPayload:
    """4013: reading or resolving failed; `reason` is one of C-DOC-24."""
    return _payload(4013, uri=uri, reason=reason)


def mcp_server_not_found(mcp_server: str) -> ErrorPayload:
    """4014: no running server of that bundle_id (W-RES-2)."""
    return _payload(4014, mcp_server=mcp_server)


def mcp_server_unreachable(mcp_server: str, reason: str) -> ErrorPayload:
    """4014: the server runs, but listing failed; `reason` `timeout` or `upstream_error` (W-RES-3)."""
    return _payload(4014, "MCP Server not reachable", mcp_server=mcp_server, details={"reason": reason})


def skill_not_found(name: str) -> ErrorPayload:
    """4014 of a skill: the name is in the details, there is no server to name (C-SKILL-60)."""
    return _payload(4014, "Skill not found", details={"name": name})


def capability_missing(mcp_server: str, capability: str = "resources") -> ErrorPayload:
    """4015: the server did not declare the capability."""
    message = f"MCP Server does not support '{capability}' capability"
    return _payload(4015, message, mcp_server=mcp_server, capability=capability)


def invalid_skill_name(name: str) -> ErrorPayload:
    """4016: the name breaks the grammar of C-SKILL-1."""
    return _payload(4016, details={"name": name})


def skill_resource_refused(reason: str, rel_path: str, total_size: int | None = None) -> ErrorPayload:
    """4017; `total_size` only with `too_large`."""
    return _payload(4017, details=_only(reason=reason, rel_path=rel_path, total_size=total_size))


def blob_refused(reason: str, total_size: int | None = None) -> ErrorPayload:
    """4018; `total_size` only with `range`."""
    return _payload(4018, details=_only(reason=reason, total_size=total_size))


def upload_refused(reason: str, upload_id: str | None = None, total_size: int | None = None) -> ErrorPayload:
    """4019; never a path."""
    return _payload(4019, details=_only(reason=reason, upload_id=upload_id, total_size=total_size))


def room_full() -> ErrorPayload:
    """4101: the office has its Agent."""
    return _payload(4101)


def room_not_found() -> ErrorPayload:
    """4102: offices must exist beforehand, and this one does not."""
    return _payload(4102)


def not_in_room() -> ErrorPayload:
    """4103: the caller is in no office."""
    return _payload(4103)


def cross_room() -> ErrorPayload:
    """4104: another office; says nothing about whether that office exists."""
    return _payload(4104)


def document_not_found(uri: str, doc_ref: str) -> ErrorPayload:
    """4201."""
    return _payload(4201, uri=uri, doc_ref=doc_ref)


def page_out_of_range(uri: str, doc_ref: str, page: int, page_count: int) -> ErrorPayload:
    """4202; pages count from 0."""
    return _payload(4202, uri=uri, doc_ref=doc_ref, page=page, page_count=page_count)


def element_not_found(uri: str, doc_ref: str, element_id: str) -> ErrorPayload:
    """4203."""
    return _payload(4203, uri=uri, doc_ref=doc_ref, element_id=element_id)


def invalid_finder_uri(uri: str, reason: str) -> ErrorPayload:
    """4204, of the local Finder read alone; it never travels (W-DOC-4)."""
    return _payload(4204, uri=uri, reason=reason)


def recognise(ack: object) -> dict[str, Any] | None:
    """The ErrorPayload in an acknowledgement, or `None` when it is none.

    An integer `code` and a string `message` make one, whatever the code (W-ERR-3). The nested form of
    an early draft is unwrapped (W-ERR-1).
    """
    if not isinstance(ack, Mapping):
        return None
    if _is_flat(ack):
        return dict(ack)
    inner = ack.get("error")
    return dict(inner) if isinstance(inner, Mapping) and len(ack) == 1 and _is_flat(inner) else None


def raise_for_error(ack: object, *, event: str = "") -> None:
    """Raises the `PeerError` of an acknowledgement that is an ErrorPayload; returns for anything else.

    Raises:
        MalformedReplyError: `unsupported`: a Server says for its Computer what an empty acknowledgement says.
    """
    payload = recognise(ack)
    if payload is None:
        return
    if payload["code"] == 500 and reason_of(payload) == UNSUPPORTED:
        raise MalformedReplyError(f"{event or 'the event'} is not supported by the peer", code=UNSUPPORTED)
    raise to_error(payload, event=event)


def to_error(payload: Mapping[str, Any], *, event: str = "") -> PeerError:
    """The exception of a recognised ErrorPayload, kept whole in its `payload`.

    `code` is the slug of the numeric code (`peer_error` for an unknown one), `retryable` and the hint
    follow §9.6. The peer's `details` stay in the payload: they are not for end users.
    """
    number = int(payload["code"])
    advice = advise(number, reason=reason_of(payload))
    row = CODES.get(number)
    return PeerError(
        str(payload["message"]),
        payload=payload,
        code=row.slug if row else None,
        retryable=advice.retry in ("backoff", "new_attempt", "after_refresh"),
        retry_hint=advice.hint,
        details={"event": event} if event else None,
    )


def from_error(error: BaseException) -> ErrorPayload:
    """The answer to a `client:*` event whose handling raised.

    A `PeerError` keeps its payload, a request that does not fit its structure is 400 with the place,
    everything else is a bare 500: its text may name paths or hosts (R-ERR-2).
    """
    if isinstance(error, PeerError):
        return read_payload(error.payload)
    if isinstance(error, InvalidPayload):
        return bad_request(error.field, error.expected)
    return internal_error()


def read_payload(payload: Mapping[str, Any]) -> ErrorPayload:
    """The structure of a recognised ErrorPayload; a field of the wrong type is left out."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(ErrorPayload):
        value = payload.get(field.name)
        if value is None:
            continue
        try:
            fields[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            continue
    return ErrorPayload(**fields)


def reason_of(payload: Mapping[str, Any]) -> str | None:
    """The `reason` of a payload, beside the code or in its details."""
    details = payload.get("details")
    for place in (details if isinstance(details, Mapping) else {}, payload):
        reason = place.get("reason")
        if isinstance(reason, str):
            return reason
    return None


def for_tool_call(payload: ErrorPayload) -> dict[str, Any]:
    """A routing refusal of a tool call: the flat payload, readable as a CallToolResult too (W-CALL-3).

    Codes that survive an official Server go as they are; readers know them.
    """
    wire = payload.to_wire()
    row = CODES.get(payload.code)
    if row is not None and row.survives:
        return wire
    item = {"type": "text", "text": format_refusal(payload.code, payload.message)}
    return wire | {"content": [item], "isError": True, "meta": {"error_code": payload.code}}


def format_refusal(code: int, message: str | None = None) -> str:
    """The text half of a refused join or leave: `[4101] Room already has an agent` (W-ROOM-4)."""
    return f"[{code}] {message or message_of(code)}"


def parse_refusal(text: str | None) -> tuple[int | None, str]:
    """Code and text of a refused join or leave; an official Server gives no code (W-ROOM-4)."""
    found = _REFUSAL.match(text) if isinstance(text, str) else None
    if found is None:
        return None, text if isinstance(text, str) else ""
    return int(found["code"]), found["text"]


_REFUSAL = re.compile(r"\[(?P<code>[0-9]{1,9})\] ?(?P<text>.*)", re.DOTALL | re.ASCII)


def _is_flat(value: Mapping[Any, Any]) -> bool:
    code = value.get("code")
    return isinstance(code, int) and not isinstance(code, bool) and isinstance(value.get("message"), str)


def _payload(
    code: int, message: str | None = None, *, details: dict[str, Any] | None = None, **extras: Any
) -> ErrorPayload:
    return ErrorPayload(code=code, message=message or message_of(code), details=details if details else UNSET, **extras)


def _only(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
