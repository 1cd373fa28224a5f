"""Places that a start never gave back are taken back in time."""

from __future__ import annotations

import anyio
import pytest

from smcp_runtime.actors.reconcile.running.start_gate import StartGate
from smcp_runtime.actors.reconcile.running.start_places import StartPlaces

pytestmark = pytest.mark.anyio


@pytest.mark.spec("DEC-3")
async def test_a_place_that_outlives_its_budget_goes_to_the_next_in_line() -> None:
    places = StartPlaces(StartGate(most=1, budget=0.05), anyio.current_time)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(places.run)
            await places.take("hangs", "")
            await places.take("next", "")
            group.cancel_scope.cancel()
