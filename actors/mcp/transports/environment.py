"""The environment of a child process: a safe base, with the plan's own values on top (R-MCP-3, F-39).

The Computer's full environment never reaches a server; single variables come in through `${env:…}`,
which is resolved before a plan gets here.
"""

from __future__ import annotations

from collections.abc import Mapping

POSIX_BASE = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
WINDOWS_BASE = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
)


def child_environment(host: Mapping[str, str], explicit: Mapping[str, str], *, windows: bool = False) -> dict[str, str]:
    """What a server is started with; `explicit` wins over the base taken from `host`.

    A shell function that the host exports under a base name is left out: it is code, not a value.
    """
    base = WINDOWS_BASE if windows else POSIX_BASE
    kept = {name: host[name] for name in base if name in host and not host[name].startswith("()")}
    return {**kept, **explicit}
