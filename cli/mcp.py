"""`smcp mcp …`: MCP servers of a Computer, or of the files of one; names are looked up here only (R-MGMT-5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer

from .computer import Home
from .managing import Ask, ComputerName, manage, show
from .options import Json
from .output import Output

mcp = typer.Typer(name="mcp", help="Add, remove, start and stop MCP servers.", no_args_is_help=True)

Token = Annotated[str, typer.Argument(help="Name or bundle_id of the server.", metavar="SERVER")]


@mcp.command(name="list")
def list_servers(*, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """List servers: who declares each, whether it may run, whether it does."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        views = await ask("server.list")
        if as_json:
            output.document(views)
        rows = [
            (view["bundle_id"], view["name"], view["owner"], view["verdict"], view["connection"], view["reason"] or "")
            for view in views
        ]
        output.table(("bundle_id", "name", "owner", "verdict", "connection", "reason"), rows)

    manage(output, home, computer, work)


@mcp.command()
def add(
    server: Annotated[str, typer.Argument(help="A server object as JSON, or @FILE.", metavar="JSON|@FILE")],
    *,
    scope: Annotated[
        Literal["user", "project", "local"], typer.Option("--scope", help="Whose file.", metavar="SCOPE")
    ] = "local",
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Declare a server in a file; one that a file holds already is changed there."""
    output = Output(as_json=as_json)
    entry = _object(server)

    async def work(ask: Ask) -> None:
        show(output, await ask("server.declare", server=entry, scope=scope), f"{entry.get('name')} is declared")

    manage(output, home, computer, work)


@mcp.command()
def remove(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Delete a server from every file you may write."""
    _act("remove", "is removed", token, (home, computer, as_json))


@mcp.command()
def enable(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Let a server run again."""
    _act("enable", "is enabled", token, (home, computer, as_json))


@mcp.command()
def disable(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Keep a server from running."""
    _act("disable", "is disabled", token, (home, computer, as_json))


@mcp.command()
def start(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Start a server of a running Computer, or `all`."""
    _act("start", "is told to start", token, (home, computer, as_json))


@mcp.command()
def stop(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Stop a server of a running Computer, or `all`."""
    _act("stop", "is stopped", token, (home, computer, as_json))


@mcp.command()
def restart(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Restart a server of a running Computer, or `all`."""
    _act("restart", "is told to restart", token, (home, computer, as_json))


@mcp.command()
def approve(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Approve a server that a project declares, as it is now."""
    _act("approve", "is approved", token, (home, computer, as_json))


@mcp.command()
def deny(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Deny a server that a project declares."""
    _act("deny", "is denied", token, (home, computer, as_json))


@mcp.command()
def authorize(token: Token, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Have a server of a running Computer authorized, in a browser of the machine it runs on."""
    _act("authorize", "is authorized", token, (home, computer, as_json))


def _act(verb: str, done: str, token: str, where: tuple[str | None, str | None, bool]) -> None:
    home, computer, as_json = where
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        from .naming import meant  # noqa: PLC0415 - heavier than all that `--help` needs

        views = await ask("server.list")
        if token == "all" and verb in ("start", "stop", "restart"):
            await _all(ask, output, verb, done, views)
            return
        bundle_id = meant(token, [SimpleNamespace(**view) for view in views])
        result = await ask(f"server.{verb}", bundle_id=bundle_id)
        show(output, {"changed": True, **result}, f"{bundle_id} {done}")

    manage(output, home, computer, work)


async def _all(ask: Ask, output: Output, verb: str, done: str, views: list[dict[str, Any]]) -> None:
    """Every server that may be told so; one that refuses does not keep the others from it (R-ERR-5)."""
    from ..wire.errors import PartialFailureError, SmcpError  # noqa: PLC0415

    applied, failed = [], []
    wanted = [view for view in views if view["verdict"] == "ENABLED" and not view["disabled"]]
    for view in wanted:
        if verb == "stop" and view["plugin_id"] is not None:
            continue
        try:
            await ask(f"server.{verb}", bundle_id=view["bundle_id"])
            applied.append(view["bundle_id"])
        except SmcpError as error:
            failed.append(f"{view['bundle_id']}: {error.message}")
    if failed:
        raise PartialFailureError("; ".join(failed), applied=applied, failed=failed)
    show(output, {"changed": bool(applied), "applied": applied}, f"{len(applied)} servers: each {done}")


def _object(text: str) -> dict[str, Any]:
    from pathlib import Path  # noqa: PLC0415

    from .options import json_object  # noqa: PLC0415

    if not text.startswith("@"):
        return json_object(text, "JSON|@FILE")
    try:
        return json_object(Path(text[1:]).read_text(encoding="utf-8"), "JSON|@FILE")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {type(error).__name__}") from None
