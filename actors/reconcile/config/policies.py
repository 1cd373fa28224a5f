"""How a server is watched, restarted and limited: five layers, field by field (03 §4.6).

Strongest first: settings for that server, keys in its own entry, settings for all, runtime
options, and the table of defaults below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ....wire.messages.mcp import CallLimits, HealthCheck, ReconnectPolicy
from ..pinning.board import Mode
from .findings import Findings, member

Placement = Literal["inline", "process", "external"]
PLACEMENTS = ("inline", "process", "external")
PIN_MODES = ("off", "warn", "hold")
GROUPS = ("health_check", "reconnect", "limits")
GROUP_SPELLINGS: Mapping[str, str] = {
    "healthCheck": "health_check",
    "reconnectPolicy": "reconnect",
    "reconnect_policy": "reconnect",
    "serverLimits": "limits",
    "server_limits": "limits",
}

Layer = Mapping[str, Mapping[str, Any]]
"""Checked fields by group; a field that is not there has no opinion."""


class _Rule(msgspec.Struct, frozen=True):
    """What one field may hold; `low` is allowed itself unless `above`."""

    default: Any
    kind: Literal["flag", "number", "integer", "intensity", "placement", "pinning"]
    low: float = 0.0
    above: bool = False
    nullable: bool = False


RULES: Mapping[str, Mapping[str, _Rule]] = {
    "health_check": {
        "enabled": _Rule(True, "flag"),
        "interval_secs": _Rule(30, "number", above=True),
        "timeout_secs": _Rule(5, "number", above=True),
    },
    "reconnect": {
        "enabled": _Rule(True, "flag"),
        "max_retries": _Rule(5, "integer"),
        "initial_delay_ms": _Rule(1000, "number", above=True),
        "max_delay_ms": _Rule(30000, "number", above=True),
        "backoff_factor": _Rule(2.0, "number", low=1.0),
        "stable_after_secs": _Rule(60, "number"),
        "restart_intensity": _Rule({"max": 5, "within_secs": 60}, "intensity"),
        "park_retry_secs": _Rule(300, "number"),
    },
    "limits": {
        "max_in_flight": _Rule(32, "integer", low=1),
        "max_queued": _Rule(256, "integer"),
        "idle_timeout_secs": _Rule(None, "number", above=True, nullable=True),
        "retry_safe_tools": _Rule(False, "flag"),
        "placement": _Rule("inline", "placement"),
        "pin_tools": _Rule(None, "pinning", nullable=True),
        "lazy": _Rule(False, "flag"),
        "idle_stop_secs": _Rule(300, "number", above=True),
    },
}


class ServerPolicies(msgspec.Struct, frozen=True):
    """The settled policies of one server. Without a word on `pin_tools` its approval decides (`pin_mode`)."""

    health: HealthCheck = HealthCheck()
    reconnect: ReconnectPolicy = ReconnectPolicy()
    limits: CallLimits = CallLimits()
    placement: Placement = "inline"
    pin_tools: Mode | None = None

    @property
    def is_lazy(self) -> bool:
        """Whether the server is started by the first call of one of its tools (F-68)."""
        return self.limits.idle_stop is not None


def read_group(raw: object, group: str, path: str, findings: Findings) -> dict[str, Any]:
    """The checked fields of one group object. Unknown and faulty ones are noted and left out."""
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return {}
    rules = RULES[group]
    checked: dict[str, Any] = {}
    for key, value in raw.items():
        name = _snake(key)
        rule = rules.get(name)
        if rule is None:
            findings.add(member(path, key), f"unknown key in {group}", code="unknown_key")
        elif value is None:
            if rule.nullable:
                checked[name] = None
        else:
            fault = _fault(rule, value)
            if fault:
                findings.add(member(path, key), fault, code="bad_policy")
            else:
                checked[name] = value
    _check_pairs(checked, path, findings)
    return checked


def read_runtime(raw: object, path: str, findings: Findings) -> tuple[Layer, dict[str, Layer]]:
    """The `mcpServerRuntime` object of settings: the layer for all servers, and layers by bundle_id."""
    if raw is None:
        return {}, {}
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return {}, {}
    defaults = read_layer(raw.get("defaults"), member(path, "defaults"), findings)
    servers: dict[str, Layer] = {}
    by_id = raw.get("servers")
    if by_id is not None and not isinstance(by_id, Mapping):
        findings.wrong_type(member(path, "servers"), "an object", by_id)
        by_id = None
    for bundle_id, layer in (by_id or {}).items():
        servers[bundle_id] = read_layer(layer, member(member(path, "servers"), bundle_id), findings)
    for key in raw:
        if key not in ("defaults", "servers"):
            findings.add(member(path, key), "unknown key in mcpServerRuntime", code="unknown_key")
    return defaults, servers


def read_layer(raw: object, path: str, findings: Findings) -> Layer:
    """Groups of one layer. Single options may also stand beside the groups, by their unique names."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return {}
    layer: dict[str, dict[str, Any]] = {}
    for key, value in raw.items():
        group = GROUP_SPELLINGS.get(key, key)
        if group in GROUPS:
            layer.setdefault(group, {}).update(read_group(value, group, member(path, key), findings))
            continue
        owner = next((name for name in GROUPS if _snake(key) in RULES[name] and _snake(key) != "enabled"), None)
        if owner is None:
            findings.add(member(path, key), "unknown key in server runtime settings", code="unknown_key")
        else:
            fields = read_group({_snake(key): value}, owner, path, findings)
            layer.setdefault(owner, {}).update(fields)
    return layer


