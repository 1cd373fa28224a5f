"""`smcp computer …`: run a Computer until it is told to stop, or say what would run."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..wire.protocol import SOCKETIO_PATH
from .exit_status import SUCCESS, USAGE
from .options import AuthEnv, Json, SocketioPath, auth_from, secret_from, server_url
from .output import Output

if TYPE_CHECKING:
    from ..actors.reconcile.config.options import RuntimeOptions
    from ..runtime import Computer

computer = typer.Typer(help="Run a Computer, which hosts MCP servers for an office.", no_args_is_help=True)

DRAIN = 3.0
"""Seconds that calls in flight get when the process is told to stop, which it obeys within `STOP_LIMIT`."""
STOP_LIMIT = 9.0
WATCH_EVERY = 1.0

Name = Annotated[str, typer.Option("--name", help="Name under which Agents find it.", metavar="NAME")]
McpConfig = Annotated[
    list[str] | None,
    typer.Option("--mcp-config", "-c", help="File with MCP servers; a later one is stronger.", metavar="FILE"),
]
Settings = Annotated[str | None, typer.Option("--settings", help="File with settings.", metavar="FILE")]
Home = Annotated[str | None, typer.Option("--home", help="Data root.", metavar="DIR")]


@computer.command()
def run(
    *,
    name: Name,
    mcp_config: McpConfig = None,
    settings: Settings = None,
    home: Home = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Server to connect to.", metavar="URL", callback=server_url)
    ] = None,
    office: Annotated[str | None, typer.Option("--office", help="The office to join.", metavar="NAME")] = None,
    auth_env: AuthEnv = None,
    socketio_path: SocketioPath = SOCKETIO_PATH,
    approve_all_mcp: Annotated[
        bool, typer.Option("--approve-all-mcp", help="Run servers of project files without asking, in this run.")
    ] = False,
    placement: Annotated[
        str, typer.Option("--placement", help="Where servers run: inline, process or external.", metavar="WHERE")
    ] = "inline",
    bus: Annotated[
        str | None,
        typer.Option("--bus", help="Where workers find it, ipc:///path or tcp://host:port.", metavar="ENDPOINT"),
    ] = None,
    bus_keys: Annotated[
        str | None,
        typer.Option("--bus-keys", help="Directory of the hub's keys and of workers' public ones.", metavar="DIR"),
    ] = None,
    ops: Annotated[
        str | None, typer.Option("--ops", help="Where the operator endpoint listens.", metavar="HOST:PORT")
    ] = None,
    ops_token_env: Annotated[
        str | None,
        typer.Option("--ops-token-env", help="Variable with its token; needed beyond loopback.", metavar="VAR"),
    ] = None,
) -> None:
    """Run a Computer. Prints one line when it is ready, for a given URL once it has joined."""
    output = Output()
    if (url is None) != (office is None):
        raise typer.BadParameter("--url and --office go together", param_hint="--office" if url else "--url")
    auth = auth_from(auth_env)
    connection = {"url": url, "office_id": office, "socketio_path": socketio_path, "auth": auth or {}} if url else None

    token = None if ops_token_env is None else secret_from(ops_token_env, "--ops-token-env")
    workers = Workers(placement, bus, bus_keys)
    sources = Sources(name, tuple(mcp_config or ()), settings, home, approve_all_mcp, ops, token, workers)
    sources.read(output)

    async def work() -> int:
        from .running import ready, stop_signal  # noqa: PLC0415 - heavier than all that `--help` needs

        made = sources.computer(connection, ask=True)
        async with stop_signal() as stop:
            await _serve(made, stop, lambda: ready(url or "none"))
        return SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work, log_level="INFO")


@computer.command()
def check(
    *,
    name: Name,
    mcp_config: McpConfig = None,
    settings: Settings = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check the same inputs as `run`, print what would run, and start nothing."""
    output = Output(as_json=as_json)

    sources = Sources(name, tuple(mcp_config or ()), settings, home)
    sources.read(output)

    async def work() -> int:
        from .plan import show_plan  # noqa: PLC0415

        return await show_plan(output, sources.computer().config, sources.options())

    from .running import perform  # noqa: PLC0415

    perform(output, work)


