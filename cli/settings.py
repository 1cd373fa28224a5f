"""`smcp settings …`: what the settings of all scopes come to, and changes of the files people own (03 §12).

A Computer that runs keeps the settings it started with until it starts again or reloads.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .computer import Settings, Sources
from .exit_status import FAILED, SUCCESS
from .options import Json
from .output import Output, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .desk import Desk

settings = typer.Typer(name="settings", help="Show and change settings.", no_args_is_help=True)

Shown = Annotated[
    Literal["user", "project", "local", "flag", "policy", "merged"],
    typer.Option("--scope", help="Whose settings.", metavar="SCOPE"),
]
Written = Annotated[Literal["user", "project", "local"], typer.Option("--scope", help="Whose file.", metavar="SCOPE")]
Key = Annotated[str, typer.Argument(help="Field, with dots for fields inside fields.", metavar="KEY")]


@settings.command()
def show(*, scope: Shown = "merged", settings: Settings = None) -> None:
    """Print settings as one JSON document; what is wrong with the files goes to stderr."""
    output = Output(as_json=True)

    def work(at: Desk) -> int:
        from ..actors.reconcile.operations import shown_settings  # noqa: PLC0415

        output.document(shown_settings(at.seen.picture.settings, scope)[0])
        return SUCCESS

    _perform(output, work, settings)


@settings.command()
def get(key: Key, *, scope: Shown = "merged", settings: Settings = None) -> None:
    """Print one field as JSON; a field that is not there ends with status 1."""
    output = Output(as_json=True)

    def work(at: Desk) -> int:
        from ..actors.reconcile.operations import shown_settings  # noqa: PLC0415
        from ..actors.reconcile.scopes.settings import value_at  # noqa: PLC0415

        values = shown_settings(at.seen.picture.settings, scope)[0]
        found = values.get(key, value_at(values, _path(key)))
        output.document(found)
        return SUCCESS if found is not None else FAILED

    _perform(output, work, settings)


@settings.command(name="set")
def set_field(
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON, or else plain text; null deletes.", metavar="VALUE")],
    *,
    scope: Written = "user",
    as_json: Json = False,
) -> None:
    """Change one field of a settings file."""
    output = Output(as_json=as_json)

    def work(at: Desk) -> int:
        from ..actors.reconcile.operations import changed_settings, outcome_of_settings  # noqa: PLC0415
        from .desk import desk  # noqa: PLC0415

        patch = _patch(key, value)
        path = at.places.settings(scope)
        changed, warnings = changed_settings(path, scope, patch, at.seen.picture.settings, None)
        after = desk(Sources("", (), None, None)).seen.picture.settings
        result = outcome_of_settings(changed, warnings, patch, scope, after)
        if as_json:
            output.document(facts_of(result))
        output.text(f"{key} {'is written to' if changed else 'stands already in'} {path}")
        for warning in warnings:
            output.note(warning)
        if result.shadowed_by is not None:
            output.note(f"it is not effective: {result.shadowed_by} stands above it")
        return SUCCESS

    _perform(output, work)


@settings.command()
def edit(*, scope: Written = "user") -> None:
    """Open a settings file in $VISUAL, $EDITOR or vi."""
    output = Output()

    def work(at: Desk) -> int:
        path = at.places.settings(scope)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        ended = subprocess.run([*shlex.split(editor), str(path)], check=False)
        return SUCCESS if ended.returncode == 0 else FAILED

    _perform(output, work)


def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


def _patch(key: str, text: str) -> dict[str, Any]:
    """The change that puts a value where a key says."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    for name in reversed(_path(key)):
        value = {name: value}
    return value  # type: ignore[no-any-return]


def _perform(output: Output, act: Callable[[Desk], int], flag: str | None = None) -> None:
    sources = Sources("", (), flag, None)
    sources.read(output)

    async def work() -> int:
        from .desk import desk  # noqa: PLC0415 - heavier than all that `--help` needs

        at = desk(sources)
        for line in at.seen.picture.findings:
            output.note(line)
        return act(at)

    from .running import perform  # noqa: PLC0415

    perform(output, work)
