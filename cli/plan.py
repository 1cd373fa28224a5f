"""The plan `smcp computer check` prints: which servers would run, where each comes from, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..actors.reconcile.computer_config import ComputerConfig
from ..actors.reconcile.config_projection import project_server
from ..actors.reconcile.inputs import project
from ..actors.reconcile.layers import embed_layers, read_flag_files
from ..actors.reconcile.options import RuntimeOptions
from ..actors.reconcile.server_set import Layer, SetEntry, resolve_inputs, resolve_servers
from .output import Output


def show_plan(output: Output, config: ComputerConfig, options: RuntimeOptions) -> None:
    """Prints the plan; values that may be secret are masked as they are for an Agent (DEC-30)."""
    layers = _layers(config, options)
    servers = resolve_servers(layers)
    inputs = [project(definition) for definition in resolve_inputs(layers).values()]
    if output.as_json:
        output.document({"name": config.name, "servers": {k: _facts(v) for k, v in servers.items()}, "inputs": inputs})
        return
    output.text(f"{config.name}: {len(servers)} servers, {len(inputs)} inputs")
    rows = [(id_, entry.entry.name, entry.entry.type, _state(entry), entry.source) for id_, entry in servers.items()]
    output.table(("BUNDLE ID", "NAME", "TYPE", "STATE", "SOURCE"), rows)


def planned_servers(config: ComputerConfig, options: RuntimeOptions) -> Mapping[str, SetEntry]:
    """The servers of the plan by bundle_id."""
    return resolve_servers(_layers(config, options))


def _layers(config: ComputerConfig, options: RuntimeOptions) -> tuple[Layer, ...]:
    return (*embed_layers(config, ()), *read_flag_files(tuple(options.flag_mcp_config)))


def _facts(member: SetEntry) -> dict[str, Any]:
    facts = {"state": _state(member), "origin": member.origin, "source": member.source, "shadows": member.shadowed}
    return facts | {"config": project_server(member.entry)}


def _state(member: SetEntry) -> str:
    if member.entry.disabled:
        return "disabled"
    return "starts" if member.may_run else member.verdict.lower()
