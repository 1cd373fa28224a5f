"""`smcp input …`: the values of inputs, kept for the next start of whoever refers to them.

A secret is never taken from the command line, where everybody on the machine could read it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .computer import Home, McpConfig, Settings, Sources
from .exit_status import SUCCESS
from .options import Json, secret_from
from .output import Output, facts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..actors.reconcile.inputs import Definition
    from ..wire.messages.management import InputView
    from .desk import Desk

inputs = typer.Typer(name="input", help="Set, clear and list values of inputs.", no_args_is_help=True)

InputId = Annotated[str, typer.Argument(help="Id of the input.", metavar="ID")]


@inputs.command(name="list")
def list_inputs(
    *, mcp_config: McpConfig = None, settings: Settings = None, home: Home = None, as_json: Json = False
) -> None:
    """List the inputs: who refers to each, where its value comes from, which variables are looked for."""
    output = Output(as_json=as_json)

    async def work(at: Desk) -> int:
        from ..actors.reconcile.input_views import view_of  # noqa: PLC0415

        views = [
            await view_of(definition, at.seen.picture.servers, at.stores, at.options.environ)
            for _, definition in sorted(at.seen.picture.shown.items())
        ]
        _show(output, views)
        return SUCCESS

    _perform(output, Sources("", tuple(mcp_config or ()), settings, home), work)


@inputs.command(name="set")
def set_input(
    input_id: InputId,
    *,
    value: Annotated[str | None, typer.Option("--value", help="The value; not for a secret.", metavar="TEXT")] = None,
    env: Annotated[str | None, typer.Option("--env", help="Variable that holds the value.", metavar="VAR")] = None,
    mcp_config: McpConfig = None,
    settings: Settings = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Keep a value: given here, held by a variable, typed at the terminal, or read from a pipe."""
    output = Output(as_json=as_json)
    given = value if env is None else secret_from(env, "--env")

    async def work(at: Desk) -> int:
        from ..actors.reconcile.input_views import supplied_by  # noqa: PLC0415
        from ..actors.reconcile.inputs import kind_of  # noqa: PLC0415
        from ..wire.errors import ConfigValidationError  # noqa: PLC0415

        definition = _definition(at, input_id)
        if value is not None and kind_of(definition) == "secret":
            raise ConfigValidationError(
                "a secret is typed, piped in, or taken from --env", code="secret_on_command_line", input_id=input_id
            )
        candidate = await _candidate(definition, given)
        place = await _keep(at, definition, candidate)
        variable = supplied_by(definition, at.seen.picture.servers, at.options.environ)
        output.text(f"{input_id} is kept in the {_WHERE[place]}; servers take it at their next start")
        if variable is not None:
            output.note(f"{variable} is set in this environment and stands before it")
        if as_json:
            output.document({"input": input_id, "place": place, "shadowed_by": variable})
        return SUCCESS

    _perform(output, Sources("", tuple(mcp_config or ()), settings, home), work)


@inputs.command()
def clear(
    input_id: Annotated[str | None, typer.Argument(help="Id of the input.", metavar="ID")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="The values of all inputs.")] = False,
    mcp_config: McpConfig = None,
    settings: Settings = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Forget a value, or all of them."""
    output = Output(as_json=as_json)
    if (input_id is None) != every:
        raise typer.BadParameter("give an id, or --all", param_hint="ID")

    async def work(at: Desk) -> int:
        known = {*at.seen.picture.shown, *at.stores.values.read()} if input_id is None else {input_id}
        forgotten = [one for one in sorted(known) if await at.stores.remove(one)]
        output.text(f"forgotten: {', '.join(forgotten)}" if forgotten else "there was no value")
        if as_json:
            output.document({"forgotten": forgotten})
        return SUCCESS

    _perform(output, Sources("", tuple(mcp_config or ()), settings, home), work)


_WHERE = {"keyring": "keyring", "file": "value store", "run": "memory of the running Computer"}


def _definition(at: Desk, input_id: str) -> Definition:
    from ..wire.errors import ConfigValidationError  # noqa: PLC0415

    definition = at.seen.picture.shown.get(input_id)
    if definition is None:
        raise ConfigValidationError(f"no input has the id {input_id!r}", code="unknown_input", input_id=input_id)
    return definition


async def _candidate(definition: Definition, given: str | None) -> object:
    """The value: what was given, what whoever sits there answers, or the first line of a pipe."""
    from ..actors.reconcile.resolution import ValueRequest  # noqa: PLC0415
    from ..actors.reconcile.values.prompting import picked, question_for  # noqa: PLC0415
    from ..wire.errors import MissingInputError  # noqa: PLC0415
    from .asking import terminal  # noqa: PLC0415

    if given is not None:
        return given
    asked = terminal()
    if asked is None:
        return sys.stdin.readline().rstrip("\r\n")
    answer = await asked.value(question_for(ValueRequest(definition, "any server", is_automatic=False)))
    if answer is None:
        raise MissingInputError("no value was given", input_id=definition.id)
    return picked(definition, answer)


async def _keep(at: Desk, definition: Definition, candidate: object) -> str:
    """Keeps a value; a secret without a keyring is given to the Computers that run here, for as long as they do."""
    from ..actors.reconcile.candidates import settle  # noqa: PLC0415
    from ..actors.reconcile.directories import resolve  # noqa: PLC0415
    from ..actors.reconcile.inputs import as_text, kind_of  # noqa: PLC0415
    from ..actors.reconcile.values.secret_store import keep_secret  # noqa: PLC0415
    from .control import doors, managed  # noqa: PLC0415

    if kind_of(definition) != "secret":
        return await at.stores.put(definition, candidate)
    secret = as_text(settle(definition, candidate))
    if await at.stores.secrets.put(definition.id, secret):
        return "keyring"
    running = await doors(resolve(at.options).home)
    for path in running.values():
        await managed(path, "input.set", {"input_id": definition.id, "value": secret})
    if not running:
        await keep_secret(at.stores.secrets, definition.id, secret)
    return "run"


def _show(output: Output, views: list[InputView]) -> None:
    if output.as_json:
        output.document([facts_of(view) | {"value": _value(view)} for view in views])
        return
    rows = [
        (
            view.id,
            view.type,
            view.kind,
            view.variable or _WHERE.get(view.place or "", "-"),
            "" if view.value is None else view.value.data.decode(),
            " ".join(view.servers),
            " ".join(view.variables),
        )
        for view in views
    ]
    output.table(("INPUT", "TYPE", "KIND", "FROM", "VALUE", "SERVERS", "VARIABLES"), rows)


def _value(view: InputView) -> Any:
    import msgspec  # noqa: PLC0415

    return None if view.value is None else msgspec.json.decode(view.value.data)


def _perform(output: Output, sources: Sources, act: Callable[[Desk], Awaitable[int]]) -> None:
    sources.read(output)

    async def work() -> int:
        from .desk import desk  # noqa: PLC0415 - heavier than all that `--help` needs

        return await act(desk(sources))

    from .running import perform  # noqa: PLC0415

    perform(output, work)
