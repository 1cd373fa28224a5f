"""What all management commands share: their common options, and who carries their operations out.

That is the Computer which runs on the home, or the files when none does. Of what a project says something about
(inputs, settings, servers), only a Computer that works in the same project is asked inside of one. A command is an
`async` function that gets its `Work` first; `--home`, `--computer` and `--json` are added to its words here.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .computer import Home, McpConfig, Settings, Sources
from .exit_status import FAILED, SUCCESS, USAGE
from .options import Json
from .output import Output

if TYPE_CHECKING:
    from ..actors.reconcile.config.options import RuntimeOptions
    from ..actors.reconcile.scopes.places import Places
    from .control import Door

ComputerName = Annotated[
    str | None, typer.Option("--computer", help="Which running Computer, where several do.", metavar="NAME")
]
Scope = Annotated[
    Literal["user", "project", "local"] | None,
    typer.Option("--scope", help="Whose settings; by default those that say something already.", metavar="SCOPE"),
]
OF_A_PROJECT = ("input", "settings", "mcp")
"""Groups about what a project says something about, too."""

Body = Callable[..., Awaitable[int | None]]


class Work:
    """What one command works with.

    Attributes:
        path: The door of the Computer that carries things out; `None` for the files.
    """

    def __init__(self, output: Output, options: RuntimeOptions, door: Door | None) -> None:
        self.output = output
        self.path = None if door is None else door.path
        self._project = options.project_root if door is None else door.project
        self._options = options

    async def ask(self, operation: str, **words: Any) -> Any:
        """Has one operation carried out, and shows what it is at meanwhile; its result as JSON values.

        Raises:
            typer.BadParameter: A word is no text.
            SmcpError: It failed.
        """
        import anyio.to_thread  # noqa: PLC0415 - heavier than all that `--help` needs

        from ..actors.reconcile.config.json_text import half_character  # noqa: PLC0415
        from .control import managed  # noqa: PLC0415
        from .offline import Offline  # noqa: PLC0415
        from .steps import Steps  # noqa: PLC0415

        if half_character(words) is not None:
            raise typer.BadParameter("what was given is not UTF-8")
        with Steps(self.output) as steps:
            if self.path is not None:
                return await managed(self.path, operation, words, steps.tell)
            files = Offline(
                self._options, lambda what, step, size: steps.tell({"what": what, "step": step, "size": size})
            )
            return await anyio.to_thread.run_sync(files.carry_out, operation, words)

    @property
    def places(self) -> Places:
        """The files of the user, and of the project that is worked on: the Computer's, or the command's own."""
        from ..actors.reconcile.loading import places_for  # noqa: PLC0415

        return places_for(dataclasses.replace(self._options, project_root=self._project))

    def show(
        self,
        result: Mapping[str, Any],
        done: str,
        *,
        kind: Literal["settings", "mcp"] = "settings",
        wanted: str | None = None,
    ) -> None:
        """The result of an operation: what it did and where, and whatever stands in its way.

        Args:
            kind: Which file of a scope it writes.
            wanted: The scope that was asked for, where another may have been written (R-FILE-11).
        """
        if self.output.as_json:
            self.output.document(result)
            return
        scope = result.get("written_scope")
        if scope is not None:
            done = f"{done} ({self._written(scope, kind)})"
        self.output.text(done if result.get("changed") else f"{done}: nothing had to be changed")
        if wanted not in (None, scope):
            self.output.note(f"scope {scope} holds it already, so nothing was written to scope {wanted}")
        for line in (*result.get("diagnostics", ()), *result.get("warnings", ())):
            self.output.note(line)
        if result.get("shadowed_by"):
            self.output.note(f"it is not effective: {result['shadowed_by']} stands above it")

    def _written(self, scope: str, kind: Literal["settings", "mcp"]) -> str:
        """A scope with its file; some places an operation writes to are none."""
        files = next((pair for name, pair in self.places.pairs.items() if name == scope), None)
        if files is None:
            return scope
        return f"{scope}: {files.mcp if kind == 'mcp' else files.settings}"

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
            if isinstance(value, dict) and value:
                shown = json.dumps(value, ensure_ascii=False)
            if shown not in (None, "", {}):
                self.output.text(f"{name}: {shown}")
        return SUCCESS


def command(
    group: typer.Typer, name: str | None = None, *, running: bool = False, flags: bool = False
) -> Callable[[Body], Body]:
    """Makes an `async` function a command of a group.

    Args:
        name: Its name, where that is not the function's.
        running: Whether it needs a Computer that runs.
        flags: Whether it takes flag files; a command that is given one works on files.
    """

    def register(body: Body) -> Body:
        signature = inspect.signature(body, eval_str=True)
        words = list(signature.parameters.values())[1:]

        def run(
            *,
            home: str | None,
            computer: str | None,
            as_json: bool,
            mcp_config: list[str] | None = None,
            settings: str | None = None,
            **given: Any,
        ) -> None:
            output = Output(as_json=as_json)
            sources = Sources("", tuple(mcp_config or ()), settings, home)
            if flags:
                sources.read(output)

            misused: list[typer.BadParameter] = []

            async def begin() -> int:
                try:
                    strictly = not running and group.info.name in OF_A_PROJECT
                    work = await _begun(output, sources, computer, running=running, strictly=strictly)
                    status = await body(work, **given)
                except typer.BadParameter as error:
                    misused.append(error)
                    return USAGE
                return SUCCESS if status is None else status

            from .running import perform  # noqa: PLC0415

            try:
                perform(output, begin)
            finally:
                if misused:
                    raise misused[0]  # so that it is shown with the usage, like what is wrong with a word itself

        shown = [*words, *(_FLAGS if flags else ()), *_SHARED]
        # Typer reads a command's words off its signature.
        run.__signature__ = signature.replace(parameters=shown, return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {word.name: word.annotation for word in shown}
        run.__name__, run.__doc__ = body.__name__, body.__doc__
        group.command(name=name)(run)
        return body

    return register


def home_of(home: str | None) -> Path:
    """The home that a command means."""
    from ..actors.reconcile.config import directories  # noqa: PLC0415
    from ..actors.reconcile.config.options import RuntimeOptions, settle  # noqa: PLC0415

    return directories.resolve(settle(RuntimeOptions(home=home))[0]).home


def meant_by(found: Mapping[str, Door], name: str | None, project: Path | None, *, strictly: bool = True) -> str | None:
    """The Computer a command is for, among those that run on a home; `None` for the files.

    Args:
        name: The one that was named, if one was.
        project: The project the command was given in, `None` outside of any.
        strictly: Whether one that works in another project is none at all; else it only comes second.
    Raises:
        NetworkError: None of this name runs there.
        ConfigValidationError: Several may be meant, and none was named.
    """
    from ..wire.errors import ConfigValidationError, NetworkError  # noqa: PLC0415

    if name is not None:
        if name not in found:
            raise NetworkError(f"no Computer {name} runs here", code="not_running")
        return name
    here = sorted(one for one, door in found.items() if project is not None and door.project == str(project))
    names = here or ([] if strictly and project is not None else sorted(found))
    if len(names) > 1:
        told = ", ".join(names)
        raise ConfigValidationError(f"several Computers run here: {told}; say which by --computer", code="ambiguous")
    return names[0] if names else None


async def running_on(home: Path, name: str | None) -> str:
    """The Computer that runs on a home, or the one of several that is meant: named, or of this project.

    Raises:
        NetworkError: None runs there.
        ConfigValidationError: Several may be meant, and none was named.
    """
    from ..actors.reconcile.config.options import RuntimeOptions  # noqa: PLC0415
    from ..wire.errors import NetworkError  # noqa: PLC0415
    from .control import doors  # noqa: PLC0415

    if name is not None:
        return name
    chosen = meant_by(await doors(home), None, _project(RuntimeOptions()), strictly=False)
    if chosen is None:
        raise NetworkError(f"no Computer runs on {home}", code="not_running")
    return chosen


async def _begun(output: Output, sources: Sources, computer: str | None, *, running: bool, strictly: bool) -> Work:
    from ..actors.reconcile.config import directories  # noqa: PLC0415
    from ..actors.reconcile.config.options import settle  # noqa: PLC0415
    from ..wire.errors import NetworkError  # noqa: PLC0415
    from .control import doors  # noqa: PLC0415

    options = settle(sources.options())[0]
    if sources.mcp_config or sources.settings:
        return Work(output, options, None)
    found = await doors(place := directories.resolve(options).home)
    chosen = meant_by(found, computer, _project(options), strictly=strictly)
    if chosen is not None:
        return Work(output, options, found[chosen])
    if running:
        raise NetworkError(f"no Computer runs on {place}", code="not_running")
    for name in sorted(found):
        output.note(f"{name} runs in another project, and is not asked; --computer {name} asks it")
    return Work(output, options, None)


def _project(options: RuntimeOptions) -> Path | None:
    """The project the command was given in, `None` outside of any."""
    from ..actors.reconcile.scopes.places import PROJECT_FOLDER  # noqa: PLC0415

    root = Path(options.project_root or ".").resolve()
    return root if (root / PROJECT_FOLDER).is_dir() else None


def _shared(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_FLAGS = (_shared("mcp_config", McpConfig, None), _shared("settings", Settings, None))
_SHARED = (_shared("home", Home, None), _shared("computer", ComputerName, None), _shared("as_json", Json, False))
