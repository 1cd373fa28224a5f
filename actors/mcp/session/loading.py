"""Imports the MCP library when the first session needs it, while its server is still starting.

It takes most of a second, which a Computer without a running server need not pay, and which on one with
servers passes beside their own start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....bus.deferred import Deferred

if TYPE_CHECKING:
    from .sdk.client import Client


def _import() -> type[Client]:
    from .sdk.client import Client  # noqa: PLC0415 - the purpose of this module

    return Client


client_class = Deferred(_import)
"""The class whose import brings the library."""
