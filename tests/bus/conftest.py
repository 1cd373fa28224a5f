from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

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
def private() -> Iterator[Path]:
    """A directory no one else may enter; its path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="bus-") as directory:
        yield Path(directory)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """The event loop of the transport; asyncio for tests that name none."""
    return KINDS[request.getfixturevalue("kind")] if "kind" in request.fixturenames else "asyncio"
