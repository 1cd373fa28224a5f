"""A real Server for Agent tests, and shorthand for the peers around it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from smcp_runtime.server.app import Running, serve
from smcp_runtime.server.auth import ANONYMOUS
from smcp_runtime.server.options import ServerOptions


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    """Our Server, open to everybody."""
    async with serve(options=ServerOptions(auth=ANONYMOUS)) as running:
        yield running
