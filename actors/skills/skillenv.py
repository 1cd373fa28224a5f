"""What a script of a skill may be given: where its package lies, and the user's values for it (C-SKILL-73, C-SKILL-74).

This Computer runs no scripts. An application that does reads the values here, so that they reach
the child process and nothing else: no argument list, no log, no Agent.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Final

from .publish import LOCAL_FILE

DIRECTORY_VARIABLE: Final = "TFROBOT_SKILL_DIR"
MAX_BYTES: Final = 1_048_576

_LINE: Final = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.ASCII)


def parse_skillenv(data: bytes) -> dict[str, str]:
    """The values in a `.skillenv`: lines `KEY=VALUE`, taken as they are; others are skipped, and never quoted."""
    found = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        if match is not None and "\0" not in match["value"] and "\ufffd" not in match["value"]:
            found[match["key"]] = match["value"]
    return found


def script_environment(package: str, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process that runs a script of a package. Blocking.

    Args:
        package: `path` of the skill's reference.
        base: What the child gets beside it.
    """
    return {**base, **_values(os.path.join(package, LOCAL_FILE)), DIRECTORY_VARIABLE: package}


def _values(path: str) -> dict[str, str]:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        fd = os.open(path, flags)
    except OSError:
        return {}
    with os.fdopen(fd, "rb") as file:
        return parse_skillenv(file.read(MAX_BYTES)) if stat.S_ISREG(os.fstat(fd).st_mode) else {}
