"""Imports the MCP library when the first session needs it, while its server is still starting.

It takes most of a second, which a Computer without a running server need not pay, and which on one with
servers passes beside their own start.
"""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sdk.client import Client


async def client_class() -> type[Client]:
    """The class whose import brings the library. The import is one for the process and runs in a thread of its own."""
    return await asyncio.shield(asyncio.wrap_future(_import_begun()))


@functools.cache
def _import_begun() -> Future[type[Client]]:
    with_own_thread = ThreadPoolExecutor(1, thread_name_prefix="mcp-import")
    imported = with_own_thread.submit(_import)
    with_own_thread.shutdown(wait=False)
    return imported


def _import() -> type[Client]:
    from .sdk.client import Client  # noqa: PLC0415 - the purpose of this module

    return Client
