"""The plan `smcp computer check` prints: what would run and why, what each server looks for, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..actors.reconcile.composition import Picture
from ..actors.reconcile.config.computer_config import ComputerConfig
from ..actors.reconcile.config.config_projection import project_server
from ..actors.reconcile.config.findings import render
from ..actors.reconcile.config.inputs import kind_of, project
from ..actors.reconcile.config.options import RuntimeOptions, settle
from ..actors.reconcile.management.input_views import referring
from ..actors.reconcile.management.preview import Preview, preview, variables_for
from ..actors.reconcile.server_set import SetEntry
from ..actors.reconcile.values.lacking import lacking
from ..wire.protocol import NAME_SEPARATOR
from .checkup import Found, check_launch, check_values, is_here
from .exit_status import SUCCESS, USAGE
from .output import Output, facts_of


class _Plan(msgspec.Struct, frozen=True):
    """What is printed: the preview, and what this machine lacks for it.

    Attributes:
        unstartable: What keeps a process from being started, by bundle_id.
        notes: Everything worth a line that is in no table.
    """

    seen: Preview
    unstartable: Mapping[str, tuple[Found, ...]]
    notes: tuple[str, ...]

    def state_of(self, member: SetEntry) -> str:
        """What would become of a member."""
        if member.entry.disabled:
            return "disabled"
        if not member.may_run:
            return member.verdict.lower()
        return "cannot start" if self.unstartable.get(member.bundle_id) else "starts"


async def show_plan(output: Output, config: ComputerConfig, options: RuntimeOptions) -> int:
    """Prints the plan; values that may be secret are masked as they are for an Agent (DEC-30).

    Returns:
        The status of the command: `USAGE` when something in a file of the command line could never start (R-CLI-1).
    """
    options = settle(options, config)[0]
    plan = await _planned(config, options)
    seen, picture = plan.seen, plan.seen.picture
    status = USAGE if any(problem.source in options.flag_mcp_config for problem in seen.problems) else SUCCESS
    if output.as_json:
        output.document(_document(config.name, plan))
        return status
    output.text(f"{config.name}: {len(picture.servers)} servers, {len(picture.shown)} inputs")
    rows = [
        (id_, entry.entry.name, entry.entry.type, plan.state_of(entry), entry.origin, _prefix(id_), entry.source)
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
    for line in plan.notes:
        output.note(line)
    return status


async def _planned(config: ComputerConfig, options: RuntimeOptions) -> _Plan:
    seen = preview(config, options)
    picture = seen.picture
    unstartable = {
        id_: tuple(found for found in check_launch(member.entry, options.environ) if found.level == "problem")
        for id_, member in picture.servers.items()
        if member.may_run and is_here(picture, id_)
    }
    missing = (
        *(one for found in unstartable.values() for one in found),
        *check_values(await lacking(picture, options)),
    )
    uncalled = () if options.tool_confirmation is not None else _uncalled(picture)
    told = (f"{found.subject}: {found.text}; {found.advice}" for found in missing)
    return _Plan(seen, unstartable, (*picture.findings, *map(render, seen.problems), *told, *uncalled))


def _uncalled(picture: Picture) -> Iterator[str]:
    """Servers of which no tool may run, where nobody answers confirmations (W-CALL-7)."""
    for id_, member in picture.servers.items():
        metas = (member.entry.default_tool_meta or {}, *member.entry.tool_meta.values())
        if member.may_run and not any(meta.get("auto_apply") is True for meta in metas):
            yield (
                f"{id_}: none of its tools can be called, because nobody is asked to confirm calls; "
                '"auto_apply": true in its default_tool_meta lets all of them run, in tool_meta one'
            )


def _document(name: str, plan: _Plan) -> dict[str, Any]:
    picture = plan.seen.picture
    inputs = [
        {**project(definition), "kind": kind_of(definition), "servers": referring(definition.id, picture)}
        for definition in picture.shown.values()
    ]
    return {
        "name": name,
        "servers": {id_: _facts(plan, entry) for id_, entry in picture.servers.items()},
        "inputs": inputs,
        "pending": [facts_of(request) for request in plan.seen.pending],
        "findings": plan.notes,
    }


def _facts(plan: _Plan, entry: SetEntry) -> dict[str, Any]:
    return {
        "state": plan.state_of(entry),
        "origin": entry.origin,
        "source": entry.source,
        "shadows": entry.shadowed,
        "verdict": entry.verdict,
        "step": entry.step,
        "reason": entry.reason,
        "tool_prefix": _prefix(entry.bundle_id),
        "variables": variables_for(plan.seen.picture, entry),
        "config": project_server(entry.entry),
    }


def _prefix(bundle_id: str) -> str:
    return f"{bundle_id}{NAME_SEPARATOR}"


def _kind(definition: Any) -> str:
    return "undefined" if definition is None else kind_of(definition)
