"""What all management commands share: their common options, and who carries their operations out.

That is the Computer which runs on the home, or the files when none does. A command is an `async` function that gets
its `Work` first; `--home`, `--computer` and `--json` are added to its words here.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .computer import Home
from .exit_status import FAILED, SUCCESS
from .options import Json
from .output import Output

if TYPE_CHECKING:
    from pathlib import Path

    from ..actors.reconcile.options import RuntimeOptions

ComputerName = Annotated[
    str | None, typer.Option("--computer", help="Which running Computer, where several do.", metavar="NAME")
]
Scope = Annotated[
    Literal["user", "project", "local"] | None,
    typer.Option("--scope", help="Whose settings; by default those that say something already.", metavar="SCOPE"),
]
Body = Callable[..., Awaitable[int | None]]


class Work:
    """What one command works with.

    Attributes:
        path: The door of the Computer that carries things out; `None` for the files.
    """

    def __init__(self, output: Output, options: RuntimeOptions, path: Path | None) -> None:
        self.output = output
        self.path = path
        self._options = options

    async def ask(self, operation: str, **words: Any) -> Any:
        """Has one operation carried out, and shows what it is at meanwhile; its result as JSON values.

        Raises:
            SmcpError: It failed.
        """
        import anyio.to_thread  # noqa: PLC0415 - heavier than all that `--help` needs

        from .control import managed  # noqa: PLC0415
        from .offline import Offline  # noqa: PLC0415
        from .steps import Steps  # noqa: PLC0415

        with Steps(self.output) as steps:
            if self.path is not None:
                return await managed(self.path, operation, words, steps.tell)
            files = Offline(
                self._options, lambda what, step, size: steps.tell({"what": what, "step": step, "size": size})
            )
            return await anyio.to_thread.run_sync(files.carry_out, operation, words)

    def show(self, result: Mapping[str, Any], done: str) -> None:
        """The result of an operation: what it did, and whatever stands in its way."""
        if self.output.as_json:
            self.output.document(result)
            return
        self.output.text(done if result.get("changed") else f"{done}: nothing had to be changed")
        for line in (*result.get("diagnostics", ()), *result.get("warnings", ())):
            self.output.note(line)
        if result.get("shadowed_by"):
            self.output.note(f"it is not effective: {result['shadowed_by']} stands above it")

    def facts(self, views: list[dict[str, Any]], key: str, wanted: str, kind: str) -> int:
        """Shows one of some views, field by field; the status of the command."""
        view = next((view for view in views if view[key] == wanted), None)
        if view is None:
            from ..wire.errors import ConfigValidationError  # noqa: PLC0415

            self.output.error(ConfigValidationError(f"there is no {kind} {wanted!r}", code="not_found"))
            return FAILED
        if self.output.as_json:
            self.output.document(view)
        for name, value in view.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            if shown not in (None, "", {}):
                self.output.text(f"{name}: {shown}")
        return SUCCESS


def command(group: typer.Typer, name: str | None = None, *, running: bool = False) -> Callable[[Body], Body]:
    """Makes an `async` function a command of a group.

    Args:
        name: Its name, where that is not the function's.
        running: Whether it needs a Computer that runs.
    """

    def register(body: Body) -> Body:
        signature = inspect.signature(body, eval_str=True)
        words = list(signature.parameters.values())[1:]

        def run(*, home: str | None, computer: str | None, as_json: bool, **given: Any) -> None:
            output = Output(as_json=as_json)

            async def begin() -> int:
                status = await body(await _begun(output, home, computer, running=running), **given)
                return SUCCESS if status is None else status

            from .running import perform  # noqa: PLC0415

            perform(output, begin)

        shown = [*words, *_SHARED]
        # Typer reads a command's words off its signature.
        run.__signature__ = signature.replace(parameters=shown, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {word.name: word.annotation for word in shown}
        run.__name__, run.__doc__ = body.__name__, body.__doc__
        group.command(name=name)(run)
        return body

    return register


def home_of(home: str | None) -> Path:
    """The home that a command means."""
    from ..actors.reconcile import directories  # noqa: PLC0415
    from ..actors.reconcile.options import RuntimeOptions, settle  # noqa: PLC0415

    return directories.resolve(settle(RuntimeOptions(home=home))[0]).home


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


async def _begun(output: Output, home: str | None, computer: str | None, *, running: bool) -> Work:
    from ..actors.reconcile import directories  # noqa: PLC0415
    from ..actors.reconcile.options import RuntimeOptions, settle  # noqa: PLC0415
    from ..wire.errors import NetworkError  # noqa: PLC0415

    options = settle(RuntimeOptions(home=home))[0]
    place = directories.resolve(options).home
    path = await running_on(place, computer)
    if path is None and running:
        raise NetworkError(f"no Computer runs on {place}", code="not_running")
    return Work(output, options, path)


def _shared(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_SHARED = (_shared("home", Home, None), _shared("computer", ComputerName, None), _shared("as_json", Json, False))
