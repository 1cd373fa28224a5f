from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from .worlds import KINDS, World, world

OpenWorld = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Transport of a contract test."""
    return str(request.param)


@pytest.fixture
def open_world(kind: str) -> OpenWorld:
    """Opens the two ends of a bus on the transport of this test."""
    return partial(world, kind)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of the transport; asyncio for tests that name none."""
    return KINDS[request.getfixturevalue("kind")] if "kind" in request.fixturenames else "asyncio"
