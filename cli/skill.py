"""`smcp skill …`: the skills of a Computer that runs, orphans included."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from .computer import Home
from .exit_status import FAILED, SUCCESS
from .managing import Ask, ComputerName, manage
from .options import Json
from .output import Output

skill = typer.Typer(name="skill", help="List and show skills.", no_args_is_help=True)

_KINDS = {"mp": "marketplace:", "mcp": "mcp:", "user": "user"}


@skill.command(name="list")
def list_skills(
    *,
    source: Annotated[
        Literal["mp", "mcp", "user"] | None, typer.Option("--source", help="Only these.", metavar="mp|mcp|user")
    ] = None,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """List skills and where they come from."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        found = (await ask("skill.list"))["skills"]
        if source is not None:
            found = [one for one in found if one["source"].startswith(_KINDS[source])]
        if as_json:
            output.document(found)
        rows = [(one["name"], one["source"], "orphan" if one["orphan"] else "", one["description"]) for one in found]
        output.table(("skill", "source", "", "description"), rows)

    manage(output, home, computer, work)


@skill.command()
def info(
    name: Annotated[str, typer.Argument(help="Name of the skill.", metavar="NAME")],
    *,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Show one skill."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        found = next((one for one in (await ask("skill.list"))["skills"] if one["name"] == name), None)
        if found is None:
            output.note(f"there is no skill {name}")
            return FAILED
        if as_json:
            output.document(found)
        for field, value in found.items():
            output.text(f"{field}: {value}")
        return SUCCESS

    manage(output, home, computer, work)
