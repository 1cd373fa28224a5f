"""Everything a run reads from disk, at its start and when it is told to look again. Blocking; call it in a thread.

What was named explicitly fails as a whole and is read once; what merely lies around is read
with tolerance, and again on demand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire.errors import SmcpError
from ..plugins.recovery import Recovered, migrate, recover
from ..plugins.site import Site
from .approval.approved import read_approved
from .config import directories
from .config.computer_config import ComputerConfig
from .config.options import RuntimeOptions
from .layers import read_flag_files, read_flag_settings
from .scopes.ambient import Ambient, load_ambient
from .scopes.places import Places, places_of
from .scopes.settings import Settings, SettingsLayer, embed_settings, merge
from .server_set import Layer


class Loaded(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
        approved: Shapes that were approved, by fingerprint, to show a difference (DEC-32).
        plugins: What is installed, made ready.
    """

    ambient: Ambient = Ambient()
    flags: tuple[Layer, ...] = ()
    flag_settings: SettingsLayer | None = None
    approved: dict[str, dict[str, Any]] = {}
    plugins: Recovered = Recovered()


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


def with_plugins(
    site: Site,
    options: RuntimeOptions,
    config: ComputerConfig,
    loaded: Loaded,
    *,
    boot: bool = False,
    refresh: frozenset[str] = frozenset(),
) -> Loaded:
    """What was read, with everything made ready that it calls installed. May take long: it may fetch.

    Args:
        boot: Whether this is the first time in a run: homes of earlier versions are migrated then.
        refresh: Marketplaces to bring up to date.
    """
    record = True
    notes: tuple[str, ...] = ()
    try:
        if migrate(site, settings_of(config, loaded)):
            loaded = load_again(options, loaded)
    except SmcpError as error:
        # Whoever reads the ledger next must still find what there is to migrate.
        record, notes = False, (f"the user's settings could not be migrated: {error.code}",)
    recovered = recover(site, settings_of(config, loaded), boot=boot, refresh=refresh, record=record)
    recovered = msgspec.structs.replace(recovered, notes=(*notes, *recovered.notes))
    return msgspec.structs.replace(loaded, plugins=recovered)


def differences_on_disk(ambient: Ambient, again: Ambient) -> dict[str, str]:
    """What happened to each file since it was read: added, changed, removed (R-PLUGIN-26)."""
    found = {}
    for path, revision in again.revisions.items():
        before = ambient.revisions.get(path)
        if before != revision or (path in again.losses) != (path in ambient.losses):
            found[path] = "added" if before is None else "removed" if revision is None else "changed"
    return found
