"""`smcp plugin …`: install, enable, disable and remove plugins, of a Computer that runs or of the files of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .exit_status import FAILED, SUCCESS
from .managing import Scope, Work, command
from .options import Json
from .output import Output

plugin = typer.Typer(name="plugin", help="Install, enable, disable and remove plugins.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="<plugin>@<marketplace>.", metavar="ID")]


@command(plugin)
async def install(
    work: Work,
    plugin_id: Id,
    *,
    version: Annotated[str | None, typer.Option("--version", help="The version that is expected.", metavar="V")] = None,
    scope: Annotated[str, typer.Option("--scope", help="user: installing is global.", metavar="SCOPE")] = "user",
) -> None:
    """Fetch and check a plugin; it stays inert until it is enabled."""
    if scope != "user":
        from ..wire.errors import ConfigValidationError  # noqa: PLC0415 - heavier than all that `--help` needs

        raise ConfigValidationError("installing is global; see enable --scope", code="bad_scope", field="scope")
    result = await work.ask("plugin.install", plugin_id=plugin_id, version=version)
    views = {view["id"]: view for view in await work.ask("plugin.list")}
    view = views.get(plugin_id, {})
    facts = {"installed": plugin_id, "scope": "user", "state": view.get("state")}
    work.show({**facts, "mcpServers": list(view.get("servers", ())), **result}, f"{plugin_id} is installed")


@command(plugin)
async def uninstall(
    work: Work,
    plugin_id: Id,
    *,
    keep_servers: Annotated[bool, typer.Option("--keep-servers", help="Let its servers go on in this run.")] = False,
) -> None:
    """Remove a plugin, and the servers that nobody else declares."""
    result = await work.ask("plugin.uninstall", plugin_id=plugin_id, keep_servers=keep_servers)
    work.show(result, f"{plugin_id} is removed")


@command(plugin)
async def enable(work: Work, plugin_id: Id, *, scope: Scope = None) -> None:
    """Enable a plugin: its skills and servers together, or none of them."""
    work.show(await work.ask("plugin.enable", plugin_id=plugin_id, scope=scope), f"{plugin_id} is enabled")


@command(plugin)
async def disable(work: Work, plugin_id: Id, *, scope: Scope = None) -> None:
    """Disable a plugin; it stays installed."""
    work.show(await work.ask("plugin.disable", plugin_id=plugin_id, scope=scope), f"{plugin_id} is disabled")


@command(plugin, "list")
async def list_plugins(
    work: Work, *, available: Annotated[bool, typer.Option("--available", hidden=True)] = False
) -> None:
    """List installed plugins and what catalogs offer."""
    views = await work.ask("plugin.list")
    if work.output.as_json:
        work.output.document(views)
    rows = [(view["id"], view["state"], view.get("version") or "", view.get("fault") or "") for view in views]
    work.output.table(("plugin", "state", "version", "fault"), rows)


@command(plugin)
async def info(work: Work, plugin_id: Id) -> int:
    """Show one plugin: where it is from, its version, what it brings."""
    return work.facts(await work.ask("plugin.list"), "id", plugin_id, "plugin")


@command(plugin)
async def gc(
    work: Work,
    *,
    prune_dangling: Annotated[
        bool, typer.Option("--prune-dangling", help="Forget plugins that cannot be had any more.")
    ] = False,
) -> None:
    """Delete what nothing stands for any more."""
    done = await work.ask("plugin.gc", prune_dangling=prune_dangling)
    facts = {
        "removed": done["removed"],
        "dangling": [{"id": key, "reason": reason} for key, reason in done["dangling"].items()],
        "prunedIntents": done["pruned"],
        "residualDeclarations": done["residual"],
        "recoverable": done["recoverable"],
    }
    work.show({**facts, **done["result"]}, "collected")


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
