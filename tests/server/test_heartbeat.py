"""The heartbeat of the threaded Server, on a clock we move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smcp_runtime.server.engine_parts import PING
from smcp_runtime.server.limits import Limits
from smcp_runtime.server.sync_clock import Clock, Timer
from smcp_runtime.server.sync_engine import SyncEngine, SyncSocket


class MovedClock(Clock):
    """Runs what is due when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0
        self._due: list[tuple[float, Timer]] = []

    def now(self) -> float:
        return self._at

    def call_at(self, at: float, function: Callable[[], None]) -> Timer:
        timer = Timer(function)
        self._due.append((at, timer))
        return timer

    def move(self, seconds: float) -> None:
        self._at += seconds
        due = [timer for at, timer in self._due if at <= self._at]
        self._due = [(at, timer) for at, timer in self._due if at > self._at]
        for timer in due:
            timer.run()


class Brisk(SyncSocket):
    """A connection whose peer answers a PING before the thread that sent it goes on."""

    def push(self, frame: str) -> None:
        super().push(frame)
        if frame == PING:
            self._take("3")


def opened(kind: type[SyncSocket], clock: Clock) -> SyncSocket:
    engine = SyncEngine(async_mode="threading", ping_interval=25, ping_timeout=20)
    engine.set_up(Limits(), lambda _socket, _frame: None, lambda _socket: None, clock)
    socket = kind(engine, "sid", "127.0.0.1")
    socket.schedule_ping()
    return socket


@pytest.mark.spec("W-ARCH-2", "W-ARCH-7")
def test_a_peer_that_answers_while_the_ping_is_being_sent_stays() -> None:
    clock = MovedClock()
    peer = opened(Brisk, clock)
    for _ in range(3):
        clock.move(25)  # the PING, and its answer
        clock.move(20)  # when one without an answer would cost the connection
        assert not peer.closed


@pytest.mark.spec("W-ROOM-25", "W-ARCH-7")
def test_a_peer_that_does_not_answer_a_ping_is_gone_when_its_time_is_over() -> None:
    clock = MovedClock()
    peer = opened(SyncSocket, clock)
    clock.move(25)
    clock.move(19)
    assert not peer.closed
    clock.move(1)
    assert peer.closed
