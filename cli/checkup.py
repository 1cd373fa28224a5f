"""The checks of `smcp doctor`: each looks at one thing and says what it found and what to do about it.

They change nothing, start nothing, and every wait in them is bounded.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from ..actors.reconcile.composition import Picture
from ..actors.reconcile.config.directories import Directories
from ..actors.reconcile.config.server_entry import ServerEntry
from ..actors.reconcile.server_set import SetEntry
from ..wire.protocol import PROTOCOL_VERSION

PATIENCE = 3.0
"""Seconds for any answer from a network."""

OLDEST_PYTHON = (3, 11)

PACKAGES = ("anyio", "mcp", "msgspec", "python-engineio", "python-socketio", "pyzmq")

TESTED = {"mcp": "2.", "python-engineio": "4.", "python-socketio": "5."}
"""Release lines that the suite runs against; others may work."""

LAUNCHERS = {
    "npx": "install Node.js, which brings npx",
    "npm": "install Node.js, which brings npm",
    "uvx": "install uv: pip install uv",
    "uv": "install uv: pip install uv",
    "docker": "install Docker and start its service",
    "podman": "install podman",
    "node": "install Node.js",
    "python": "use python3, or give the full path of the interpreter",
}

FILES_PER_SERVER = 16
FILES_OF_OUR_OWN = 128

Level = Literal["ok", "warning", "problem"]


class Found(NamedTuple):
    """One result: what was looked at, how it is, and what to do (empty when nothing is)."""

    level: Level
    subject: str
    text: str
    advice: str = ""


def check_versions(python: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Found]:
    """Interpreter and packages."""
    text = ".".join(map(str, python))
    if python < OLDEST_PYTHON:
        yield Found("problem", "python", f"{text} is too old", "use Python 3.11 or newer")
    else:
        yield Found("ok", "python", text)
    for name in PACKAGES:
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Found("problem", name, "is not installed", "pip install smcp-runtime")
            continue
        line = TESTED.get(name)
        if line is not None and not found.startswith(line):
            yield Found("warning", name, f"{found} is not a release this was tested with", f"use {name} {line}x")
        else:
            yield Found("ok", name, found)


def is_here(picture: Picture, bundle_id: str) -> bool:
    """Whether a server is started on this machine, rather than wherever its worker is."""
    return picture.policies[bundle_id].placement != "external"


def check_server(member: SetEntry, environ: Mapping[str, str], *, here: bool = True) -> Iterator[Found]:
    """What one MCP server needs to start: its command and directory, or somebody who listens.

    Args:
        here: Whether it is started on this machine.
    """
    entry = member.entry
    if entry.disabled or not member.may_run:
        yield Found("ok", entry.bundle_id, "is not started: disabled, or not approved")
        return
    if not here:
        yield Found("ok", entry.bundle_id, "starts where its worker runs")
        return
    if entry.type != "stdio":
        yield _listener(entry.bundle_id, entry.parameters["url"])
    yield from check_launch(entry, environ)


def check_launch(entry: ServerEntry, environ: Mapping[str, str]) -> Iterator[Found]:
    """What a server that is a process needs of this machine: its command and directory."""
    if entry.type != "stdio":
        return
    own, cwd = entry.parameters["env"] or {}, entry.parameters["cwd"] or ""
    path = own.get("PATH", environ.get("PATH", os.defpath))
    yield _command(entry.bundle_id, entry.parameters["command"], path, cwd)
    if cwd and "${" not in cwd and not Path(cwd).is_dir():
        yield Found("problem", entry.bundle_id, f"its directory {cwd} does not exist", "correct cwd")


def _command(subject: str, command: str, path: str, cwd: str) -> Found:
    is_path = bool(os.path.dirname(command))
    # A path counts from the directory of the server, a mere name is looked up.
    wanted = os.path.join(cwd, command) if is_path else command
    if "${" in wanted or ("${" in path and not is_path):
        return Found("ok", subject, "its command depends on an input or a variable")
    where = shutil.which(wanted, path=path)
    if where is not None:
        return Found("ok", subject, f"runs {where}")
    if is_path:
        problem = "is not executable" if os.path.exists(wanted) else "does not exist"
        return Found("problem", subject, f"{wanted} {problem}", "correct the path, or chmod +x it")
    advice = LAUNCHERS.get(command, "install it, or give its full path")
    return Found("problem", subject, f"command {command} is not on PATH", advice)


def check_values(lacks: Mapping[str, Iterable[str]]) -> Iterator[Found]:
    """Inputs without a value, by server; a start at a terminal would ask for them."""
    for bundle_id, lines in lacks.items():
        for line in lines:
            yield Found("warning", bundle_id, line, "or start it at a terminal, which asks")


def _listener(subject: str, url: str) -> Found:
    parts = urlsplit(url)
    if "${" in url or not parts.hostname:
        return Found("ok", subject, "its URL depends on an input or a variable")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=PATIENCE).close()
    except OSError as error:
        text = f"nobody answers at {parts.hostname}:{port} ({_reason(error)})"
        return Found("problem", subject, text, "start that server, or correct the URL")
    return Found("ok", subject, f"{parts.hostname}:{port} answers")


def check_places(places: Directories) -> Iterator[Found]:
    """The directories a Computer keeps things in: usable, and nobody else's business."""
    for subject, path in (("home", places.home), ("state", places.state), ("user configuration", places.user_config)):
        existing = path if path.exists() else _nearest(path)
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            yield Found("problem", subject, f"{path} cannot be written to", f"make {existing} a writable directory")
            continue
        if not path.exists():
            yield Found("ok", subject, f"{path} will be made")
        elif path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield Found("warning", subject, f"others may write to {path}", f"chmod go-w {path}")
        else:
            yield Found("ok", subject, str(path))
    yield from _open_secrets(places.state)


