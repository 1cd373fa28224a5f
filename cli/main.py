"""Entry point of the `smcp` command: it names the groups; each imports what it needs when it runs.

`smcp --help` must answer at once, so modules imported here import nothing heavier than typer.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .agent import agent
from .bus import bus
from .computer import computer
from .demo import demo
from .doctor import doctor
from .exit_status import exit_status
from .input import inputs
from .marketplace import marketplace
from .mcp import mcp
from .output import Output
from .plugin import plugin
from .server import server
from .settings import settings
from .skill import skill
from .streams import mend_streams
from .worker import worker

app = typer.Typer(
    name="smcp",
    help="A2C-SMCP: Agents call tools of MCP servers that Computers host, through a signalling Server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - reads the file system

        typer.echo(f"smcp {version('smcp-runtime')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Takes the options in front of a command."""


app.command()(demo)
app.command()(server)
app.command()(doctor)
app.command()(worker)
app.add_typer(computer, name="computer")
app.add_typer(agent, name="agent")
app.add_typer(bus, name="bus")
app.add_typer(inputs, name="input")
app.add_typer(settings, name="settings")
app.add_typer(mcp, name="mcp")
app.add_typer(plugin, name="plugin")
app.add_typer(marketplace, name="marketplace")
app.add_typer(skill, name="skill")


def main() -> None:
    """Runs the command line and exits with a status of R-CLI-1."""
    mend_streams()
    try:
        app()
    except Exception as error:  # what a command raises before its own work begins
        Output().error(error)
        sys.exit(exit_status(error))


if __name__ == "__main__":
    main()
