"""Waiting for a condition that nothing announces: looked at often, and never for longer than asked."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import anyio

LOOK_EVERY = 0.005


async def until(condition: Callable[[], object | Awaitable[object]], timeout: float = 5.0) -> None:
    """Returns once the condition holds; a condition that is a coroutine function is awaited.

    Raises:
        TimeoutError: It did not within `timeout` seconds.
    """
    with anyio.fail_after(timeout):
        while True:
            held = condition()
            if await held if inspect.isawaitable(held) else held:
                return
            await anyio.sleep(LOOK_EVERY)
