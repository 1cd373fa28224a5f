"""Servers outside the Computer's process; every test leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.leftovers import nothing_left
from support.places import own_places

__all__ = ["own_places"]


@pytest.fixture(autouse=True)
async def clean(anyio_backend: str) -> AsyncIterator[None]:
    async with nothing_left():
        yield
