"""What a new life learns of what there is to announce, with a stand-in for who knows it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from smcp_runtime.actors.socket import announcer
from smcp_runtime.actors.socket.announcer import Announcer
from smcp_runtime.actors.socket.settings import SocketSettings
from smcp_runtime.wire.errors import ActorLost, BusError, DeadlineExceeded, Overloaded
from smcp_runtime.wire.messages.projection import Committed, ProjectionStatus

pytestmark = pytest.mark.anyio


class Knowing:
    """Refuses in these ways first, then answers; `meanwhile` is a commit that is heard before each answer."""

    def __init__(self, *refusals: BusError, meanwhile: Committed | None = None) -> None:
        self._refusals = list(refusals)
        self._meanwhile = meanwhile
        clock = itertools.count()
        settings = SocketSettings(computer="desk")
        self.announcer = Announcer(settings, ask=self.answer, now=lambda: float(next(clock)), link=lambda: None)

    async def answer(self, *_: Any, **__: Any) -> Any:
        if self._refusals:
            raise self._refusals.pop(0)
        if self._meanwhile is not None:
            self.announcer.committed(self._meanwhile)
        return ProjectionStatus(3, filled=("config", "desktop"))


@pytest.mark.spec("DEC-27")
async def test_who_is_slow_to_say_what_there_is_gets_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcer, "ASK_AGAIN", 0.0)
    knowing = Knowing(DeadlineExceeded("late"), Overloaded("full"))
    await knowing.announcer.catch_up()
    assert knowing.announcer.owed == ("config", "desktop")


@pytest.mark.spec("DEC-27")
async def test_who_is_down_is_not_asked_again_because_its_next_life_begins_with_a_commit() -> None:
    knowing = Knowing(ActorLost("down"))
    await knowing.announcer.catch_up()
    assert knowing.announcer.owed == ()
    knowing.announcer.committed(Committed(3, (), ("skills",)))
    assert knowing.announcer.owed == ("skills",)


@pytest.mark.spec("DEC-27")
async def test_a_commit_heard_first_makes_the_answer_old() -> None:
    knowing = Knowing(meanwhile=Committed(4, ("config",), ("config",)))
    await knowing.announcer.catch_up()
    assert knowing.announcer.owed == ("config",)
    knowing.announcer.committed(Committed(5, (), ("config", "finder")))
    assert knowing.announcer.owed == ("config",)
