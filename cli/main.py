"""Entry point of the `smcp` command: it names the groups; each imports what it needs when it runs.

`smcp --help` must answer at once, so modules imported here import nothing heavier than typer.
"""

from __future__ import annotations

import sys

import typer

from .agent import agent
from .server import server

app = typer.Typer(
    name="smcp",
    help="A2C-SMCP: Agents call tools of MCP servers that Computers host, through a signalling Server.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root() -> None:
    """Keeps the words after `smcp` commands of their own, however many there are."""


app.command()(server)
app.add_typer(agent, name="agent")


def main() -> None:
    """Runs the command line and exits with a status of R-CLI-1."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app()


if __name__ == "__main__":
    main()
