"""What servers said last, told apart by session."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.running.server_facts import ServerFacts
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.mcp import ResourcesListed, ServerStatus, ServerStatusChanged, ToolsListed

spec = pytest.mark.spec
ONE, TWO = b'[{"name":"one"}]', b'[{"name":"two"}]'


class Script:
    """Facts of one server in the order its actor publishes them."""

    def __init__(self) -> None:
        self.facts = ServerFacts()

    def status(self, connection: Any) -> Script:
        self.facts.take_status(ServerStatusChanged(ServerStatus("b", "started", connection)))
        return self

    def tools(self, session: int, items: bytes) -> Script:
        self.facts.take_tools(ToolsListed("b", session, Attachment(items)))
        return self

    def resources(self, session: int, items: bytes, **more: bool) -> Script:
        self.facts.take_resources(ResourcesListed("b", session, Attachment(items), **more))
        return self


def test_an_unknown_server_has_nothing_and_is_not_connected() -> None:
    assert ServerFacts().tools("b") == (b"[]", False)
    assert ServerFacts().status("b") is None


def test_a_connected_server_counts_once_it_was_listed() -> None:
    script = Script().status("connected")
    before = script.facts.tools("b")
    assert (before, script.tools(1, ONE).facts.tools("b")) == ((b"[]", False), (ONE, True))


@spec("DEC-4")
def test_what_comes_late_does_not_undo_what_was_said_after_it() -> None:
    script = Script().tools(7, ONE)
    connected, connecting = (ServerStatus("b", "started", state) for state in ("connected", "connecting"))
    assert script.facts.take_status(ServerStatusChanged(connected, 12))
    assert not script.facts.take_status(ServerStatusChanged(connecting, 11))
    assert script.tools(6, TWO).facts.tools("b") == (ONE, True)
    assert script.facts.take_status(ServerStatusChanged(connecting))  # said by somebody else, who knows of its end
    assert script.facts.take_status(ServerStatusChanged(connected, 11))


@spec("DEC-25")
def test_a_lost_server_keeps_its_last_full_listing() -> None:
    script = Script().status("connected").tools(1, ONE).tools(1, b"[]").status("error")
    assert script.facts.tools("b") == (ONE, False)


@spec("DEC-25")
def test_a_reconnected_server_is_lost_until_its_new_session_was_listed() -> None:
    script = Script().status("connected").tools(1, ONE).tools(1, b"[]").status("error").status("connected")
    lost = script.facts.tools("b")
    assert (lost, script.tools(2, TWO).facts.tools("b")) == ((ONE, False), (TWO, True))


def test_a_connected_server_may_have_no_tools() -> None:
    assert Script().status("connected").tools(1, b"[]").facts.tools("b") == (b"[]", True)


@spec("DEC-35")
def test_the_next_actor_of_a_server_counts_its_sessions_anew() -> None:
    script = Script().status("connected").tools(5, ONE)
    status = script.facts.actor_died("b", "backing_off", "killed", 9.0)
    assert (status.connection, status.code, status.since) == ("error", "actor_down", 9.0)
    assert script.facts.tools("b") == (ONE, False)
    script.facts.ended("b")
    assert script.status("connected").tools(1, TWO).facts.tools("b") == (TWO, True)


def test_resources_carry_session_and_capabilities() -> None:
    script = Script().status("connected").resources(3, ONE, subscribe=True)
    assert (script.facts.resources("b"), script.facts.capabilities("b")) == ((ONE, True, 3), (True, True))
    assert script.status("error").facts.resources("b") == (b"[]", False, 3)


def test_notes_of_all_listings_are_kept_with_their_server() -> None:
    facts = ServerFacts()
    facts.take_tools(ToolsListed("b", 1, Attachment(ONE), ("one set aside",)))
    facts.take_tools(ToolsListed("a", 1, Attachment(ONE), ("two set aside",)))
    assert facts.notes() == ("a: two set aside", "b: one set aside")


def test_a_forgotten_server_leaves_nothing() -> None:
    script = Script().status("connected").tools(1, ONE)
    script.facts.forget("b")
    assert (script.facts.tools("b"), script.facts.status("b")) == ((b"[]", False), None)
