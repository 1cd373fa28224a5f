"""The configuration of one Computer: any accepted form in, one canonical intent out (03 §2.1, §2.2).

Nothing happens here but reading: no file, no network, no process (R-CFG-1). All faults of
a configuration are reported together, by path and expectation, without values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ....wire.errors import Finding
from ....wire.protocol import NAMESPACE, SOCKETIO_PATH
from .declaration import Declaration, read_sections, without_collisions
from .fields import Fields
from .findings import Findings, item, member
from .inputs import Definition, read_inputs
from .inputs import canonical as canonical_input
from .json_text import half_character, is_deep, load, repeated_keys
from .server_entry import ServerEntry
from .server_entry import canonical as canonical_server
from .settings_fields import (
    is_absolute,
    read_enablement,
    read_flag,
    read_marketplaces,
    read_names,
    read_plugin_ids,
    read_settings,
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

TOP_LEVEL_ALIASES: Mapping[str, str] = {
    "computer_name": "name",
    "computerName": "name",
    "display_metadata": "display",
    "displayMetadata": "display",
    "skill_roots": "skills",
    "skillRoots": "skills",
    "extraKnownMarketplaces": "marketplaces",
    "extra_known_marketplaces": "marketplaces",
    "trustedMarketplaces": "trusted_marketplaces",
    "blockedMarketplaces": "blocked_marketplaces",
    "strictKnownMarketplaces": "strict_known_marketplaces",
    "installed_plugins": "installedPlugins",
    "plugin_installation": "installedPlugins",
    "enabled_plugins": "enabledPlugins",
    "plugin_enablement": "enabledPlugins",
    "settingsPolicy": "settings_policy",
    "settings": "settings_policy",
}
SERVER_FAMILY = ("mcp_servers", "servers", "mcpServers")
"""The first name is canonical; the other two may stand side by side, as in an mcp file (03 §4.1)."""

CONNECTION_ALIASES: Mapping[str, str] = {
    "server_url": "url",
    "serverUrl": "url",
    "socketioPath": "socketio_path",
    "officeId": "office_id",
    "office": "office_id",
    "auth_payload": "auth",
    "authPayload": "auth",
    "autoConnect": "auto_connect",
}


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """How a Computer presents itself locally; never on the wire."""

    title: str | None = None
    description: str | None = None
    labels: dict[str, str] = {}


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to connect. `auth` carries business fields only and never shows in a repr."""

    url: str | None = None
    namespace: str = NAMESPACE
    socketio_path: str = SOCKETIO_PATH
    office_id: str | None = None
    auth: dict[str, Any] = {}
    headers: dict[str, str] = {}
    auto_connect: bool = False

    def __repr__(self) -> str:
        return f"Connection(office_id={self.office_id!r}, …)"


class ComputerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The intent of one Computer in canonical form, the same whatever form it was written in (R-CFG-7).

    Attributes:
        servers: Raw entries in their order.
        skills: Skill roots, `None` for the default root under home.
        settings: The embed layer of settings; what the families below say is not repeated in it.
        extra: Unknown top-level keys, kept and never used (R-CFG-5).
    """

    name: str
    display: Display = Display()
    servers: tuple[ServerEntry, ...] = ()
    inputs: tuple[Definition, ...] = ()
    skills: tuple[str, ...] | None = None
    marketplaces: dict[str, Any] = {}
    trusted_marketplaces: tuple[str, ...] = ()
    blocked_marketplaces: tuple[str, ...] = ()
    strict_known_marketplaces: bool = False
    installed_plugins: tuple[str, ...] = ()
    enabled_plugins: dict[str, bool] = {}
    settings: dict[str, Any] = {}
    connection: Connection | None = None
    extra: dict[str, Any] = {}

    @property
    def declaration(self) -> Declaration:
        """Its servers and inputs as one source."""
        return Declaration("config", self.servers, self.inputs)

    def __repr__(self) -> str:
        return f"ComputerConfig({self.name!r}, {len(self.servers)} servers)"


class ParsedConfig(msgspec.Struct, frozen=True):
    """A valid configuration, and what is worth knowing about it."""

    config: ComputerConfig
    warnings: tuple[Finding, ...] = ()


def parse_computer_config(
    raw: ComputerConfig | Mapping[str, Any] | str | bytes, *, label: str = "config"
) -> ParsedConfig:
    """The intent in a configuration object or its JSON text; one that was read before is read once more.

    Args:
        label: What the source is called in errors, for example its file name.
    Raises:
        ConfigValidationError, ConflictError, PolicyError: One error with all findings (R-CFG-2); its class is that of
            the category they share.
    Spec: R-CFG-1…7.
    """
    if isinstance(raw, ComputerConfig):
        raw = canonical(raw)
    tree = load(raw, label) if isinstance(raw, str | bytes) else raw
    findings = Findings(label)
    config = _read(tree, findings)
    findings.raise_if_any(label)
    assert config is not None
    return ParsedConfig(config, tuple(findings.warnings))


def canonical(config: ComputerConfig) -> dict[str, Any]:
    """The configuration as an object that reads back as the same intent. It holds secrets that were typed into it."""
    written: dict[str, Any] = {
        **config.extra,
        "name": config.name,
        "display": _present(msgspec.to_builtins(config.display)),
        "mcp_servers": [canonical_server(entry) for entry in config.servers],
        "inputs": [canonical_input(definition) for definition in config.inputs],
        "skills": None if config.skills is None else list(config.skills),
        "marketplaces": config.marketplaces,
        "trusted_marketplaces": list(config.trusted_marketplaces),
        "blocked_marketplaces": list(config.blocked_marketplaces),
        "strict_known_marketplaces": config.strict_known_marketplaces,
        "installedPlugins": list(config.installed_plugins),
        "enabledPlugins": config.enabled_plugins,
        "settings_policy": config.settings,
        "connection": None if config.connection is None else _present(msgspec.to_builtins(config.connection)),
    }
    return _present(written)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(tree: Any, findings: Findings) -> ComputerConfig | None:
    if not isinstance(tree, Mapping):
        findings.wrong_type("$", "an object", tree)
        return None
    if is_deep(tree):
        findings.add("$", "is nested too deep", code="too_deep")
        return None
    halved = half_character(tree)
    if halved is not None:
        findings.add(halved, "holds half a character, which nobody could be told", code="half_character")
        return None
    for path, key in repeated_keys(tree):
        if path not in SERVER_FAMILY:
            findings.add(path, f"key {key!r} stands there more than once", code="repeated_key")
    fields = Fields(tree, "", findings, TOP_LEVEL_ALIASES)
    name = _read_name(fields, findings)
    servers = _read_servers(fields, findings)
    inputs = read_inputs(fields.take("inputs"), fields.at("inputs"), findings)
    config = ComputerConfig(
        name=name,
        display=_read_display(fields, findings),
        servers=servers,
        inputs=tuple(without_collisions(servers, inputs, findings)),
        skills=_read_skills(fields, findings),
        marketplaces=_checked(fields, "marketplaces", read_marketplaces, findings) or {},
        trusted_marketplaces=tuple(_checked(fields, "trusted_marketplaces", read_names, findings) or ()),
        blocked_marketplaces=tuple(_checked(fields, "blocked_marketplaces", read_names, findings) or ()),
        strict_known_marketplaces=_checked(fields, "strict_known_marketplaces", read_flag, findings) or False,
        installed_plugins=tuple(_checked(fields, "installedPlugins", read_plugin_ids, findings) or ()),
        enabled_plugins=_checked(fields, "enabledPlugins", read_enablement, findings) or {},
        settings=read_settings(fields.take("settings_policy"), fields.at("settings_policy"), findings),
        connection=_read_connection(fields, findings),
        extra=fields.unknown(),
    )
    for key in config.extra:
        findings.warn(member("", key), "unknown key, kept and not used", code="unknown_key")
    return config


def _read_name(fields: Fields, findings: Findings) -> str:
    name = (fields.text("name", required=True, empty=False) or "").strip()
    if _CONTROL.search(name):
        findings.add(fields.at("name"), "must not contain control characters", code="control_character")
    return name


def _read_servers(fields: Fields, findings: Findings) -> tuple[ServerEntry, ...]:
    given = [(name, value) for name in SERVER_FAMILY if (value := fields.take(name)) is not None]
    if given and given[0][0] == SERVER_FAMILY[0]:
        for alias, value in given[1:]:
            if value != given[0][1]:
                findings.add(alias, f"differs from its other spelling {SERVER_FAMILY[0]!r}", code="alias_conflict")
        given = given[:1]
    elif len(given) > 1 and given[0][1] == given[1][1]:
        given = given[:1]
    return read_sections(given, findings)


def _read_display(fields: Fields, findings: Findings) -> Display:
    raw = fields.object("display")
    if raw is None:
        return Display()
    display = Fields(raw, fields.at("display"), findings, {})
    settled = Display(
        title=display.text("title"), description=display.text("description"), labels=display.text_map("labels") or {}
    )
    display.refuse_unknown("display")
    return settled


def _read_skills(fields: Fields, findings: Findings) -> tuple[str, ...] | None:
    raw = fields.take("skills")
    if raw is None:
        return None
    path = fields.at("skills")
    if isinstance(raw, Mapping):
        inner = Fields(raw, path, findings, {})
        raw, path = inner.take("roots"), inner.at("roots")
        inner.refuse_unknown("skills")
    if not isinstance(raw, list | tuple):
        findings.wrong_type(path, "an array of absolute paths", raw)
        return None
    for index, root in enumerate(raw):
        if not isinstance(root, str) or not is_absolute(root):
            findings.add(item(path, index), "must be an absolute path", code="not_absolute")
    return tuple(root for root in raw if isinstance(root, str))


def _read_connection(fields: Fields, findings: Findings) -> Connection | None:
    raw = fields.object("connection")
    if raw is None:
        return None
    inner = Fields(raw, fields.at("connection"), findings, CONNECTION_ALIASES)
    url = inner.text("url")
    if url is not None and not _is_http_url(url):
        findings.add(inner.at("url"), "must be an http or ws URL with a host", code="bad_url")
    namespace = inner.text("namespace") or NAMESPACE
    if not namespace.startswith("/"):
        findings.add(inner.at("namespace"), "must start with /", code="bad_namespace")
    connection = Connection(
        url=url,
        namespace=namespace,
        socketio_path=inner.text("socketio_path") or SOCKETIO_PATH,
        office_id=inner.text("office_id", empty=False),
        auth=_read_auth(inner, findings),
        headers=inner.text_map("headers") or {},
        auto_connect=inner.flag("auto_connect", False),
    )
    inner.refuse_unknown("connection")
    return connection


def _read_auth(fields: Fields, findings: Findings) -> dict[str, Any]:
    auth = fields.object("auth") or {}
    for key, value in auth.items():
        place = member(fields.at("auth"), key)
        if key == "role":
            findings.add(place, "must not be given: the role is declared when joining", code="role_in_auth")
        elif value is not None and not isinstance(value, str | bool | int | float):
            findings.wrong_type(place, "a string, number, boolean or null", value)
    return auth


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname)


def _checked(fields: Fields, name: str, check: Any, findings: Findings) -> Any:
    raw = fields.take(name)
    return None if raw is None else check(raw, fields.at(name), findings)
