"""`smcp doctor`: looks at what a Computer or a Server needs here, and says what to do about what is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ..wire.protocol import SOCKETIO_PATH
from .computer import Home, McpConfig, Settings, Sources
from .exit_status import FAILED, SUCCESS
from .options import Json, SocketioPath
from .output import Output

if TYPE_CHECKING:
    from .checkup import Found

STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the Computer.", metavar="NAME")] = "computer",
    mcp_config: McpConfig = None,
    settings: Settings = None,
    home: Home = None,
    url: Annotated[str | None, typer.Option("--url", help="Server it would connect to.", metavar="URL")] = None,
    socketio_path: SocketioPath = SOCKETIO_PATH,
    host: Annotated[str, typer.Option("--host", help="Where a Server would listen.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option("--port", help="Port a Server would use.", metavar="PORT")] = None,
    as_json: Json = False,
) -> None:
    """Check commands, ports, permissions, versions and configuration, and say what to do."""
    output = Output(as_json=as_json)
    sources = Sources(name, tuple(mcp_config or ()), settings, home)
    sources.read(output)

    async def work() -> int:
        from ..actors.reconcile.config.directories import resolve  # noqa: PLC0415 - heavier than all that `--help` needs
        from ..actors.reconcile.config.options import settle  # noqa: PLC0415
        from ..actors.reconcile.management.preview import preview  # noqa: PLC0415
        from ..actors.reconcile.values.lacking import lacking  # noqa: PLC0415
        from . import checkup  # noqa: PLC0415

        config = sources.computer().config
        options = settle(sources.options(), config)[0]
        picture = preview(config, options).picture
        found = [*checkup.check_versions(), *checkup.check_places(resolve(options))]
        for id_, member in picture.servers.items():
            found.extend(checkup.check_server(member, os.environ, here=checkup.is_here(picture, id_)))
        found.extend(checkup.check_values(await lacking(picture, options)))
        found.append(checkup.check_limits(len(picture.servers)))
        if port is not None:
            found.append(checkup.check_port(host, port))
        if url is not None:
            found.append(checkup.check_signalling(url, socketio_path))
        _show(output, found)
        return FAILED if checkup.worst(found) == "problem" else SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work)


def _show(output: Output, found: list[Found]) -> None:
    if output.as_json:
        output.document([one._asdict() for one in found])
        return
    for one in found:
        advice = f"; {one.advice}" if one.advice else ""
        output.text(f"{one.level:8} {one.subject}: {one.text}{advice}", style=STYLES[one.level])
