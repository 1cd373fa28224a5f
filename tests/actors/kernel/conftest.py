from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from smcp_runtime.actors.kernel import ChildSpec, RestartPolicy, Supervisor
from smcp_runtime.bus import Bus
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address

from .sample import Sample

QUICK = RestartPolicy(backoff=Backoff(initial=0.001, longest=0.01), max_restarts=3, park_retry=0)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with Bus() as bus:
        yield bus


@pytest.fixture
async def supervisor(bus: Bus) -> AsyncIterator[Supervisor]:
    async with Supervisor(bus) as supervisor:
        yield supervisor


Start = Callable[..., "object"]


class Nursery:
    """Starts samples and remembers the object of each life, so that a test can look inside."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.lives: dict[str, list[Sample]] = {}

    async def start(self, name: str = "a", **spec: object) -> Sample:
        lives = self.lives.setdefault(name, [])

        def make() -> Sample:
            lives.append(Sample())
            return lives[-1]

        settings = {"policy": QUICK, **spec}
        await self.supervisor.start_child(ChildSpec(Address(name), make, **settings))  # type: ignore[arg-type]
        return lives[-1]


@pytest.fixture
def nursery(supervisor: Supervisor) -> Nursery:
    return Nursery(supervisor)
