"""The plan `smcp computer check` prints: what would run and why, what each server looks for, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..actors.reconcile.composition import Picture
from ..actors.reconcile.config.computer_config import ComputerConfig
from ..actors.reconcile.config.config_projection import project_server
from ..actors.reconcile.config.findings import render
from ..actors.reconcile.config.inputs import kind_of, project
from ..actors.reconcile.config.options import RuntimeOptions, settle
from ..actors.reconcile.management.input_views import referring
from ..actors.reconcile.management.preview import Preview, preview, variables_for
from ..actors.reconcile.server_set import SetEntry
from ..wire.protocol import NAME_SEPARATOR
from .exit_status import SUCCESS, USAGE
from .output import Output, facts_of


def show_plan(output: Output, config: ComputerConfig, options: RuntimeOptions) -> int:
    """Prints the plan; values that may be secret are masked as they are for an Agent (DEC-30).

    Returns:
        The status of the command: `USAGE` when something in a file of the command line could never start (R-CLI-1).
    """
    seen = preview(config, settle(options, config)[0])
    picture = seen.picture
    status = USAGE if any(problem.source in options.flag_mcp_config for problem in seen.problems) else SUCCESS
    if output.as_json:
        output.document(_document(config.name, seen))
        return status
    output.text(f"{config.name}: {len(picture.servers)} servers, {len(picture.shown)} inputs")
    rows = [
        (id_, entry.entry.name, entry.entry.type, _state(entry), entry.origin, _prefix(id_), entry.source)
        for id_, entry in picture.servers.items()
    ]
    output.table(("BUNDLE ID", "NAME", "TYPE", "STATE", "ORIGIN", "TOOLS", "SOURCE"), rows)
    looked_for = [
        (id_, input_id, _kind(picture.shown.get(input_id)), " ".join(variables))
        for id_, entry in picture.servers.items()
        for input_id, variables in variables_for(picture, entry).items()
    ]
    if looked_for:
        output.table(("SERVER", "INPUT", "KIND", "VARIABLES"), looked_for)
    for request in seen.pending:
        output.note(f"{request.bundle_id} of {request.source} waits for an approval: {request.reason}")
        for difference in request.differences:
            output.note(f"  {difference}")
    for line in (*picture.findings, *map(render, seen.problems)):
        output.note(line)
    return status


def planned_servers(config: ComputerConfig, options: RuntimeOptions) -> Mapping[str, SetEntry]:
    """The servers of the plan by bundle_id."""
    return preview(config, settle(options, config)[0]).picture.servers


def _document(name: str, seen: Preview) -> dict[str, Any]:
    picture = seen.picture
    inputs = [
        {**project(definition), "kind": kind_of(definition), "servers": referring(definition.id, picture)}
        for definition in picture.shown.values()
    ]
    return {
        "name": name,
        "servers": {id_: _facts(picture, entry) for id_, entry in picture.servers.items()},
        "inputs": inputs,
        "pending": [facts_of(request) for request in seen.pending],
        "findings": [*picture.findings, *map(render, seen.problems)],
    }


def _facts(picture: Picture, entry: SetEntry) -> dict[str, Any]:
    return {
        "state": _state(entry),
        "origin": entry.origin,
        "source": entry.source,
        "shadows": entry.shadowed,
        "verdict": entry.verdict,
        "step": entry.step,
        "reason": entry.reason,
        "tool_prefix": _prefix(entry.bundle_id),
        "variables": variables_for(picture, entry),
        "config": project_server(entry.entry),
    }


def _state(entry: SetEntry) -> str:
    if entry.entry.disabled:
        return "disabled"
    return "starts" if entry.may_run else entry.verdict.lower()


def _prefix(bundle_id: str) -> str:
    return f"{bundle_id}{NAME_SEPARATOR}"


def _kind(definition: Any) -> str:
    return "undefined" if definition is None else kind_of(definition)
