"""`smcp agent …`: one request of an Agent a command, printed for people or as JSON.

Every verb joins the office under a name of its own, asks, prints and leaves. Without `--computer` the only
Computer of the office is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import agent_channels
from .exit_status import FAILED, SUCCESS
from .options import json_object
from .seat import Computer, Seat, seated

if TYPE_CHECKING:
    from ..agent import AsyncAgent, Notice
    from ..agent.tool_blobs import Handle

agent = typer.Typer(
    help="Ask the Computers of an office, as its Agent. An office has one Agent at a time.", no_args_is_help=True
)


@agent.command()
@seated
def tools(seat: Seat, *, computer: Computer = None) -> None:
    """List the tools of a Computer."""

    async def work(client: AsyncAgent) -> int:
        listed = await client.get_tools(computer or await client.sole_computer())
        seat.show(listed, ("TOOL", "DESCRIPTION"), ((tool.name, tool.description) for tool in listed.tools))
        return SUCCESS

    seat.perform(work)


@agent.command()
@seated
def call(
    seat: Seat,
    tool: Annotated[str, typer.Argument(help="Exposed name of the tool, as listed.", metavar="TOOL")],
    *,
    params: Annotated[str, typer.Option("--params", help="Its arguments, a JSON object.", metavar="JSON")] = "{}",
    timeout: Annotated[int, typer.Option(help="Seconds the Computer may take.", min=1, max=3600, metavar="S")] = 60,
    fetch: Annotated[bool, typer.Option("--fetch/--no-fetch", help="Put large binaries back in place.")] = True,
    computer: Computer = None,
) -> None:
    """Call a tool and print its result, also when the tool failed (status 1)."""
    arguments = json_object(params, "--params")

    async def work(client: AsyncAgent) -> int:
        import anyio  # noqa: PLC0415 - with what runs, not with what `--help` needs

        from ..agent.tool_blobs import handles  # noqa: PLC0415

        output = seat.output
        target = computer or await client.sole_computer()
        try:
            with output.working(tool):
                result = await client.tool_call(target, tool, arguments, timeout=timeout, fetch=fetch)
        except anyio.get_cancelled_exc_class():
            output.note(f"the call of {tool} was cancelled")
            raise
        if seat.as_json:
            output.document(result.to_dict())
        moved = {handle.index: handle for handle in handles(result)}
        for index, item in enumerate(result.content):
            output.text(_item_text(item, moved.get(index)), style="red" if result.is_error else None)
        if moved and not seat.as_json:
            output.note("a large binary is behind its handle: smcp agent get HANDLE --out FILE")
        if result.is_error and not seat.as_json:
            code = "" if result.error_code is None else f" with {result.error_code}"
            executed = "" if result.outcome is None else f" ({result.outcome.replace('_', ' ')})"
            output.note(f"the call failed{code}{executed}")
        return FAILED if result.is_error else SUCCESS

    seat.perform(work)


@agent.command()
@seated
def config(seat: Seat, *, computer: Computer = None) -> None:
    """Show the MCP servers of a Computer, secrets masked."""

    async def work(client: AsyncAgent) -> int:
        shown = await client.get_config(computer or await client.sole_computer())
        rows = [
            (bundle_id, server.name, server.transport, "disabled" if server.disabled else "enabled")
            for bundle_id, server in shown.servers.items()
        ]
        seat.show(shown, ("ID", "NAME", "TRANSPORT", "STATE"), rows)
        return SUCCESS

    seat.perform(work)


@agent.command()
@seated
def resources(
    seat: Seat,
    bundle_id: Annotated[str, typer.Argument(help="The MCP server, by its id.", metavar="BUNDLE_ID")],
    *,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.", metavar="C")] = None,
    computer: Computer = None,
) -> None:
    """List one page of the resources of an MCP server."""

    async def work(client: AsyncAgent) -> int:
        output = seat.output
        page = await client.get_resources(computer or await client.sole_computer(), bundle_id, cursor)
        rows = [(item.uri, item.name or "", item.mime_type or "") for item in page.resources]
        seat.show(page, ("URI", "NAME", "TYPE"), rows)
        if page.next_cursor and not seat.as_json:
            output.note(f"more with --cursor {page.next_cursor}")
        return SUCCESS

    seat.perform(work)


@agent.command()
@seated
def room(seat: Seat) -> None:
    """List who is in the office, this Agent included."""

    async def work(client: AsyncAgent) -> int:
        present = await client.list_room()
        seat.show(present, ("NAME", "ROLE"), ((member.name, member.role) for member in present.sessions))
        return SUCCESS

    seat.perform(work)


@agent.command()
@seated
def watch(seat: Seat) -> None:
    """Print every notification of the office, one a line, until interrupted.

    It is the Agent of that office meanwhile: an office has one at a time, and turns away every other command of
    `smcp agent`.
    """

    async def work(client: AsyncAgent) -> int:
        from .running import until_stopped  # noqa: PLC0415 - with what runs, not with what `--help` needs

        async def tell() -> None:
            async with client.notifications() as notices:
                seat.output.note(f"watching {seat.office}")
                async for notice in notices:
                    if seat.as_json:
                        seat.output.line(notice.to_dict())
                    seat.output.text(_told(notice))

        status = await until_stopped(tell)
        if client.failure is not None:
            raise client.failure
        return status

    seat.perform(work)


def _item_text(item: dict[str, Any], moved: Handle | None) -> str:
    """A content item for people: its text, or what it is, and the handle where its bytes are elsewhere."""
    resource = item.get("resource")
    described: dict[str, Any] = resource if isinstance(resource, dict) else item
    if isinstance(described.get("text"), str):
        return str(described["text"])
    base64 = str(described.get("data") or described.get("blob") or "").rstrip("=")
    where = described.get("uri") or f"{len(base64) * 3 // 4} bytes"
    if moved is not None:
        size = "" if moved.size is None else f"{moved.size} bytes "
        where = f"{size}behind {moved.blob_handle}"
    return f"[{item.get('type')} {described.get('mimeType', '')} {where}]"


def _told(notice: Notice) -> str:
    facts = notice.to_dict()
    told = {**facts.get("payload", {}), **facts.get("error", {})}
    return " ".join([notice.event, *(f"{key}={value}" for key, value in told.items())])


for verb in agent_channels.VERBS:
    agent.command()(verb)
