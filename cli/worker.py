"""`smcp worker`: host one MCP server of a Computer that runs elsewhere, and offer that again whenever it ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .exit_status import SUCCESS
from .output import Output

if TYPE_CHECKING:
    from ..bus.zeromq import NodeKeys


def worker(
    *,
    hub: Annotated[
        str, typer.Option("--hub", help="The bus of the Computer, ipc:///path or tcp://host:port.", metavar="ENDPOINT")
    ],
    server: Annotated[str, typer.Option("--server", help="The server to host, by its bundle_id.", metavar="BUNDLE_ID")],
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="Directory with our key pair and hub.public; tcp:// needs it.", metavar="DIR"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of our key, by default the server's; else SERVER.anything.", metavar="NAME"),
    ] = None,
) -> None:
    """Host an MCP server for a Computer elsewhere. A second worker for the same server stands by."""
    output = Output()
    _check(hub, keys)

    async def work() -> int:
        from ..actors.mcp.transports.process_record import ProcessRecords  # noqa: PLC0415 - heavier than all that `--help` needs
        from ..actors.placement.external import Volunteer  # noqa: PLC0415
        from ..actors.placement.terms import Terms  # noqa: PLC0415
        from ..actors.reconcile.config import directories  # noqa: PLC0415
        from ..actors.reconcile.config.options import RuntimeOptions  # noqa: PLC0415
        from ..wire.errors import NetworkError, NodeRefused  # noqa: PLC0415
        from .running import stop_signal  # noqa: PLC0415

        node = name or (server if keys is not None else f"{server}.{os.getpid()}")
        state = directories.resolve(RuntimeOptions()).state
        records = state / "processes"
        ProcessRecords(records).sweep()
        volunteer = Volunteer(
            hub,
            Terms(server, node, str(records), str(state / "logs" / "workers")),
            _keys(keys, node),
            on_serving=lambda: print(f"ready hub={hub} server={server} pid={os.getpid()}", flush=True),
            say=output.note,
        )
        async with stop_signal() as stop:
            try:
                await volunteer.work(stop)
            except NodeRefused as refused:
                # Nothing on this side is broken: the other one does not want us.
                # A hint of its own, or none: trying again, as after other trouble with a network, is of no use.
                hint = refused.retry_hint or ""
                raise NetworkError(refused.message, code=refused.code, retry_hint=hint, retryable=False) from None
        return SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work, log_level="INFO")


def _check(hub: str, keys: Path | None) -> None:
    from ..bus.zeromq.endpoint import to_connect  # noqa: PLC0415 - heavier than all that `--help` needs
    from ..wire.errors import ConfigValidationError  # noqa: PLC0415

    if hub.startswith("tcp://") and keys is None:
        raise typer.BadParameter("tcp:// needs it", param_hint="--keys")
    try:
        to_connect(hub, keys=keys is not None)
    except ConfigValidationError as error:
        raise typer.BadParameter(error.message, param_hint="--hub") from None


def _keys(directory: Path | None, node: str) -> NodeKeys | None:
    if directory is None:
        return None
    from ..bus.zeromq import load_node  # noqa: PLC0415 - heavier than all that `--help` needs

    return load_node(directory, node)
