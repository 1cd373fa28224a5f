"""The table of a Computer's life: every operation in every phase, and the numbers observers see."""

from __future__ import annotations

from typing import get_args

import pytest

from smcp_runtime.wire.errors import ConflictError
from smcp_runtime.wire.lifecycle import Lifecycle, Operation, Phase, admit

SETTLED: tuple[Phase, ...] = (
    "created", "started", "connecting", "connected", "joined_office", "stopped", "shutdown", "error",
)  # fmt: skip
"""Phases an operation can meet: the others last no longer than an operation, and those run one after another."""

# One row per operation, one column per phase of SETTLED. "!" is a conflict.
TABLE: dict[Operation, str] = {
    "start":       "go    no_op no_op no_op no_op go    !     go",
    "connect":     "!     go    no_op no_op no_op !     !     !",
    "join":        "!     !     !     go    no_op !     !     !",
    "leave":       "no_op no_op no_op no_op go    no_op no_op no_op",
    "disconnect":  "no_op no_op go    go    go    no_op no_op no_op",
    "sync_config": "replace go  !     go    go    replace !   replace",
    "manage":      "!     go    go    go    go    !     !     !",
    "stop":        "no_op go    go    go    go    no_op no_op go",
    "shutdown":    "go    go    go    go    go    go    no_op go",
}  # fmt: skip
CASES = [
    (operation, phase, verdict)
    for operation, row in TABLE.items()
    for phase, verdict in zip(SETTLED, row.split(), strict=True)
]


@pytest.mark.spec("R-LIFE-4")
@pytest.mark.parametrize(("operation", "phase", "verdict"), CASES, ids=str)
def test_each_operation_does_in_each_phase_what_the_table_says(
    operation: Operation, phase: Phase, verdict: str
) -> None:
    if verdict != "!":
        assert admit(operation, phase) == verdict
        return
    with pytest.raises(ConflictError) as refused:
        admit(operation, phase)
    assert refused.value.code == "lifecycle"
    assert not refused.value.retryable


def test_the_table_names_every_operation() -> None:
    assert set(TABLE) == set(get_args(Operation))


@pytest.mark.spec("R-LIFE-4")
@pytest.mark.parametrize("phase", ["connecting", "connected", "joined_office"])
def test_connecting_to_another_server_while_online_is_a_conflict(phase: Phase) -> None:
    with pytest.raises(ConflictError):
        admit("connect", phase, same_target=False)


@pytest.mark.spec("R-LIFE-4")
def test_joining_another_office_means_leaving_the_present_one_first() -> None:
    assert admit("join", "joined_office", same_office=False) == "switch"


@pytest.mark.spec("R-LIFE-13")
def test_leaving_while_a_lost_connection_is_repaired_gives_up_the_wish_to_return() -> None:
    assert admit("leave", "connecting", wished=True) == "go"


@pytest.mark.spec("R-LIFE-1")
@pytest.mark.parametrize("phase", ["started", "connected", "joined_office"])
def test_an_open_degradation_shows_in_the_phases_that_serve(phase: Phase) -> None:
    life = Lifecycle()
    life.enter(phase, at=1.0)
    change = life.degrade(degraded=True, at=2.0)
    assert change is not None
    assert (change.phase, change.state) == (phase, "degraded")
    assert (life.phase, life.state) == (phase, "degraded")


@pytest.mark.spec("R-LIFE-1")
@pytest.mark.parametrize("phase", ["starting", "connecting", "syncing", "stopping", "stopped", "error"])
def test_an_open_degradation_does_not_show_in_any_other_phase(phase: Phase) -> None:
    life = Lifecycle()
    life.enter(phase, at=1.0)
    assert life.degrade(degraded=True, at=2.0) is None
    assert life.state == phase


@pytest.mark.spec("R-LIFE-26")
def test_changes_are_numbered_without_gaps_and_a_repeated_phase_is_no_change() -> None:
    life = Lifecycle()
    steps = [life.enter("starting", 1.0), life.enter("started", 2.0), life.enter("started", 3.0)]
    assert [change.sequence for change in steps if change] == [1, 2]
    assert life.sequence == 2
    assert life.degrade(degraded=True, at=4.0).sequence == 3  # type: ignore[union-attr]
    assert life.degrade(degraded=True, at=5.0) is None
    assert life.enter("connecting", 6.0).state == "connecting"  # type: ignore[union-attr]
    assert life.enter("connected", 7.0).state == "degraded"  # type: ignore[union-attr]
    assert life.sequence == 5
