"""How a management command finds who carries it out: a Computer that runs on this home, or the files when none does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_status import SUCCESS
from .output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from ..actors.reconcile.options import RuntimeOptions

ComputerName = Annotated[
    str | None, typer.Option("--computer", help="Which running Computer, where several do.", metavar="NAME")
]
Ask = Callable[..., Awaitable[Any]]


def manage(
    output: Output,
    home: str | None,
    name: str | None,
    work: Callable[[Ask], Awaitable[int | None]],
) -> None:
    """Runs a command; `work` gets a function that carries out one operation by its name and words."""

    async def begin() -> int:
        from ..actors.reconcile import directories  # noqa: PLC0415 - heavier than all that `--help` needs
        from ..actors.reconcile.options import RuntimeOptions, settle  # noqa: PLC0415

        options = settle(RuntimeOptions(home=home))[0]
        path = await running_on(directories.resolve(options).home, name)
        status = await work(_asking(options, path))
        return SUCCESS if status is None else status

    from .running import perform  # noqa: PLC0415

    perform(output, begin)


def _asking(options: RuntimeOptions, path: Path | None) -> Ask:
    async def ask(operation: str, **words: Any) -> Any:
        import anyio.to_thread  # noqa: PLC0415

        from .control import managed  # noqa: PLC0415
        from .offline import Offline  # noqa: PLC0415

        if path is not None:
            return await managed(path, operation, words)
        return await anyio.to_thread.run_sync(Offline(options).carry_out, operation, words)

    return ask


async def running_on(home: Path, name: str | None) -> Path | None:
    """Where the Computer that runs on a home is asked; `None` when none does and none was named.

    Raises:
        NetworkError: None of this name runs there.
        ConfigValidationError: Several do, and none was named.
    """
    from ..wire.errors import ConfigValidationError, NetworkError  # noqa: PLC0415
    from .control import doors  # noqa: PLC0415

    found = await doors(home)
    if name is not None:
        if name not in found:
            raise NetworkError(f"no Computer {name} runs on {home}", code="not_running")
        return found[name]
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise ConfigValidationError(f"several Computers run here: {names}; say which by --computer", code="ambiguous")
    return next(iter(found.values()), None)


def show(output: Output, result: Mapping[str, Any], done: str) -> None:
    """The result of an operation: what it did, and whatever stands in its way."""
    if output.as_json:
        output.document(result)
        return
    output.text(done if result.get("changed") else f"{done}: nothing had to be changed")
    for line in (*result.get("diagnostics", ()), *result.get("warnings", ())):
        output.note(line)
    if result.get("shadowed_by"):
        output.note(f"it is not effective: {result['shadowed_by']} stands above it")
