"""A running Server of each kind; every test that takes `server` or `kind` proves one wire for all (W-ARCH-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.servers import KINDS, Serving, serving


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The stack the Server runs on."""
    return str(request.param)


@pytest.fixture
async def server(kind: str, anyio_backend: str) -> AsyncIterator[Serving]:
    """A Server with default options that lets everybody in."""
    async with serving(kind) as running:
        yield running
