"""When requests are executed at all."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.socket.membership import Membership


@pytest.mark.spec("R-LIFE-3", "W-ROOM-31")
def test_requests_are_served_from_the_moment_a_join_is_sent_and_no_longer_once_it_failed() -> None:
    gate = Membership()
    gate.moved("connected", wished=False)
    assert not gate.serving
    gate.asked()
    assert gate.serving
    gate.answered()
    assert not gate.serving


@pytest.mark.spec("R-LIFE-3", "R-LIFE-13")
def test_after_a_reconnect_requests_are_served_while_the_wish_is_replayed() -> None:
    gate = Membership()
    gate.moved("joined", wished=True)
    assert gate.serving
    gate.moved("connecting", wished=True)
    assert not gate.serving
    gate.moved("connected", wished=True)
    assert gate.serving


@pytest.mark.spec("R-LIFE-3", "R-LIFE-14")
def test_outside_an_office_nothing_is_served() -> None:
    gate = Membership()
    assert not gate.serving
    gate.moved("joined", wished=True)
    gate.moved("connected", wished=False)
    assert not gate.serving
    gate.moved("offline", wished=False)
    assert not gate.serving


@pytest.mark.spec("DEC-26")
def test_a_drain_shuts_the_gate_before_the_office_is_left() -> None:
    gate = Membership()
    gate.moved("joined", wished=True)
    gate.draining = True
    assert not gate.serving
    gate.draining = False
    assert gate.serving
