"""What the management commands work on when no Computer runs: the files of a user and a project, and their stores."""

from __future__ import annotations

from typing import NamedTuple

from ..actors.reconcile.computer_config import ComputerConfig
from ..actors.reconcile.loading import places_for
from ..actors.reconcile.options import RuntimeOptions, settle
from ..actors.reconcile.preview import Preview, preview
from ..actors.reconcile.scopes.places import Places
from ..actors.reconcile.values.chain import stores_of
from ..actors.reconcile.values.stores import Stores
from .computer import Sources

NOBODY = "computer"
"""A name for a Computer that nobody will ever see."""


class Desk(NamedTuple):
    """Everything a management command needs."""

    options: RuntimeOptions
    places: Places
    seen: Preview
    stores: Stores


def desk(sources: Sources) -> Desk:
    """The desk of this user in this directory, with the given flag files.

    Raises:
        SmcpError: A flag file is missing or faulty.
    """
    config = ComputerConfig(name=sources.name or NOBODY)
    options = settle(sources.options(), config)[0]
    places = places_for(options)
    return Desk(options, places, preview(config, options), stores_of(options, places.state, {}))