def settle(layers: Iterable[Layer]) -> ServerPolicies:
    """The policies out of layers, strongest first; what no layer says comes from the table.

    A probe never outlasts its interval and a delay never exceeds the longest, also when the two come from
    different layers.
    """
    strongest_first = list(layers)

    def value(group: str, name: str) -> Any:
        for layer in strongest_first:
            fields = layer.get(group, {})
            if name in fields:
                return fields[name]
        return RULES[group][name].default

    interval = float(value("health_check", "interval_secs"))
    initial = value("reconnect", "initial_delay_ms") / 1000
    intensity = value("reconnect", "restart_intensity")
    idle = value("limits", "idle_timeout_secs")
    return ServerPolicies(
        health=HealthCheck(
            enabled=value("health_check", "enabled"),
            interval=interval,
            timeout=min(float(value("health_check", "timeout_secs")), interval),
        ),
        reconnect=ReconnectPolicy(
            enabled=value("reconnect", "enabled"),
            max_retries=value("reconnect", "max_retries"),
            initial_delay=initial,
            max_delay=max(value("reconnect", "max_delay_ms") / 1000, initial),
            backoff_factor=float(value("reconnect", "backoff_factor")),
            stable_after=float(value("reconnect", "stable_after_secs")),
            intensity_max=intensity["max"],
            intensity_within=float(intensity["within_secs"]),
            park_retry=float(value("reconnect", "park_retry_secs")),
        ),
        limits=CallLimits(
            max_in_flight=value("limits", "max_in_flight"),
            max_queued=value("limits", "max_queued"),
            idle_timeout=None if idle is None else float(idle),
            retry_safe_tools=value("limits", "retry_safe_tools"),
            idle_stop=float(value("limits", "idle_stop_secs")) if value("limits", "lazy") else None,
        ),
        placement=value("limits", "placement"),
        pin_tools=value("limits", "pin_tools"),
    )


def _fault(rule: _Rule, value: object) -> str | None:
    match rule.kind:
        case "flag":
            return None if isinstance(value, bool) else "must be a boolean"
        case "placement" | "pinning":
            choices = PLACEMENTS if rule.kind == "placement" else PIN_MODES
            return None if value in choices else f"must be one of {', '.join(choices)}"
        case "intensity":
            return _intensity_fault(value)
    whole = rule.kind == "integer"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return f"must be {'an integer' if whole else 'a number'}"
    if value < rule.low or (rule.above and value == rule.low) or value > _LARGEST:
        return f"must be {'>' if rule.above else '>='} {rule.low:g}"
    return None


_LARGEST = 10**9


def _intensity_fault(value: object) -> str | None:
    if not isinstance(value, Mapping) or set(value) != {"max", "within_secs"}:
        return "must be an object with max and within_secs"
    most, within = value["max"], value["within_secs"]
    if isinstance(most, bool) or not isinstance(most, int) or most <= 0:
        return "max must be an integer > 0"
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 < within <= _LARGEST:
        return "within_secs must be a number > 0"
    return None


def _check_pairs(checked: Mapping[str, Any], path: str, findings: Findings) -> None:
    interval, timeout = checked.get("interval_secs"), checked.get("timeout_secs")
    if interval is not None and timeout is not None and timeout > interval:
        findings.add(member(path, "timeout_secs"), "must not exceed interval_secs", code="bad_policy")
    initial, longest = checked.get("initial_delay_ms"), checked.get("max_delay_ms")
    if initial is not None and longest is not None and longest < initial:
        findings.add(member(path, "max_delay_ms"), "must not be below initial_delay_ms", code="bad_policy")


def _snake(name: str) -> str:
    return re.sub("(?<=[a-z])[A-Z]", lambda capital: "_" + capital[0].lower(), name)
