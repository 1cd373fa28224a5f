"""Everything a run reads from disk, at its start and when it is told to look again. Blocking; call it in a thread.

What was named explicitly fails a start as a whole, what merely lies around is read with
tolerance. Both are read again on demand, and what is broken by then counts as it was.
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
from .scopes.ambient import Ambient, load_ambient
from .scopes.flags import Flags, read_flags, read_flags_again
from .scopes.places import Places, places_of
from .scopes.settings import Settings, embed_settings, merge


class Loaded(msgspec.Struct, frozen=True):
    """What was read.

    Attributes:
        approved: Shapes that were approved, by fingerprint, to show a difference (DEC-32).
        plugins: What is installed, made ready.
    """

    ambient: Ambient = Ambient()
    flags: Flags = Flags()
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
    return _read(options, read_flags(tuple(options.flag_mcp_config), options.flag_settings), Loaded())


def load_again(options: RuntimeOptions, before: Loaded) -> Loaded:
    """Reads all files again; one that turned bad counts as it was read `before` (F-66)."""
    return _read(options, read_flags_again(before.flags), before)


def _read(options: RuntimeOptions, flags: Flags, before: Loaded) -> Loaded:
    places = places_for(options)
    ambient = load_ambient(places, options.policy_source, before.ambient)
    return msgspec.structs.replace(before, ambient=ambient, flags=flags, approved=read_approved(places.state))


def settings_of(config: ComputerConfig, loaded: Loaded) -> Settings:
    """The settings of all scopes (R-SCOPE-6)."""
    return merge((*loaded.ambient.settings, embed_settings(config), *loaded.flags.settings_layers))


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


def differences_on_disk(loaded: Loaded, again: Loaded) -> dict[str, str]:
    """What happened to each file since it was read: added, changed, removed (R-PLUGIN-26)."""
    found = {}
    for was, now in ((loaded.ambient, again.ambient), (loaded.flags, again.flags)):
        for path, revision in now.revisions.items():
            before = was.revisions.get(path)
            if before != revision or (path in now.losses) != (path in was.losses):
                found[path] = "added" if before is None else "removed" if revision is None else "changed"
    return found
