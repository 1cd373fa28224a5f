"""`smcp bus …`: what goes on inside a running Computer, the death of one of its actors, and keys for its workers."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated

import typer

from .exit_status import FAILED, SUCCESS
from .managing import Work, command
from .options import Json
from .output import Output

bus = typer.Typer(name="bus", help="Look into a running Computer.", no_args_is_help=True)


@command(bus, running=True)
async def top(
    work: Work,
    *,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two moments.", metavar="S")] = 1.0,
    count: Annotated[
        int | None, typer.Option("--count", min=0, help="Moments to show; 0 for ever. Piped, it is 1.", metavar="N")
    ] = None,
) -> int:
    """Show servers, actors, rates and latencies as they change."""
    from .running import until_stopped  # noqa: PLC0415 - heavier than all that `--help` needs
    from .top import watch  # noqa: PLC0415

    if work.output.as_json:
        work.output.document(await work.ask("bus.view"))
        return SUCCESS
    moments = (0 if work.output.terminal else 1) if count is None else count
    show = functools.partial(watch, work.output, lambda: work.ask("bus.view"), every, moments)
    if not moments:
        return await until_stopped(show)
    await show()
    return SUCCESS


@command(bus, running=True)
async def kill(
    work: Work, address: Annotated[str, typer.Argument(help="The actor, as `top` names it.", metavar="ADDRESS")]
) -> int:
    """Kill an actor on the spot; its supervisor restarts it."""
    done = await work.ask("bus.kill", address=address)
    if work.output.as_json:
        work.output.document(done)
    work.output.text(f"{address} was killed" if done["killed"] else f"there is no actor {address}")
    return SUCCESS if done["killed"] else FAILED


@command(bus, "dead-letters", running=True)
async def dead_letters(work: Work) -> None:
    """Show messages that reached nobody: how many there were, and the last of them."""
    letters = await work.ask("bus.dead_letters")
    if work.output.as_json:
        work.output.document(letters)
    work.output.note(f"{letters['total']} in all")
    rows = [
        (f"{letter['age']:.1f} s", *(letter[name] for name in ("kind", "subject", "target", "sender", "why")))
        for letter in letters["recent"]
    ]
    work.output.table(("AGE", "KIND", "MESSAGE", "TO", "FROM", "WHY"), rows)


@command(bus, running=True)
async def calls(
    work: Work,
    req_id: Annotated[str | None, typer.Argument(help="Only the call of this id.", metavar="ID")] = None,
) -> int:
    """Show the last tool calls and how they ended, never their arguments."""
    found = await work.ask("bus.calls", **({} if req_id is None else {"req_id": req_id}))
    if work.output.as_json:
        work.output.document(found)
    shown = ("req_id", "tool", "agent", "bundle_id", "outcome")
    rows = [(*(call[name] for name in shown), f"{call['duration']:.3f} s") for call in found]
    work.output.table(("ID", "TOOL", "AGENT", "SERVER", "ENDED", "TOOK"), rows)
    if req_id is not None and not found:
        work.output.note(f"no call {req_id} is remembered")
        return FAILED
    return SUCCESS


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
