"""`smcp input …`: inputs and their values, in a running Computer or in the files of one (R-MGMT-4).

Servers take a value at their next start. A secret is never taken from the command line, where
everybody on the machine could read it.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from .managing import Work, command
from .options import json_object_or_file, secret_from

inputs = typer.Typer(name="input", help="Define inputs, and set, clear and list their values.", no_args_is_help=True)

InputId = Annotated[str, typer.Argument(help="Id of the input.", metavar="ID")]

_WHERE = {"keyring": "keyring", "file": "value store", "run": "memory of the running Computer"}


@command(inputs, "list", flags=True)
async def list_inputs(work: Work) -> None:
    """List the inputs: who refers to each, where its value comes from, which variables are looked for."""
    views = await work.ask("input.list")
    if work.output.as_json:
        work.output.document(views)
    rows = [
        (
            view["id"],
            view["type"],
            view["kind"],
            view["variable"] or _WHERE.get(view["place"] or "", "-"),
            "" if view["value"] is None else str(view["value"]),
            view["origin"],
            " ".join(view["servers"]),
            " ".join(view["variables"]),
        )
        for view in views
    ]
    work.output.table(("INPUT", "TYPE", "KIND", "FROM", "VALUE", "SCOPE", "SERVERS", "VARIABLES"), rows)


@command(inputs, flags=True)
async def get(work: Work, input_id: InputId) -> int:
    """Show one input: its definition and its file, and where its value comes from; never a secret."""
    return work.facts(await work.ask("input.list"), "id", input_id, "input")


@command(inputs, "set", flags=True)
async def set_input(
    work: Work,
    input_id: InputId,
    *,
    value: Annotated[str | None, typer.Option("--value", help="The value; not for a secret.", metavar="TEXT")] = None,
    env: Annotated[str | None, typer.Option("--env", help="Variable that holds the value.", metavar="VAR")] = None,
    for_run: Annotated[
        bool, typer.Option("--run", help="For this run of the Computer only, ahead of every other source.")
    ] = False,
) -> None:
    """Keep a value: given here, held by a variable, typed at the terminal, or read from a pipe."""
    from ..wire.errors import ConfigValidationError  # noqa: PLC0415 - heavier than all that `--help` needs

    given = value if env is None else secret_from(env, "--env")
    view = next((one for one in await work.ask("input.list") if one["id"] == input_id), None)
    if view is None:
        raise ConfigValidationError(f"no input has the id {input_id!r}", code="unknown_input", input_id=input_id)
    if value is not None and view["kind"] == "secret":
        raise ConfigValidationError(
            "a secret is typed, piped in, or taken from --env", code="secret_on_command_line", input_id=input_id
        )
    candidate = await _candidate(view) if given is None else given
    words = {"for_run": True} if for_run else {}
    result = await work.ask("input.set", input_id=input_id, value=candidate, **words)
    place, variable = result["written_scope"], result["shadowed_by"]
    work.output.text(f"{input_id} is kept in the {_WHERE[place]}; servers take it at their next start")
    for line in result["warnings"]:
        work.output.note(line)
    if variable is not None:
        work.output.note(f"{variable} is set in the environment and stands before it")
    if work.output.as_json:
        work.output.document({"input": input_id, "place": place, "shadowed_by": variable})


@command(inputs, flags=True)
async def clear(
    work: Work,
    input_id: Annotated[str | None, typer.Argument(help="Id of the input.", metavar="ID")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="The values of all inputs.")] = False,
) -> None:
    """Forget a value, or all of them."""
    if (input_id is None) != every:
        raise typer.BadParameter("give an id, or --all", param_hint="ID")
    if input_id is not None:
        result = await work.ask("input.unset", input_id=input_id)
        forgotten = [input_id] if result["changed"] else []
    else:
        forgotten = [view["id"] for view in await work.ask("input.list") if view["place"] is not None]
        await work.ask("input.clear")
    work.output.text(f"forgotten: {', '.join(forgotten)}" if forgotten else "there was no value")
    if work.output.as_json:
        work.output.document({"forgotten": forgotten})


@command(inputs)
async def define(
    work: Work,
    definition: Annotated[
        dict[str, Any],
        typer.Argument(help="An input definition as JSON, or @FILE.", metavar="JSON|@FILE", parser=json_object_or_file),
    ],
    *,
    scope: Annotated[
        Literal["user", "project", "local", "run"],
        typer.Option("--scope", help="Whose file; `run` for this run of the Computer only.", metavar="SCOPE"),
    ] = "local",
) -> None:
    """Define an input in a file; one that a file defines already is changed there."""
    result = await work.ask("input.define", definition=definition, scope=scope)
    work.show(result, f"{definition.get('id')} is defined", kind="mcp", wanted=scope)


@command(inputs)
async def undefine(work: Work, input_id: InputId) -> None:
    """Take a definition out of every file you may write, and out of the run; its value stays."""
    work.show(await work.ask("input.undefine", input_id=input_id), f"{input_id} is not defined any more")


async def _candidate(view: dict[str, Any]) -> object:
    """The value: what whoever sits there answers, or the first line of a pipe."""
    from ..actors.reconcile.management.defining import read_definition  # noqa: PLC0415
    from ..actors.reconcile.rendering.resolution import ValueRequest  # noqa: PLC0415
    from ..actors.reconcile.values.prompting import picked, question_for  # noqa: PLC0415
    from ..wire.errors import MissingInputError  # noqa: PLC0415
    from .asking import terminal  # noqa: PLC0415

    asked = terminal()
    if asked is None:
        return sys.stdin.readline().rstrip("\r\n")
    definition = read_definition(view["definition"])
    answer = await asked.value(question_for(ValueRequest(definition, "any server", is_automatic=False)))
    if answer is None:
        raise MissingInputError("no value was given", input_id=definition.id)
    return picked(definition, answer)
