"""One server entry of a declaration, in any accepted form, as the raw entry this runtime keeps (03 §4).

Raw means as written: placeholders stay, spellings and defaults are settled. The raw entry
is what is compared, projected and written; only an actual start renders it (R-MCP-10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ....wire.errors import ConfigValidationError
from ....wire.identity import derive_bundle_id, is_valid_bundle_id, normalise_name
from ....wire.servers import FIELD_ALIASES, TRANSPORT_SPELLINGS
from ...tools.vrl import EngineMissing, check_script
from .fields import Fields
from .findings import Findings, item, member
from .oauth_entry import read_oauth, secret_input_of
from .parameters import Transport, read_parameters
from .placeholders import TooDeep, references
from .policies import read_group

CheckScript = Callable[[str], str | None]
"""What is wrong with a VRL script, or `None`; may raise `EngineMissing`."""

_FLAT_KEYS = ("command", "args", "env", "cwd", "url", "headers", "timeout")
_PARAMETER_ALIASES = {"encodingErrorHandler": "encoding_error_handler", "sseReadTimeout": "sse_read_timeout"} | {
    "terminateOnClose": "terminate_on_close"
}


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A raw server entry with its identity.

    Attributes:
        explicit_id: The configured bundle_id, `None` when it was derived; only this one is ever written back.
        parameters: `server_parameters` with every field of its transport. Placeholders may stand in any of them.
        health_check, reconnect: Checked policy fields of the entry itself.
    """

    bundle_id: str
    name: str
    type: Transport
    parameters: dict[str, Any]
    explicit_id: str | None = None
    disabled: bool = False
    forbidden_tools: tuple[str, ...] = ()
    tool_meta: dict[str, dict[str, Any]] = {}
    default_tool_meta: dict[str, Any] | None = None
    vrl: str | None = None
    env_file: str | None = None
    oauth: dict[str, Any] | None = None
    health_check: dict[str, Any] = {}
    reconnect: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"ServerEntry({self.bundle_id!r}, {self.name!r}, {self.type!r}, …)"

    @property
    def launch_shape(self) -> tuple[Any, ...]:
        """What a running process or connection was made from; a change of it is a restart (R-LIFE-15)."""
        return (self.type, self.parameters, self.env_file, self.oauth, self.health_check, self.reconnect)

    @property
    def rendered_fields(self) -> dict[str, Any]:
        """The part in which placeholders are honoured (R-INPUT-5)."""
        return {"server_parameters": self.parameters, "envFile": self.env_file}

    @property
    def referenced_inputs(self) -> tuple[str, ...]:
        """Input ids the entry refers to."""
        secret = secret_input_of(self.oauth)
        return tuple(dict.fromkeys((*references(self.rendered_fields), *([secret] if secret else []))))


def canonical(entry: ServerEntry) -> dict[str, Any]:
    """The entry as a configuration declares it, in canonical spelling; derived values are not in it (W-CFG-15)."""
    written: dict[str, Any] = {
        "name": entry.name,
        "bundle_id": entry.explicit_id,
        "type": entry.type,
        "disabled": entry.disabled,
        "forbidden_tools": list(entry.forbidden_tools),
        "tool_meta": entry.tool_meta,
        "default_tool_meta": entry.default_tool_meta,
        "vrl": entry.vrl,
        "server_parameters": entry.parameters,
        "envFile": entry.env_file,
        "oauth": entry.oauth,
        "health_check": entry.health_check or None,
        "reconnect": entry.reconnect or None,
    }
    return {name: value for name, value in written.items() if value is not None}


def read_entry(
    raw: object, path: str, findings: Findings, *, key: str | None = None, check: CheckScript = check_script
) -> ServerEntry | None:
    """One entry, or `None` with at least one finding.

    Args:
        key: Its key in a map of servers; the display name then.
        check: Checks `vrl`.
    Spec: R-MCP-1, R-MCP-2, R-MCP-6, R-MCP-19, W-CFG-10…14.
    """
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "a server object", raw)
        return None
    before = len(findings.faults)
    fields = Fields(raw, path, findings, FIELD_ALIASES)
    name = _read_name(fields, key, findings)
    is_flat = not fields.has("server_parameters") and (fields.has("command") or fields.has("url"))
    transport = _read_type(fields, is_flat, findings)
    entry = ServerEntry(
        bundle_id="",
        name=name,
        type=transport or "stdio",
        parameters=_read_parameters(fields, transport, is_flat, findings),
        explicit_id=_read_explicit_id(fields, findings),
        disabled=fields.flag("disabled", False),
        forbidden_tools=tuple(fields.texts("forbidden_tools")),
        tool_meta=_read_tool_metas(fields, findings),
        default_tool_meta=_read_default_meta(fields, findings),
        vrl=_read_vrl(fields, check, findings),
        env_file=_read_env_file(fields, transport, findings),
        oauth=read_oauth(fields, transport, findings),
        health_check=_read_policy(fields, "health_check", findings),
        reconnect=_read_policy(fields, "reconnect", findings),
    )
    fields.refuse_unknown("a server entry" if transport is None else f"a {transport} server entry")
    if len(findings.faults) > before or transport is None:
        return None
    bundle_id = _identify(entry, path, findings)
    return None if bundle_id is None else msgspec.structs.replace(entry, bundle_id=bundle_id)


def _read_name(fields: Fields, key: str | None, findings: Findings) -> str:
    name = fields.text("name", required=key is None)
    if key is None:
        return name or ""
    if name is not None and name != key:
        findings.add(fields.at("name"), "must equal the key of its entry", code="name_differs_from_key")
    return key


