"""`smcp marketplace …`: where plugins come from."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from .managing import Work, command
from .options import Json
from .plugin import validate_path

marketplace = typer.Typer(name="marketplace", help="Add, remove and refresh marketplaces.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the marketplace.", metavar="NAME")]


@command(marketplace)
async def add(
    work: Work,
    source: Annotated[
        str,
        typer.Argument(
            help="Git url, owner/repo on GitHub, a directory, or an archive (.zip, .tar.gz) by path or https url.",
            metavar="SOURCE",
        ),
    ],
    *,
    name: Annotated[str | None, typer.Option("--name", help="Its name here.", metavar="NAME")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="I trust whoever writes it.")] = False,
    auto_update: Annotated[bool | None, typer.Option("--auto-update/--no-auto-update")] = None,
    clone: Annotated[bool, typer.Option("--clone/--no-clone", help="Fetch it now, or at the next start.")] = True,
) -> None:
    """Add a marketplace. Without a terminal to ask at, --trust must be given."""
    if not trust and sys.stdin.isatty() and not work.output.as_json:
        trust = typer.confirm(f"Plugins of {source} run programs on this machine. Trust it?", err=True)
    words = {"url": _url(source), "name": name, "trust": trust, "auto_update": auto_update, "fetch": clone}
    work.show(await work.ask("marketplace.add", **words), f"{source} is added")


@command(marketplace, "list")
async def list_marketplaces(work: Work) -> None:
    """List marketplaces."""
    views = await work.ask("marketplace.list")
    if work.output.as_json:
        work.output.document(views)
    rows = [(view["name"], view["url"] or "", str(len(view["plugins"])), view["fault"] or "") for view in views]
    work.output.table(("marketplace", "url", "plugins", "fault"), rows)


@command(marketplace)
async def info(work: Work, name: Name) -> int:
    """Show one marketplace and the plugins it offers."""
    return work.facts(await work.ask("marketplace.list"), "name", name, "marketplace")


@command(marketplace)
async def remove(
    work: Work,
    name: Name,
    *,
    keep_plugins: Annotated[bool, typer.Option("--keep-plugins", help="Leave its plugins installed.")] = False,
) -> None:
    """Remove a marketplace, the trust in it, and its plugins."""
    work.show(await work.ask("marketplace.remove", name=name, keep_plugins=keep_plugins), f"{name} is removed")


@command(marketplace)
async def refresh(work: Work, name: Annotated[str, typer.Argument(metavar="NAME|all")] = "all") -> None:
    """Bring a marketplace, or all, up to date."""
    names = [] if name == "all" else [name]
    work.show(await work.ask("marketplace.refresh", names=names), "refreshed")


@command(marketplace, "set")
async def set_option(
    work: Work,
    name: Name,
    assignment: Annotated[Literal["auto-update=true", "auto-update=false"], typer.Argument(metavar="KEY=VALUE")],
) -> None:
    """Set whether a marketplace is brought up to date at each start: auto-update=true or auto-update=false."""
    result = await work.ask("marketplace.set", name=name, auto_update=assignment == "auto-update=true")
    work.show(result, f"{name}: {assignment}")


@command(marketplace)
async def prune(
    work: Work, *, yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False
) -> None:
    """Delete what was fetched from marketplaces that nobody declares any more."""
    from ..wire.errors import PolicyError  # noqa: PLC0415 - heavier than all that `--help` needs

    if not yes:
        raise PolicyError("this deletes files; say --yes", code="confirmation_needed")
    work.show(await work.ask("marketplace.prune"), "pruned")


@marketplace.command()
def validate(path: Annotated[str, typer.Argument(metavar="PATH")], *, as_json: Json = False) -> None:
    """Check a marketplace on disk: every fault in one pass; nothing is written."""
    validate_path(path, as_json=as_json)


def _url(source: str) -> str:
    """The url of what a person names; a path is one of this directory, wherever the Computer runs."""
    from pathlib import Path  # noqa: PLC0415

    if source.startswith(("./", "../", "/", "~/")) or source in (".", ".."):
        return f"file://{Path(source).expanduser().absolute().resolve()}"
    return source
