"""Which era of the protocol a server speaks: asked in the newer way first, in the older one beside it if need be.

A server of both eras announces changes and takes subscriptions only in the newer one, so that is
preferred. A server that leaves unknown requests unanswered must not cost the whole time limit of the
question, so after a moment both are under way and the first useful answer decides. On stdio the server
reads them in order, which makes the choice its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from mcp import MCPError
from mcp.client.session import ClientSession
from pydantic import ValidationError

from ...failures import UnusableAnswer, UpstreamFailed


async def negotiate(client: ClientSession, *, patience: float, older_only: bool = False) -> None:
    """Settles era and version on `client`. Without a limit of its own.

    Args:
        patience: Seconds before the older handshake is tried beside the newer question.
        older_only: Sends nothing but the older handshake, for a server that ends when it sees anything else.
    Raises:
        MCPError: The server refused both ways; what it said to the older one.
        RequestFailed: The connection failed.
        pydantic.ValidationError, RuntimeError: It answered with what the protocol does not allow.
    """
    if older_only:
        await client.initialize()
        return
    newer = _start(_discover(client))
    older: asyncio.Task[Any] | None = None
    try:
        await asyncio.wait([newer], timeout=patience)
        if newer.done() and newer.result():
            return
        older = _start(client.initialize())
        pending = {task for task in (newer, older) if not task.done()}
        while True:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if older.done() and (newer.done() or older.exception() is None):
                if newer.done() and older.exception() is not None and newer.result():
                    return
                older.result()
                return
            if newer.done() and newer.result():
                return
            pending = {task for task in (newer, older) if not task.done()}
    finally:
        for task in (newer, older):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task


async def _discover(client: ClientSession) -> bool:
    """Whether the server speaks the newer era; failures of the connection pass through."""
    try:
        await client.discover()
    except (MCPError, ValidationError, RuntimeError, UpstreamFailed, UnusableAnswer):
        return False  # none of these says anything against the older handshake
    return True


def _start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work)