def _read_type(fields: Fields, is_flat: bool, findings: Findings) -> Transport | None:
    written = fields.text("type")
    if written is not None:
        known = TRANSPORT_SPELLINGS.get(written)
        if known is None:
            findings.add(fields.at("type"), "must be one of stdio, streamable, sse", code="bad_choice")
        return known  # type: ignore[return-value]
    if fields.has("type"):
        return None
    if is_flat:
        if fields.has("command") and fields.has("url"):
            findings.add(fields.path, "has both command and url; give its type", code="ambiguous_transport")
            return None
        return "stdio" if fields.has("command") else "streamable"
    parameters = fields.take("server_parameters")
    if isinstance(parameters, Mapping) and parameters.get("command") is not None:
        return "stdio"
    findings.add(fields.at("type"), "is required: one of stdio, streamable, sse", code="missing")
    return None


def _read_parameters(fields: Fields, transport: Transport | None, is_flat: bool, findings: Findings) -> dict[str, Any]:
    if is_flat:
        # Flat keys are read in place, so that findings name them where they stand.
        flat = {name: fields.take(name) for name in _FLAT_KEYS if fields.has(name)}
        parameters = Fields(flat, fields.path, findings, {})
    else:
        raw = fields.object("server_parameters", required=True)
        parameters = Fields(raw or {}, fields.at("server_parameters"), findings, _PARAMETER_ALIASES)
        if raw is None:
            return {}
    if transport is None:
        return {}
    read = read_parameters(transport, parameters, findings)
    parameters.refuse_unknown(f"the parameters of a {transport} server")
    return read


def _read_explicit_id(fields: Fields, findings: Findings) -> str | None:
    explicit = fields.text("bundle_id")
    if explicit is not None and not is_valid_bundle_id(explicit):
        hint = normalise_name(explicit)
        advice = f"; {hint!r} would do" if hint else ""
        reason = f"must consist of ASCII letters, digits, '_' and '-', without '__'{advice}"
        findings.add(fields.at("bundle_id"), reason, code="invalid_bundle_id")
        return None
    return explicit


def _identify(entry: ServerEntry, path: str, findings: Findings) -> str | None:
    taking_part = ("command", "args", "env") if entry.type == "stdio" else ("url", "headers")
    connection = {name: entry.parameters[name] for name in taking_part}
    try:
        references(entry.rendered_fields)
        return derive_bundle_id(entry.name, entry.type, explicit=entry.explicit_id, **connection)
    except ConfigValidationError as fault:
        findings.add(path, fault.message, code=fault.code)
    except TooDeep:
        findings.add(member(path, "server_parameters"), "nests too deep", code="too_deep")
    return None


def _read_tool_metas(fields: Fields, findings: Findings) -> dict[str, dict[str, Any]]:
    metas = fields.object("tool_meta") or {}
    path = fields.at("tool_meta")
    return {
        tool: meta
        for tool, raw in metas.items()
        if (meta := read_tool_meta(raw, member(path, tool), findings)) is not None
    }


def _read_default_meta(fields: Fields, findings: Findings) -> dict[str, Any] | None:
    if not fields.has("default_tool_meta"):
        fields.take("default_tool_meta")
        return None
    meta = read_tool_meta(fields.take("default_tool_meta"), fields.at("default_tool_meta"), findings)
    if meta is not None and meta.get("alias") is not None:
        place = member(fields.at("default_tool_meta"), "alias")
        findings.warn(place, "is ignored: one alias for all tools would hide all but one", code="default_alias")
    return meta


def read_tool_meta(raw: object, path: str, findings: Findings) -> dict[str, Any] | None:
    """A ToolMeta object as written, its four known members checked (R-MCP-12)."""
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return None
    known = Fields(raw, path, findings, {})
    if known.has("auto_apply"):
        known.flag("auto_apply", False)
    if known.text("alias") == "":
        findings.add(known.at("alias"), "must not be empty", code="empty")
    known.texts("tags")
    known.object("ret_object_mapper")
    return dict(raw)


def _read_vrl(fields: Fields, check: CheckScript, findings: Findings) -> str | None:
    script = fields.text("vrl")
    if script is None or not script.strip():
        return None
    try:
        fault = check(script)
    except EngineMissing:
        findings.add(fields.at("vrl"), "needs a VRL engine, and none is installed", code="vrl_unavailable")
        return script
    if fault:
        findings.add(fields.at("vrl"), f"is not valid VRL: {fault}", code="vrl_syntax")
    return script


def _read_env_file(fields: Fields, transport: Transport | None, findings: Findings) -> str | None:
    env_file = fields.text("envFile")
    if env_file is not None and transport in ("sse", "streamable"):
        findings.warn(
            fields.at("envFile"), "is ignored: only stdio servers have an environment", code="env_file_ignored"
        )
        return None
    return env_file


def _read_policy(fields: Fields, group: str, findings: Findings) -> dict[str, Any]:
    raw = fields.take(group)
    return {} if raw is None else read_group(raw, group, fields.at(group), findings)


def read_servers(
    raw: object, path: str, findings: Findings, *, check: CheckScript = check_script
) -> list[tuple[str, ServerEntry]]:
    """The entries of one list or map, each with its path. Faulty ones are noted and left out."""
    if raw is None:
        return []
    if isinstance(raw, Mapping):
        places = [(member(path, key), key, element) for key, element in raw.items()]
    elif isinstance(raw, list | tuple):
        places = [(item(path, index), None, element) for index, element in enumerate(raw)]
    else:
        findings.wrong_type(path, "an array or an object of servers", raw)
        return []
    read = []
    for place, key, element in places:
        entry = read_entry(element, place, findings, key=key, check=check)
        if entry is not None:
            read.append((place, entry))
    return read