def _open_secrets(state: Path) -> Iterator[Found]:
    try:
        names = sorted(path for path in state.iterdir() if path.suffix in (".key", ".json"))
    except OSError:
        return
    for path in names:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Found("warning", "state", f"others may read {path}", f"chmod 600 {path}")


def _nearest(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.exists())


def check_limits(servers: int) -> Found:
    """Open files this many servers may need."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return Found("ok", "open files", "this system sets no limit of its own")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = FILES_OF_OUR_OWN + FILES_PER_SERVER * servers
    if soft != resource.RLIM_INFINITY and soft < needed:
        text = f"{soft} are allowed, {servers} servers may need {needed}"
        return Found("warning", "open files", text, f"ulimit -n {needed}")
    return Found("ok", "open files", "enough")


def check_port(host: str, port: int) -> Found:
    """Whether a Server could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Found("problem", f"port {port}", f"cannot be used ({_reason(error)})", "free it, or choose another")
    return Found("ok", f"port {port}", f"free on {host}")


def check_signalling(url: str, socketio_path: str) -> Found:
    """Whether a Server answers at a URL, and speaks our version. Credentials are not tried."""
    parts = urlsplit(url)
    connection_type = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Found("problem", "server", "the URL is not http:// or https:// with a host", "correct --url")
    connection = connection_type(parts.hostname, parts.port, timeout=PATIENCE)
    path = f"/{socketio_path.strip('/')}/?EIO=4&transport=polling&a2c_version={PROTOCOL_VERSION}"
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(4096)
    except (OSError, http.client.HTTPException) as error:
        return Found("problem", "server", f"{url} does not answer ({_reason(error)})", "start it, or correct --url")
    finally:
        connection.close()
    if answer.status == 200:
        return Found("ok", "server", f"{url} answers and accepts version {PROTOCOL_VERSION}")
    refusal = _refusal(body)
    if refusal.get("code") == 4008:
        span = f"{refusal.get('min_supported')} to {refusal.get('max_supported')}"
        return Found("problem", "server", f"speaks {span}, not {PROTOCOL_VERSION}", "update the older of the two")
    advice = "check --url and --socketio-path"
    return Found("problem", "server", f"answers status {answer.status}: no A2C Server at that path", advice)


def _refusal(body: bytes) -> dict[str, Any]:
    try:
        refusal = json.loads(body)
    except ValueError:
        return {}
    return refusal if isinstance(refusal, dict) else {}


def _reason(error: Exception) -> str:
    """The system's words for an error, without an address that may hold credentials."""
    return getattr(error, "strerror", None) or type(error).__name__


def worst(results: Iterable[Found]) -> Level:
    """The gravest level among results."""
    levels = {found.level for found in results}
    return "problem" if "problem" in levels else "warning" if "warning" in levels else "ok"
