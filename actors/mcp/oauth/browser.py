"""Showing a person a page: the application's own way, or the browser of this machine."""

from __future__ import annotations

import inspect
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ....wire.errors import AuthError


def shown_by(hook: Callable[..., Any] | None) -> Callable[[str, str], Awaitable[None]]:
    """How a page is shown for a server.

    Args:
        hook: Called with bundle_id and URL, plain or as a coroutine function.
    """

    async def show(bundle_id: str, url: str) -> None:
        if hook is not None:
            answer = hook(bundle_id, url)
            if inspect.isawaitable(answer):
                await answer
            return
        # A browser in a terminal keeps its caller until it ends.
        if not await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True):
            raise AuthError(
                f"there is no browser here to authorize {bundle_id} in", code="no_browser", bundle_id=bundle_id
            )

    return show
