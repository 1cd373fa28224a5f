"""`smcp settings …`: what the settings of all scopes come to, and changes of the files people own (03 §12).

A Computer that runs keeps the settings it started with until something is changed through it, it reloads, or it starts
again.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .exit_status import FAILED, SUCCESS
from .managing import Work, command

settings = typer.Typer(name="settings", help="Show and change settings.", no_args_is_help=True)

Shown = Annotated[
    Literal["user", "project", "local", "embed", "flag", "policy", "merged"],
    typer.Option("--scope", help="Whose settings.", metavar="SCOPE"),
]
Written = Annotated[Literal["user", "project", "local"], typer.Option("--scope", help="Whose file.", metavar="SCOPE")]
Key = Annotated[str, typer.Argument(help="Field, with dots for fields inside fields.", metavar="KEY")]


@command(settings, flags=True)
async def show(work: Work, *, scope: Shown = "merged") -> None:
    """Print settings as one JSON document; what is wrong with the files goes to stderr."""
    work.output.document(await _values(work, scope))


@command(settings, flags=True)
async def get(work: Work, key: Key, *, scope: Shown = "merged") -> int:
    """Print one field as JSON; a field that is not there ends with status 1."""
    from ..actors.reconcile.scopes.settings import value_at  # noqa: PLC0415 - heavier than all that `--help` needs

    values = await _values(work, scope)
    found = values.get(key, value_at(values, _path(key)))
    work.output.document(found)
    return SUCCESS if found is not None else FAILED


@command(settings, "set")
async def set_field(
    work: Work,
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON, or else plain text; null deletes.", metavar="VALUE")],
    *,
    scope: Written = "user",
) -> None:
    """Change one field of a settings file."""
    result = await work.ask("settings.change", scope=scope, patch=_patch(key, value))
    work.show(result, f"{key} is set")


@command(settings)
async def edit(work: Work, *, scope: Written = "user") -> int:
    """Open a settings file in $VISUAL, $EDITOR or vi; a Computer that runs takes it by `reload`."""
    return SUCCESS if _edited(work.places.settings(scope)) else FAILED


@command(settings, running=True)
async def reload(work: Work) -> None:
    """Have a running Computer absorb what changed in settings and server files since it read them."""
    work.show(await work.ask("files.reload"), "the files are read")


@command(settings, running=True)
async def differences(work: Work) -> None:
    """List the files that a running Computer has read otherwise than they are now."""
    files: dict[str, str] = await work.ask("files.pending")
    if work.output.as_json:
        work.output.document(files)
    work.output.table(("FILE", "WAS"), sorted(files.items()))


async def _values(work: Work, scope: str) -> dict[str, Any]:
    view = await work.ask("settings.show", scope=scope)
    for line in view["findings"]:
        work.output.note(line)
    values: dict[str, Any] = view["values"]
    return values


def _edited(path: Path) -> bool:
    """Opens a file in the editor of the user; whether that ended well.

    Raises:
        StartupError: There is no such editor.
    """
    from ..wire.errors import StartupError  # noqa: PLC0415 - heavier than all that `--help` needs

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    editor = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip() or "vi"
    try:
        return subprocess.run([*shlex.split(editor), str(path)], check=False).returncode == 0
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        told = f"the editor {editor} cannot be started: {reason}"
        raise StartupError(told, code="editor_failed", retry_hint="name another in VISUAL or EDITOR") from None


def _path(key: str) -> tuple[str, ...]:
    """The names of a key, from the outermost field inwards.

    Raises:
        typer.BadParameter: One of them is empty.
    """
    names = tuple(key.split("."))
    if not all(names):
        raise typer.BadParameter(f"a name is missing in {key!r}", param_hint="KEY")
    return names


def _patch(key: str, text: str) -> dict[str, Any]:
    """The change that puts a value where a key says."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    for name in reversed(_path(key)):
        value = {name: value}
    return value  # type: ignore[no-any-return]
