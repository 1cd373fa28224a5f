"""What the runtime believes about its connection, whatever order it hears things in."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.socket.standing import Standing, Wish
from smcp_runtime.wire.errors import Failure
from smcp_runtime.wire.messages.socket import LinkChanged, LinkStatus, LinkTarget

TARGET = LinkTarget("http://s")
REFUSED = Failure("ProtocolVersionError", "m", "protocol_version")


def joined() -> Standing:
    standing = Standing()
    standing.connecting(TARGET)
    standing.reported(LinkStatus("joined", change=3, office="lab"))
    return standing


@pytest.mark.spec("R-LIFE-26")
def test_a_fact_older_than_an_answer_changes_nothing() -> None:
    standing = joined()
    assert not standing.learned(LinkChanged(2, "connected", 1))
    assert not standing.learned(LinkChanged(3, "joined", 1, "lab"))
    assert standing.phase == "joined_office"


@pytest.mark.spec("R-LIFE-13")
def test_a_lost_connection_keeps_the_wish_and_a_restored_one_fulfils_it() -> None:
    standing = joined()
    assert standing.learned(LinkChanged(4, "connecting", 1, "lab", error=Failure("NetworkError", "m", "network")))
    assert (standing.phase, standing.office) == ("connecting", None)
    assert standing.wish == Wish(TARGET, "lab")
    assert standing.failure is not None
    standing.learned(LinkChanged(5, "connected", 2, "lab"))
    assert (standing.wish.office, standing.turned_away) == ("lab", False)
    standing.learned(LinkChanged(6, "joined", 2, "lab", restored=True))
    assert (standing.phase, standing.office, standing.failure) == ("joined_office", "lab", None)


@pytest.mark.spec("DEC-17", "R-LIFE-12")
def test_a_rejoin_that_was_given_up_ends_the_wish_for_the_office_and_says_why() -> None:
    standing = joined()
    standing.learned(LinkChanged(5, "connected", 2, None, error=Failure("PolicyError", "m", "join_failed")))
    assert (standing.phase, standing.wish) == ("connected", Wish(TARGET))
    assert standing.failure is not None
    assert (standing.failure.code, standing.turned_away) == ("join_failed", True)


@pytest.mark.spec("R-LIFE-12")
def test_a_refusal_that_ends_the_link_ends_every_wish() -> None:
    standing = joined()
    standing.learned(LinkChanged(5, "offline", 2, error=REFUSED))
    assert (standing.phase, standing.wish, standing.failure) == ("started", Wish(), REFUSED)
    assert standing.turned_away


@pytest.mark.spec("R-LIFE-14")
def test_leaving_and_disconnecting_end_the_wishes_they_name() -> None:
    standing = joined()
    standing.left()
    assert (standing.phase, standing.wish) == ("connected", Wish(TARGET))
    assert not standing.turned_away
    standing.ended()
    assert (standing.phase, standing.wish, standing.turned_away) == ("started", Wish(), False)


@pytest.mark.spec("R-LIFE-13")
def test_leaving_while_the_connection_is_being_repaired_gives_up_the_office_only() -> None:
    standing = joined()
    standing.learned(LinkChanged(4, "connecting", 1, "lab"))
    standing.left()
    assert (standing.phase, standing.wish) == ("connecting", Wish(TARGET))


@pytest.mark.spec("DEC-1")
def test_a_dead_actor_means_connecting_as_long_as_another_life_will_restore_the_wish() -> None:
    standing = joined()
    standing.actor_down(returns=True)
    assert (standing.phase, standing.wish) == ("connecting", Wish(TARGET, "lab"))
    assert not standing.turned_away
    standing.actor_down(returns=False)
    assert (standing.phase, standing.turned_away) == ("started", True)
    idle = Standing()
    idle.actor_down(returns=True)
    assert idle.phase == "started"


def test_a_refused_first_connection_leaves_no_wish() -> None:
    standing = Standing()
    standing.connecting(TARGET)
    standing.refused()
    assert (standing.phase, standing.wish) == ("started", Wish())


@pytest.mark.spec("R-LIFE-5")
def test_what_an_interrupted_attempt_had_to_say_is_not_believed() -> None:
    standing = Standing()
    standing.connecting(TARGET)
    standing.refused()
    assert not standing.learned(LinkChanged(1, "connecting", 0))
    assert standing.phase == "started"
