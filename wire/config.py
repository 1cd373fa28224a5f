"""The configuration an Agent may see: servers by bundle_id, raw and masked, and input definitions (01 §6.3)."""

from __future__ import annotations

from typing import Any

from .base import ComputerRequest, Structure, convert
from .errors import InvalidPayload
from .inputs import InputDefinition
from .servers import MCPServer, read_server


class GetComputerConfigReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_config`."""


class GetComputerConfigRet(Structure, frozen=True, kw_only=True):
    """Servers under their bundle_id, each repeating it. Carries no `req_id` (E-3).

    Our Computer always sends `inputs` as a list.
    """

    servers: dict[str, MCPServer]
    inputs: tuple[InputDefinition, ...] | None = None


def read_config(value: object) -> tuple[GetComputerConfigRet, tuple[str, ...]]:
    """A peer's configuration, and notes on entries in forms we do not know, which are set aside.

    Other implementations spell transports differently and know more input types; one entry of
    theirs must not hide the rest.

    Raises:
        InvalidPayload: Not an object with an object `servers`.
    """
    raw = convert(_Outline, value)
    notes: list[str] = []
    servers: dict[str, MCPServer] = {}
    for bundle_id, entry in raw.servers.items():
        try:
            servers[bundle_id] = read_server(entry, name=bundle_id)
        except InvalidPayload as fault:
            notes.append(f"server {bundle_id} set aside: {fault.field} is not {fault.expected}")
    inputs: list[InputDefinition] = []
    for number, entry in enumerate(raw.inputs or ()):
        try:
            inputs.append(convert(InputDefinition, entry))
        except InvalidPayload as fault:
            notes.append(f"input {number} set aside: {fault.field} is not {fault.expected}")
    known = None if raw.inputs is None else tuple(inputs)
    return GetComputerConfigRet(servers=servers, inputs=known), tuple(notes)


class _Outline(Structure, frozen=True, kw_only=True):
    servers: dict[str, Any]
    inputs: tuple[Any, ...] | None = None
