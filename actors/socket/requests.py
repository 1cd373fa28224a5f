"""Reading what an Agent asks of this Computer: the structure of each `client:*` event, checked.

Pure. The arguments of a tool call and the chunk of an upload stay the JSON text they came as;
everything else of a request is small and becomes its structure. Called by the SocketActor for
every event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire.base import ComputerRequest, decode_payload, to_json
from ...wire.errors import InvalidPayload
from ...wire.events import CALLS, CLIENT_PUT_BLOB, CLIENT_TOOL_CALL
from ...wire.tools import ToolCallReq, ToolTimeout


class ToolCall(ComputerRequest, frozen=True, kw_only=True):
    """`client:tool_call` with `params` as the JSON text of an object; `timeout` in whole seconds."""

    tool_name: str
    params: msgspec.Raw
    timeout: ToolTimeout


class Upload(ComputerRequest, frozen=True, kw_only=True):
    """`client:put_blob` as it came, in `body`: its faults have codes of their own, given by the owner (C-UP-5)."""

    upload_id: Any = None
    body: bytes = b""


def read_request(event: str, data: msgspec.Raw | None) -> ComputerRequest:
    """The request an event brought.

    Args:
        event: One of `wire.events.CALLS`.
        data: JSON of the event's first argument, `None` when it had none.
    Raises:
        InvalidPayload: There is none, or it does not fit its structure (C-GEN-5, W-CALL-4).
    """
    if data is None:
        raise InvalidPayload("$", "object")
    body = bytes(data)
    if event == CLIENT_TOOL_CALL:
        return _read_tool_call(body)
    if event == CLIENT_PUT_BLOB:
        head = decode_payload(_UploadHead, body)
        return Upload(agent=head.agent, req_id=head.req_id, computer=head.computer, upload_id=head.upload_id, body=body)
    request: ComputerRequest = decode_payload(CALLS[event].request, body)
    return request


class _UploadHead(ComputerRequest, frozen=True, kw_only=True):
    upload_id: Any = None


def _read_tool_call(body: bytes) -> ToolCall:
    try:
        call = _decode_call(body)
    except (ValueError, RecursionError):
        call = None
    if call is not None and bytes(call.params).lstrip()[:1] == b"{":
        return call
    # The exact fault, and the forms that are rare but legal (null members, `30.0`), are the structure's to judge.
    full = decode_payload(ToolCallReq, body)
    return ToolCall(
        agent=full.agent,
        req_id=full.req_id,
        computer=full.computer,
        tool_name=full.tool_name,
        params=msgspec.Raw(to_json(full.params)),
        timeout=full.timeout,
    )


_decode_call = msgspec.json.Decoder(ToolCall).decode
