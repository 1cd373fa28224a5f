"""`smcp bus …`: what goes on inside a running Computer, the death of one of its actors, and keys for its workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .computer import Home
from .exit_status import FAILED, SUCCESS
from .managing import ComputerName
from .options import Json
from .output import Output

bus = typer.Typer(name="bus", help="Look into a running Computer.", no_args_is_help=True)

Ask = Callable[..., Awaitable[Any]]


@bus.command()
def top(
    *,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two moments.", metavar="S")] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", min=0, help="Moments to show; 0 for ever. Piped, it is 1.", metavar="N")
    ] = None,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Show servers, actors, rates and latencies as they change."""
    output = Output(as_json=as_json)
    moments = (0 if output.terminal else 1) if count is None else count

    async def work(ask: Ask) -> int:
        from .top import watch  # noqa: PLC0415 - heavier than all that `--help` needs

        if as_json:
            output.document(await ask("bus.view"))
        else:
            await watch(output, lambda: ask("bus.view"), every, moments)
        return SUCCESS

    _ask_running(output, home, computer, work)


@bus.command()
def kill(
    address: Annotated[str, typer.Argument(help="The actor, as `top` names it.", metavar="ADDRESS")],
    *,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Kill an actor on the spot; its supervisor restarts it."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        done = await ask("bus.kill", address=address)
        if as_json:
            output.document(done)
        output.text(f"{address} was killed" if done["killed"] else f"there is no actor {address}")
        return SUCCESS if done["killed"] else FAILED

    _ask_running(output, home, computer, work)


@bus.command(name="dead-letters")
def dead_letters(*, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Show messages that reached nobody: how many there were, and the last of them."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        letters = await ask("bus.dead_letters")
        if as_json:
            output.document(letters)
        output.note(f"{letters['total']} in all")
        rows = [
            (f"{letter['age']:.1f} s", *(letter[name] for name in ("kind", "subject", "target", "sender", "why")))
            for letter in letters["recent"]
        ]
        output.table(("AGE", "KIND", "MESSAGE", "TO", "FROM", "WHY"), rows)
        return SUCCESS

    _ask_running(output, home, computer, work)


@bus.command()
def calls(
    req_id: Annotated[str | None, typer.Argument(help="Only the call of this id.", metavar="ID")] = None,
    *,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Show the last tool calls and how they ended, never their arguments."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        found = await ask("bus.calls", **({} if req_id is None else {"req_id": req_id}))
        if as_json:
            output.document(found)
        shown = ("req_id", "tool", "agent", "bundle_id", "outcome")
        rows = [(*(call[name] for name in shown), f"{call['duration']:.3f} s") for call in found]
        output.table(("ID", "TOOL", "AGENT", "SERVER", "ENDED", "TOOK"), rows)
        if req_id is not None and not found:
            output.note(f"no call {req_id} is remembered")
            return FAILED
        return SUCCESS

    _ask_running(output, home, computer, work)


@bus.command()
def keygen(
    name: Annotated[str, typer.Argument(help="Name of the worker that will use it, or hub.", metavar="NAME")] = "hub",
    *,
    keys: Annotated[Path, typer.Option("--keys", help="Directory for the two files.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Make a key pair with which a worker and its hub know each other."""
    output = Output(as_json=as_json)

    async def work() -> int:
        from ..bus.zeromq.keys import generate  # noqa: PLC0415 - heavier than all that `--help` needs

        pair = generate(keys, name)
        public = pair.public.decode()
        if as_json:
            output.document({"name": name, "public": public, "directory": str(keys)})
        output.text(f"{keys / name}.public  {public}")
        output.note(f"{keys / name}.secret stays with its owner; whoever shall let {name} in gets the .public file")
        return SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work)


def _ask_running(output: Output, home: str | None, name: str | None, work: Callable[[Ask], Awaitable[int]]) -> None:
    """Runs a command on the Computer that runs; `work` gets a function that carries out one operation of it."""

    async def begin() -> int:
        from ..actors.reconcile import directories  # noqa: PLC0415 - heavier than all that `--help` needs
        from ..actors.reconcile.options import RuntimeOptions, settle  # noqa: PLC0415
        from ..wire.errors import NetworkError  # noqa: PLC0415
        from .control import managed  # noqa: PLC0415
        from .managing import running_on  # noqa: PLC0415

        options = settle(RuntimeOptions(home=home))[0]
        place = directories.resolve(options).home
        door = await running_on(place, name)
        if door is None:
            raise NetworkError(f"no Computer runs on {place}", code="not_running")

        async def ask(operation: str, **words: Any) -> Any:
            return await managed(door, operation, words)

        return await work(ask)

    from .running import perform  # noqa: PLC0415

    perform(output, begin)