@computer.command()
def status(
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", "--computer", help="Which running Computer, where several do.", metavar="NAME"),
    ] = None,
    home: Home = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on printing every second.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a Computer that runs on this machine is doing: state, servers, restarts, reasons."""
    output = Output(as_json=as_json)

    async def work() -> int:
        import anyio  # noqa: PLC0415 - heavier than all that `--help` needs

        from .control import question  # noqa: PLC0415
        from .managing import home_of, running_on  # noqa: PLC0415
        from .running import until_stopped  # noqa: PLC0415
        from .status import show_status  # noqa: PLC0415

        place = home_of(home)
        chosen = await running_on(place, name)

        async def show() -> None:
            show_status(output, await question(place, chosen, "status"))

        async def go_on() -> None:
            while True:
                await show()
                await anyio.sleep(WATCH_EVERY)

        if watch:
            return await until_stopped(go_on)
        await show()
        return SUCCESS

    from .running import perform  # noqa: PLC0415

    perform(output, work)


_WORDS = {"placement": "--placement", "bus": "--bus", "ops": "--ops", "ops_token": "--ops-token-env"}
"""Options of a Computer that are words of `run`, which checks none of them itself."""


class Workers(NamedTuple):
    """Where servers run, and how workers find their Computer."""

    placement: str = "inline"
    bus: str | None = None
    keys: str | None = None


class Sources(NamedTuple):
    """Where a Computer's configuration comes from, as the words of a command say it."""

    name: str
    mcp_config: tuple[str, ...]
    settings: str | None
    home: str | None
    approve_all: bool = False
    ops: str | None = None
    ops_token: str | None = None
    workers: Workers = Workers()

    def options(self, *, ask: bool = False) -> RuntimeOptions:
        """The options these words stand for.

        Args:
            ask: Ask whoever sits at the terminal for values and approvals, if there is a terminal.
        """
        from ..actors.reconcile.config.options import RuntimeOptions  # noqa: PLC0415 - heavier than all `--help` needs
        from .asking import terminal  # noqa: PLC0415

        asked = terminal() if ask else None
        return RuntimeOptions(
            flag_mcp_config=self.mcp_config,
            flag_settings=self.settings,
            home=self.home,
            drain_timeout_s=DRAIN,
            approve_all_servers=self.approve_all,
            ops=self.ops,
            ops_token=self.ops_token,
            # A word that is none is found with the faults of all other options.
            placement=self.workers.placement,  # type: ignore[arg-type]
            bus=self.workers.bus,
            bus_keys=self.workers.keys,
            prompter=None if asked is None else asked.value,
            server_approval=None if asked is None else asked.approval,
        )

    def read(self, output: Output) -> None:
        """Checks words and files once, before anything is opened or started, so that a fault in one has no side effect.

        Raises:
            typer.Exit: A file is faulty: reported, with status 2 (R-CLI-1).
            typer.BadParameter: A word is, or needs another one.
        """
        from ..actors.reconcile.config.options import settle  # noqa: PLC0415 - heavier than all `--help` needs
        from ..actors.reconcile.scopes.flags import read_flags  # noqa: PLC0415
        from ..wire.errors import ConfigValidationError, SmcpError  # noqa: PLC0415

        try:
            settle(self.options())
        except ConfigValidationError as error:
            # What is no word of the command is left to its work: it has another status.
            for finding in error.findings:
                if finding.field in _WORDS:
                    raise typer.BadParameter(finding.reason, param_hint=_WORDS[finding.field]) from None

        try:
            read_flags(self.mcp_config, self.settings)
        except SmcpError as error:
            output.error(error)
            raise typer.Exit(USAGE) from None

    def computer(self, connection: dict[str, Any] | None = None, *, ask: bool = False) -> Computer:
        """The Computer, which has done nothing yet; `ask` as in `options`."""
        from ..runtime import Computer  # noqa: PLC0415

        given = {"name": self.name} if connection is None else {"name": self.name, "connection": connection}
        return Computer.from_config(given, self.options(ask=ask))


async def _serve(made: Computer, stop: Any, announce: Any) -> None:
    """Starts, connects if there is somewhere to, and serves until told to stop or turned away for good.

    Raises:
        SmcpError: It could not start, or was refused, now or on a later return.
    """
    import anyio  # noqa: PLC0415

    from ..wire.errors import SmcpError, from_failure  # noqa: PLC0415
    from .control import open_door  # noqa: PLC0415

    async def obey() -> None:
        await stop.wait()
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group, AsyncExitStack() as stack:
            group.start_soon(obey)
            await made.start()
            await stack.enter_async_context(open_door(made))
            if made.config.connection is not None:
                await made.connect()
            announce()
            failure = await made.turned_away()
            raise from_failure(failure) if failure is not None else SmcpError("the Computer ended unexpectedly")
    finally:
        with anyio.move_on_after(STOP_LIMIT, shield=True):
            await made.shutdown()
