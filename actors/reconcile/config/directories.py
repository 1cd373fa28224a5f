"""Where a Computer keeps things (R-FILE-1): pure resolution, nothing is created here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

if sys.platform != "win32":
    import pwd

from .options import RuntimeOptions


class Directories(msgspec.Struct, frozen=True):
    """Resolved absolute places."""

    home: Path
    user_config: Path
    state: Path
    blob_cache: Path
    managed: Path


def resolve(options: RuntimeOptions, *, user_home: str | None = None, platform: str = sys.platform) -> Directories:
    """The places of a run: option, then variable, then default. An XDG variable counts only when it is absolute."""
    environ = options.environ
    base = user_home if user_home is not None else home_of_user(environ)

    def place(option: str | None, xdg: str, below: str, default: str) -> Path:
        if option:
            return _expanded(option, base)
        root = environ.get(xdg, "")
        return _expanded(os.path.join(root, below) if os.path.isabs(root) else default, base)

    return Directories(
        home=place(options.home or environ.get("A2C_SKILL_HOME"), "XDG_DATA_HOME", "a2c/skills", "~/.a2c/skills"),
        user_config=place(options.user_config_dir, "XDG_CONFIG_HOME", "a2c", "~/.config/a2c"),
        state=place(options.state_dir, "XDG_STATE_HOME", "a2c", "~/.local/state/a2c"),
        blob_cache=_expanded(options.blob_cache_root or "~/.a2c", base),
        managed=Path(_MANAGED.get(platform, "/etc/a2c-computer")),
    )


def bus_keys(options: RuntimeOptions) -> Path | None:
    """Where the keys of the bus lie: where it was said, else `bus-keys` beside the user's settings for an endpoint
    that cannot do without; `None` for none."""
    if options.bus_keys is not None:
        return _expanded(options.bus_keys, home_of_user(options.environ))
    if options.bus is not None and options.bus.startswith("tcp://"):
        return resolve(options).user_config / "bus-keys"
    return None


def home_of_user(environ: Mapping[str, str]) -> str:
    """The home directory as the given environment sees it, or else the system.

    An empty or relative `HOME` is none: what belongs to the user would lie under the root, or wherever one stands.
    """
    named = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")
    if os.path.isabs(named):
        return named
    if sys.platform == "win32":
        return os.path.expanduser("~")
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user whom only a container knows
        return os.sep


_MANAGED = {"darwin": "/Library/Application Support/A2CComputer", "win32": r"C:\Program Files\A2CComputer"}


def _expanded(path: str, user_home: str) -> Path:
    if path == "~" or path.startswith(("~/", "~\\")):
        path = user_home + path[1:]
    return Path(os.path.realpath(path))
