"""Everything a run reads from disk, at its start and when it is told to look again. Blocking; call it in a thread.

What was named explicitly fails as a whole and is read once; what merely lies around is read
with tolerance, and again on demand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from . import directories
from .approval.approved import read_approved
from .computer_config import ComputerConfig
from .layers import read_flag_files, read_flag_settings
from .options import RuntimeOptions
from .scopes.ambient import Ambient, load_ambient
from .scopes.places import Places, places_of
from .scopes.settings import Settings, SettingsLayer, embed_settings, merge
from .server_set import Layer


class Loaded(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
        approved: Shapes that were approved, by fingerprint, to show a difference (DEC-32).
    """

    ambient: Ambient = Ambient()
    flags: tuple[Layer, ...] = ()
    flag_settings: SettingsLayer | None = None
    approved: dict[str, dict[str, Any]] = {}


def places_for(options: RuntimeOptions) -> Places:
    """The files of a run; `options` are settled."""
    return places_of(directories.resolve(options), options.project_root or ".")


def load_all(options: RuntimeOptions) -> Loaded:
    """Reads everything.

    Raises:
        ConfigValidationError, ConflictError, PolicyError: A flag file is missing or faulty (R-SCOPE-3).
    """
    label = options.flag_settings
    values = read_flag_settings(label)
    flags = read_flag_files(tuple(options.flag_mcp_config))
    layer = None if label is None else SettingsLayer("flag", label, values)
    return load_again(options, Loaded(flags=flags, flag_settings=layer))


def load_again(options: RuntimeOptions, before: Loaded) -> Loaded:
    """Reads the ambient files again; the flag files stay as they were read."""
    places = places_for(options)
    ambient = load_ambient(places, options.policy_source, before.ambient)
    return msgspec.structs.replace(before, ambient=ambient, approved=read_approved(places.state))


def settings_of(config: ComputerConfig, loaded: Loaded) -> Settings:
    """The settings of all scopes (R-SCOPE-6)."""
    flagged = () if loaded.flag_settings is None else (loaded.flag_settings,)
    return merge((*loaded.ambient.settings, embed_settings(config), *flagged))


def differences_on_disk(ambient: Ambient, again: Ambient) -> dict[str, str]:
    """What happened to each file since it was read: added, changed, removed (R-PLUGIN-26)."""
    found = {}
    for path, revision in again.revisions.items():
        before = ambient.revisions.get(path)
        if before != revision or (path in again.losses) != (path in ambient.losses):
            found[path] = "added" if before is None else "removed" if revision is None else "changed"
    return found
