"""`smcp mcp …`: MCP servers of a Computer, or of the files of one; names are looked up here only (R-MGMT-5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer

from .managing import Work, command
from .options import json_object_or_file

mcp = typer.Typer(name="mcp", help="Add, remove, start and stop MCP servers.", no_args_is_help=True)

AT_ONCE = 16
"""Servers that are told something at the same time, when all are."""

Token = Annotated[str, typer.Argument(help="Name or bundle_id of the server.", metavar="SERVER")]


@command(mcp, "list")
async def list_servers(work: Work) -> None:
    """List servers: who declares each, whether it may run, whether it does."""
    views = await work.ask("server.list")
    if work.output.as_json:
        work.output.document(views)
    rows = [
        (view["bundle_id"], view["name"], view["owner"], view["verdict"], view["connection"], view["reason"] or "")
        for view in views
    ]
    work.output.table(("bundle_id", "name", "owner", "verdict", "connection", "reason"), rows, headed=True)


@command(mcp)
async def add(
    work: Work,
    server: Annotated[
        dict[str, Any],
        typer.Argument(help="A server object as JSON, or @FILE.", metavar="JSON|@FILE", parser=json_object_or_file),
    ],
    *,
    scope: Annotated[
        Literal["user", "project", "local"], typer.Option("--scope", help="Whose file.", metavar="SCOPE")
    ] = "local",
) -> None:
    """Declare a server in a file; one that a file holds already is changed there."""
    result = await work.ask("server.declare", server=server, scope=scope)
    work.show(result, f"{server.get('name')} is declared", kind="mcp", wanted=scope)


@command(mcp)
async def remove(work: Work, token: Token) -> None:
    """Delete a server from every file you may write."""
    await _act(work, "remove", "is removed", token)


@command(mcp)
async def enable(work: Work, token: Token) -> None:
    """Let a server run again."""
    await _act(work, "enable", "is enabled", token)


@command(mcp)
async def disable(work: Work, token: Token) -> None:
    """Keep a server from running."""
    await _act(work, "disable", "is disabled", token)


@command(mcp)
async def start(work: Work, token: Token) -> None:
    """Start a server of a running Computer, or `all`; says how the start ended."""
    await _act(work, "start", "runs", token)


@command(mcp)
async def stop(work: Work, token: Token) -> None:
    """Stop a server of a running Computer, or `all`."""
    await _act(work, "stop", "is stopped", token)


@command(mcp)
async def restart(work: Work, token: Token) -> None:
    """Restart a server of a running Computer, or `all`; says how the start ended."""
    await _act(work, "restart", "runs", token)


@command(mcp)
async def approve(work: Work, token: Token) -> None:
    """Approve a server that a project declares, as it is now."""
    await _act(work, "approve", "is approved", token)


@command(mcp)
async def deny(work: Work, token: Token) -> None:
    """Deny a server that a project declares."""
    await _act(work, "deny", "is denied", token)


@command(mcp, "accept-tools")
async def accept_tools(work: Work, token: Token) -> None:
    """Take the tools of a server as they are now, those included that are held because they changed."""
    await _act(work, "accept_tools", "is taken with its tools as they are", token)


@command(mcp)
async def authorize(work: Work, token: Token) -> None:
    """Have a server of a running Computer authorized, in a browser of the machine it runs on."""
    await _act(work, "authorize", "is authorized", token)


async def _act(work: Work, verb: str, done: str, token: str) -> None:
    from .naming import meant  # noqa: PLC0415 - heavier than all that `--help` needs

    views = await work.ask("server.list")
    if token == "all" and verb in ("start", "stop", "restart"):
        await _all(work, verb, done, views)
        return
    bundle_id = meant(token, [SimpleNamespace(**view) for view in views])
    result = await work.ask(f"server.{verb}", bundle_id=bundle_id)
    if done == "runs" and result["connection"] != "connected":
        done = f"is still {result['phase']}; `smcp computer status` tells how that ends"
    work.show({"changed": True, **result}, f"{bundle_id} {done}")


async def _all(work: Work, verb: str, done: str, views: list[dict[str, Any]]) -> None:
    """Every server that may be told so; one that refuses does not keep the others from it (R-ERR-5)."""
    import anyio  # noqa: PLC0415

    from ..wire.errors import PartialFailureError, SmcpError  # noqa: PLC0415

    outcomes: dict[str, str | None] = {}
    places = anyio.CapacityLimiter(AT_ONCE)

    async def tell(bundle_id: str) -> None:
        async with places:
            try:
                await work.ask(f"server.{verb}", bundle_id=bundle_id)
                outcomes[bundle_id] = None
            except SmcpError as error:
                outcomes[bundle_id] = error.message

    async with anyio.create_task_group() as group:
        for view in views:
            is_meant = view["verdict"] == "ENABLED" and not view["disabled"]
            if is_meant and not (verb == "stop" and view["plugin_id"] is not None):
                group.start_soon(tell, view["bundle_id"])
    applied = sorted(one for one, why in outcomes.items() if why is None)
    failed = sorted(outcomes.keys() - set(applied))
    if failed:
        reasons = "; ".join(f"{one}: {outcomes[one]}" for one in failed)
        raise PartialFailureError(reasons, applied=applied, failed=failed)
    work.show({"changed": bool(applied), "applied": applied}, f"{len(applied)} servers: each {done}")
