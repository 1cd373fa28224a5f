"""Waiting for a condition that nothing announces: looked at often, and never for longer than asked."""

from __future__ import annotations

from collections.abc import Callable

import anyio

LOOK_EVERY = 0.005


async def until(condition: Callable[[], object], timeout: float = 5.0) -> None:
    """Returns once the condition holds.

    Raises:
        TimeoutError: It did not within `timeout` seconds.
    """
    with anyio.fail_after(timeout):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(LOOK_EVERY)
