"""`smcp marketplace …`: where plugins come from."""

from __future__ import annotations

from typing import Annotated

import typer

from .computer import Home
from .exit_status import FAILED, SUCCESS
from .managing import Ask, ComputerName, manage, show
from .options import Json
from .output import Output
from .plugin import validate_path

marketplace = typer.Typer(name="marketplace", help="Add, remove and refresh marketplaces.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the marketplace.", metavar="NAME")]


@marketplace.command()
def add(
    url: Annotated[str, typer.Argument(help="Git url, or owner/repo on GitHub.", metavar="URL")],
    *,
    name: Annotated[str | None, typer.Option("--name", help="Its name here.", metavar="NAME")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="I trust whoever writes it.")] = False,
    auto_update: Annotated[bool | None, typer.Option("--auto-update/--no-auto-update")] = None,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Add a marketplace. Without a terminal to ask at, --trust must be given."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        import sys  # noqa: PLC0415

        word = trust
        if not word and sys.stdin.isatty() and not as_json:
            word = typer.confirm(f"Plugins of {url} run programs on this machine. Trust it?", err=True)
        result = await ask("marketplace.add", url=url, name=name, trust=word, auto_update=auto_update)
        show(output, result, f"{url} is added")

    manage(output, home, computer, work)


@marketplace.command(name="list")
def list_marketplaces(*, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """List marketplaces."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        views = await ask("marketplace.list")
        if as_json:
            output.document(views)
        rows = [(view["name"], view["url"] or "", str(len(view["plugins"])), view["fault"] or "") for view in views]
        output.table(("marketplace", "url", "plugins", "fault"), rows)

    manage(output, home, computer, work)


@marketplace.command()
def info(name: Name, *, home: Home = None, computer: ComputerName = None, as_json: Json = False) -> None:
    """Show one marketplace and the plugins it offers."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> int:
        view = next((view for view in await ask("marketplace.list") if view["name"] == name), None)
        if view is None:
            output.note(f"there is no marketplace {name}")
            return FAILED
        if as_json:
            output.document(view)
        for field, value in view.items():
            output.text(f"{field}: {', '.join(value) if isinstance(value, list) else value}")
        return SUCCESS

    manage(output, home, computer, work)


@marketplace.command()
def remove(
    name: Name,
    *,
    keep_plugins: Annotated[bool, typer.Option("--keep-plugins", help="Leave its plugins installed.")] = False,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Remove a marketplace, the trust in it, and its plugins."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        show(output, await ask("marketplace.remove", name=name, keep_plugins=keep_plugins), f"{name} is removed")

    manage(output, home, computer, work)


@marketplace.command()
def refresh(
    name: Annotated[str, typer.Argument(metavar="NAME|all")] = "all",
    *,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Bring a marketplace, or all, up to date."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        names = [] if name == "all" else [name]
        with output.working("fetching"):
            result = await ask("marketplace.refresh", names=names)
        show(output, result, "refreshed")

    manage(output, home, computer, work)


@marketplace.command(name="set")
def set_option(
    name: Name,
    assignment: Annotated[str, typer.Argument(help="auto-update=true or auto-update=false.", metavar="KEY=VALUE")],
    *,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Set whether a marketplace is brought up to date at each start."""
    words = {"auto-update=true": True, "auto-update=false": False}
    if assignment not in words:
        raise typer.BadParameter("say auto-update=true or auto-update=false", param_hint="KEY=VALUE")
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        show(output, await ask("marketplace.set", name=name, auto_update=words[assignment]), f"{name}: {assignment}")

    manage(output, home, computer, work)


@marketplace.command()
def prune(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    home: Home = None,
    computer: ComputerName = None,
    as_json: Json = False,
) -> None:
    """Delete what was fetched from marketplaces that nobody declares any more."""
    output = Output(as_json=as_json)

    async def work(ask: Ask) -> None:
        from ..wire.errors import PolicyError  # noqa: PLC0415

        if not yes:
            raise PolicyError("this deletes files; say --yes", code="confirmation_needed")
        show(output, await ask("marketplace.prune"), "pruned")

    manage(output, home, computer, work)


@marketplace.command()
def validate(path: Annotated[str, typer.Argument(metavar="PATH")], *, as_json: Json = False) -> None:
    """Check a marketplace on disk: every fault in one pass; nothing is written."""
    validate_path(path, as_json=as_json)
