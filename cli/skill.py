"""`smcp skill …`: the skills of a Computer that runs, orphans included, or those on disk that a start would find."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .managing import Work, command

skill = typer.Typer(name="skill", help="List and show skills.", no_args_is_help=True)

_KINDS = {"mp": "marketplace:", "mcp": "mcp:", "user": "user"}


@command(skill, "list")
async def list_skills(
    work: Work,
    *,
    source: Annotated[
        Literal["mp", "mcp", "user"] | None, typer.Option("--source", help="Only these.", metavar="mp|mcp|user")
    ] = None,
) -> None:
    """List skills and where they come from."""
    status = await work.ask("skill.list")
    found = status["skills"]
    if source is not None:
        found = [one for one in found if one["source"].startswith(_KINDS[source])]
    if work.output.as_json:
        work.output.document(found)
    rows = [(one["name"], one["source"], "orphan" if one["orphan"] else "", one["description"]) for one in found]
    work.output.table(("skill", "source", "", "description"), rows)
    _tell(work, [note for note in status["notes"] if note["level"] != "debug"])


@command(skill)
async def info(work: Work, name: Annotated[str, typer.Argument(help="Name of the skill.", metavar="NAME")]) -> int:
    """Show one skill."""
    status = await work.ask("skill.list")
    _tell(work, [])
    return work.facts(status["skills"], "name", name, "skill")


def _tell(work: Work, notes: list[dict[str, str]]) -> None:
    for note in notes:
        work.output.note(f"{note['level']}: {note['place']}: {note['text']}")
    if work.path is None:
        work.output.note("no Computer runs; skills that MCP servers bring show once one does")
