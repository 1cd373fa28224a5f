"""`smcp plugin …`: install, enable, disable and remove plugins, of a Computer that runs or of the files of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .computer import Home
from .exit_status import FAILED, SUCCESS
from .managing import Ask, ComputerName, manage, show
from .options import Json
from .output import Output

plugin = typer.Typer(name="plugin", help="Install, enable, disable and remove plugins.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="<plugin>@<marketplace>.", metavar="ID")]
Scope = Annotated[
    Literal["user", "project", "local"] | None,
    typer.Option("--scope", help="Whose settings; by default those that say something already.", metavar="SCOPE"),
]


@plugin.command()
def install(
    plugin_id: Id,
    *,
    version: Annotated[str | None, typer.Option("--version", help="The version that is expected.", metavar="V")] = None,
    scope: Annotated[str, typer.Option("--scope", help="user: installing is global.", metavar="SCOPE")] = "user",
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Fetch and check a plugin; it stays inert until it is enabled."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        if scope != "user":
            from ..wire.errors import ConfigValidationError  # noqa: PLC0415 - heavier than all that `--help` needs

            raise ConfigValidationError("installing is global; see enable --scope", code="bad_scope", field="scope")
        result = await ask("plugin.install", plugin_id=plugin_id, version=version)
        views = {view["id"]: view for view in await ask("plugin.list")}
        view = views.get(plugin_id, {})
        facts = {"installed": plugin_id, "scope": "user", "state": view.get("state")}
        show(output, {**facts, "mcpServers": list(view.get("servers", ())), **result}, f"{plugin_id} is installed")
        return SUCCESS

    manage(output, home, computer, work)


@plugin.command()
def uninstall(
    plugin_id: Id,
    *,
    keep_servers: Annotated[bool, typer.Option("--keep-servers", help="Let its servers go on in this run.")] = False,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Remove a plugin, and the servers that nobody else declares."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        result = await ask("plugin.uninstall", plugin_id=plugin_id, keep_servers=keep_servers)
        show(output, result, f"{plugin_id} is removed")

    manage(output, home, computer, work)


@plugin.command()
def enable(
    plugin_id: Id, *, scope: Scope = None, home: Home = None, computer: ComputerName = None, as_json: Json = False
) -> None:
    """Enable a plugin: its skills and servers together, or none of them."""
    _switch(plugin_id, "enable", scope, (home, computer, as_json))


@plugin.command()
def disable(
    plugin_id: Id, *, scope: Scope = None, home: Home = None, computer: ComputerName = None, as_json: Json = False
) -> None:
    """Disable a plugin; it stays installed."""
    _switch(plugin_id, "disable", scope, (home, computer, as_json))


@plugin.command(name="list")
def list_plugins(
    *,
    available: Annotated[bool, typer.Option("--available", hidden=True)] = False,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """List installed plugins and what catalogs offer."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        views = await ask("plugin.list")
        if as_json:
            output.document(views)
        rows = [(view["id"], view["state"], view.get("version") or "", view.get("fault") or "") for view in views]
        output.table(("plugin", "state", "version", "fault"), rows)

    manage(output, home, computer, work)


@plugin.command()
def info(plugin_id: Id, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Show one plugin: where it is from, its version, what it brings."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        view = next((view for view in await ask("plugin.list") if view["id"] == plugin_id), None)
        if view is None:
            output.note(f"there is no plugin {plugin_id}")
            return FAILED
        _show_facts(output, view)
        return SUCCESS

    manage(output, home, computer, work)


@plugin.command()
def gc(
    *,
    prune_dangling: Annotated[
        bool, typer.Option("--prune-dangling", help="Forget plugins that cannot be had any more.")
    ] = False,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Delete what nothing stands for any more."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        show(output, await ask("plugin.gc", prune_dangling=prune_dangling), "collected")

    manage(output, home, computer, work)


@plugin.command()
def validate(path: Annotated[str, typer.Argument(metavar="PATH")], *, as_json: Json = False) -> None:
    """Check a plugin or a marketplace on disk: every fault in one pass; nothing is written."""
    validate_path(path, as_json=as_json)


def validate_path(path: str, *, as_json: bool) -> None:
    """Checks a directory and ends the command."""
    output = Output(as_json=as_json)
    place = Path(path).absolute()

    async def work() -> int:
        from ..actors.plugins.validate import validate as judge  # noqa: PLC0415
        from ..wire.plain import plain  # noqa: PLC0415

        verdict = judge(place)
        if as_json:
            output.document(plain(verdict))
        for issue in verdict.errors:
            output.text(f"error {issue.code}: {issue.file}: {issue.location}: {issue.message}")
        for issue in verdict.warnings:
            output.text(f"warning {issue.code}: {issue.file}: {issue.location}: {issue.message}")
        output.text(f"{path} is {'valid' if verdict.valid else 'not valid'}")
        return SUCCESS if verdict.valid else FAILED

    from .running import perform  # noqa: PLC0415

    perform(output, work)


def _switch(plugin_id: str, verb: str, scope: str | None, where: tuple[str | None, str | None, bool]) -> None:
    home, computer, as_json = where
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        show(output, await ask(f"plugin.{verb}", plugin_id=plugin_id, scope=scope), f"{plugin_id} is {verb}d")

    manage(output, home, computer, work)


def _show_facts(output: Output, view: dict[str, Any]) -> None:
    if output.as_json:
        output.document(view)
    for name, value in view.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if shown not in (None, "", {}):
            output.text(f"{name}: {shown}")
