"""Imports point downwards only, and each outside library has one door (docs/architecture.md)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.tree import PACKAGE, dotted, imports, modules

MAY_IMPORT = {
    "wire": ("wire",),
    "bus": ("wire", "bus"),
    "actors": ("wire", "bus", "actors"),
    "runtime": ("wire", "bus", "actors", "runtime"),
    "server": ("wire", "server"),
    "agent": ("wire", "agent", "bus.link"),
    "cli": ("wire", "bus", "actors", "runtime", "server", "agent", "fixtures", "cli"),
    "fixtures": ("fixtures",),
}

DOORS = {
    "zmq": ("bus.zeromq",),
    "socketio": ("server",),
    "engineio": ("server",),
    "mcp": ("actors.mcp.session.sdk", "actors.mcp.oauth", "fixtures"),
    "mcp_types": ("actors.mcp.session.sdk", "fixtures"),
    "pydantic": ("actors.mcp.session.sdk", "actors.mcp.oauth", "fixtures"),
    "opentelemetry": ("wire.tracing",),
    "prometheus_client": ("actors.ops",),
    "typer": ("cli",),
    "rich": ("cli",),
}


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def test_imports_of_our_own_point_downwards_only() -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module in modules()
        if (layer := dotted(module).partition(".")[0])
        for name, line in imports(module)
        if name.startswith(f"{PACKAGE}.") and not within(name.removeprefix(f"{PACKAGE}."), MAY_IMPORT[layer])
    ]
    assert wrong == []


def test_each_outside_library_has_one_door() -> None:
    wrong = [
        f"{module}:{line} imports {name}"
        for module in modules()
        for name, line in imports(module)
        if (library := name.partition(".")[0]) in DOORS and not within(dotted(module), DOORS[library])
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        (PACKAGE, "anyio mcp pydantic socketio zmq msgspec"),
        (f"{PACKAGE}.wire", "anyio mcp pydantic socketio zmq aiohttp"),
        (f"{PACKAGE}.server", "mcp mcp_types pydantic"),
        (f"{PACKAGE}.agent", "mcp mcp_types pydantic aiohttp socketio"),
        (f"{PACKAGE}.runtime", "mcp mcp_types pydantic httpx2 aiohttp socketio"),
        (f"{PACKAGE}.cli.main", "mcp mcp_types pydantic socketio aiohttp zmq uvicorn starlette rich"),
    ],
)
def test_importing_a_role_does_not_load_what_it_does_not_need(module: str, unwanted: str) -> None:
    script = f"import sys, {module}; print(*(name for name in {unwanted.split()} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert loaded.stdout.split() == []


BARE_SYSTEM = """
import os, signal, socket, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "uvloop"):
    sys.modules[name] = None
kept = {"O_RDONLY", "O_WRONLY", "O_RDWR", "O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND"}
lacking = {os: {name for name in dir(os) if name.startswith("O_")} - kept | {"getuid", "killpg", "pread", "setsid"},
           signal: {"SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1"}, socket: {"AF_UNIX"}}
for module, names in lacking.items():
    for name in names & set(dir(module)):
        delattr(module, name)
"""
"""Takes away what a system that is no Unix does not have."""


@pytest.mark.parametrize(
    "module", ["wire", "bus", "bus.zeromq", "server", "agent", "agent.sync", "cli.server", "cli.agent"]
)
def test_server_and_agent_need_nothing_that_only_unix_has(module: str) -> None:
    script = f"{BARE_SYSTEM}\nimport {PACKAGE}.{module}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
