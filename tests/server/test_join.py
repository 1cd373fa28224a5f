"""`server:join_office` in the core, row by row of 01 §4.2."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.server.limits import Limits
from support.office import DONE, Office, ack, notice


def refusal(office: Office, sent: list[Any]) -> str:
    """The text of the one refused acknowledgement in `sent`."""
    [only] = sent
    assert only.kind == "ack"
    done, text = only.values
    assert done is False
    assert isinstance(text, str)
    return text


@pytest.mark.spec("W-ROOM-1", "W-ROOM-4", "W-ROOM-19", "E-10")
def test_the_first_member_brings_the_office_into_being() -> None:
    office = Office()
    office.connect("s1")
    assert office.join("s1", "computer", "pc", "o1") == [ack("s1", 1, *DONE)]
    assert office.state() == {"o1": [("pc", "computer")]}


@pytest.mark.spec("W-ROOM-10", "W-ROOM-5")
@pytest.mark.parametrize(
    "payload",
    [
        (),
        (None,),
        ("o1",),
        ([],),
        ({},),
        ({"role": "computer", "name": "pc"},),
        ({"role": "computer", "office_id": "o1"},),
        ({"name": "pc", "office_id": "o1"},),
        ({"role": "server", "name": "pc", "office_id": "o1"},),
        ({"role": "Computer", "name": "pc", "office_id": "o1"},),
        ({"role": "computer", "name": "", "office_id": "o1"},),
        ({"role": "computer", "name": "pc", "office_id": ""},),
        ({"role": "computer", "name": 5, "office_id": "o1"},),
        ({"role": "computer", "name": "pc", "office_id": None},),
        ({"role": None, "name": "pc", "office_id": "o1"},),
        ({"role": "computer", "name": "pc", "office_id": "o1"}, {}),
    ],
)
def test_a_malformed_join_is_answered_400_and_changes_nothing(payload: tuple[Any, ...]) -> None:
    office = Office()
    office.connect("s1")
    sent = office.send("s1", "server:join_office", *payload)
    assert refusal(office, sent).startswith("[400] ")
    assert office.state() == {}
    # The role is not fixed either.
    assert office.join("s1", "agent", "ag", "o1") == [ack("s1", 1, *DONE)]


@pytest.mark.spec("W-ROOM-10", "W-ROOM-5")
@pytest.mark.parametrize("field", ["$", "role", "name", "office_id"])
def test_a_join_with_half_a_character_is_400_since_nobody_could_be_told_that_name(field: str) -> None:
    payload: Any = {"role": "computer", "name": "pc", "office_id": "o1", field: "a\ud800"}
    office = Office()
    office.connect("s1")
    sent = office.raw("s1", json.dumps(["server:join_office", "\ud800" if field == "$" else payload]))
    assert refusal(office, sent).startswith("[400] ")
    assert office.state() == {}


@pytest.mark.spec("W-ROOM-11", "W-ROOM-7")
def test_the_role_of_the_first_join_binds_the_connection_even_after_a_leave() -> None:
    office = Office()
    office.member("s1", "computer")
    office.leave("s1")
    assert refusal(office, office.join("s1", "agent", "s1", "o1")).startswith("[403] Role mismatch")
    assert office.join("s1", "computer", "other", "o2") == [ack("s1", 1, *DONE)]


@pytest.mark.spec("W-ROOM-7", "W-ROOM-5")
def test_a_refused_join_does_not_fix_the_role() -> None:
    office = Office()
    office.member("s1", "agent")
    office.connect("s2")
    assert refusal(office, office.join("s2", "agent", "s2", "o1")).startswith("[4101] ")
    assert office.join("s2", "computer", "s2", "o1")[-1] == ack("s2", 1, *DONE)


@pytest.mark.spec("W-ROOM-12")
def test_joining_again_under_the_same_name_is_accepted_in_silence() -> None:
    office = Office()
    office.member("pc", "computer")
    office.member("ag", "agent")
    assert office.join("pc", "computer", "pc", "o1") == [ack("pc", 1, *DONE)]


@pytest.mark.spec("W-ROOM-13")
def test_another_name_in_the_same_office_is_refused_and_the_old_one_keeps_working() -> None:
    office = Office()
    office.member("pc", "computer")
    office.member("ag", "agent")
    assert refusal(office, office.join("pc", "computer", "new", "o1")).startswith("[403] ")
    assert office.state() == {"o1": [("pc", "computer"), ("ag", "agent")]}
    assert office.call("ag", "pc")[0].kind == "relay"


@pytest.mark.spec("W-ROOM-14")
def test_an_agent_must_leave_before_it_joins_elsewhere() -> None:
    office = Office()
    office.member("ag", "agent")
    assert refusal(office, office.join("ag", "agent", "ag", "o2")) == "[403] Agent must leave its office first"
    office.leave("ag")
    assert office.join("ag", "agent", "ag", "o2") == [ack("ag", 1, *DONE)]


@pytest.mark.spec("W-ROOM-15", "W-SRV-3")
def test_an_office_has_at_most_one_agent() -> None:
    office = Office()
    office.member("ag", "agent")
    office.connect("s2")
    assert refusal(office, office.join("s2", "agent", "second", "o1")) == "[4101] Room already has an agent"
    office.disconnect("ag")
    assert office.join("s2", "agent", "second", "o1") == [ack("s2", 1, *DONE)]


@pytest.mark.spec("W-ROOM-16", "W-ROOM-6")
@pytest.mark.parametrize(("role", "elsewhere"), [("computer", "o1"), ("computer", "o2"), ("agent", "o2")])
def test_a_name_is_unique_over_all_offices_and_roles(role: str, elsewhere: str) -> None:
    office = Office()
    office.member("pc", "computer", "o1")
    office.connect("s2")
    assert refusal(office, office.join("s2", role, "pc", elsewhere)) == "[403] Name already in use"


@pytest.mark.spec("W-ROOM-6")
@pytest.mark.parametrize("how", ["leave", "disconnect"])
def test_a_name_is_free_again_after_its_owner_left(how: str) -> None:
    office = Office()
    office.member("pc", "computer")
    getattr(office, how)("pc")
    office.connect("s2")
    assert office.join("s2", "computer", "pc", "o2") == [ack("s2", 1, *DONE)]


@pytest.mark.spec("W-ROOM-17")
def test_where_offices_must_exist_beforehand_an_unknown_one_is_refused() -> None:
    office = Office(known_offices={"o1"})
    office.connect("s1")
    assert refusal(office, office.join("s1", "computer", "pc", "o2")) == "[4102] Room not found"
    assert office.join("s1", "computer", "pc", "o1") == [ack("s1", 1, *DONE)]


@pytest.mark.spec("W-ROOM-18", "W-ROOM-30")
def test_a_computer_that_switches_leaves_the_old_office_first_and_is_acknowledged_last() -> None:
    office = Office()
    office.member("pc", "computer", "o1")
    office.member("ag1", "agent", "o1")
    office.member("ag2", "agent", "o2")
    assert office.join("pc", "computer", "pc", "o2") == [
        notice("ag1", "notify:leave_office", {"office_id": "o1", "computer": "pc"}),
        notice("ag2", "notify:enter_office", {"office_id": "o2", "computer": "pc"}),
        ack("pc", 1, *DONE),
    ]
    assert office.state() == {"o1": [("ag1", "agent")], "o2": [("ag2", "agent"), ("pc", "computer")]}


@pytest.mark.spec("W-ROOM-18", "W-ROOM-5")
def test_a_refused_switch_keeps_office_name_and_reachability() -> None:
    office = Office()
    office.member("pc", "computer", "o1")
    office.member("ag", "agent", "o1")
    office.member("taken", "computer", "o2")
    assert refusal(office, office.join("pc", "computer", "taken", "o2")).startswith("[403] ")
    assert office.state() == {"o1": [("pc", "computer"), ("ag", "agent")], "o2": [("taken", "computer")]}
    assert office.call("ag", "pc")[0].sid == "pc"


@pytest.mark.spec("W-ROOM-18")
def test_a_computer_may_switch_under_a_new_name_which_frees_the_old_one() -> None:
    office = Office()
    office.member("pc", "computer", "o1")
    assert office.join("pc", "computer", "renamed", "o2")[-1] == ack("pc", 1, *DONE)
    office.connect("s2")
    assert office.join("s2", "computer", "pc", "o1") == [ack("s2", 1, *DONE)]


@pytest.mark.spec("W-ROOM-20", "W-SRV-2")
def test_an_unexpected_failure_is_answered_500_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office()
    office.connect("s1")

    def broken(*_: Any) -> None:
        raise RuntimeError("secret in a text")

    monkeypatch.setattr(office.rooms.offices, "why_not_join", broken)
    text = refusal(office, office.join("s1", "computer", "pc", "o1"))
    assert text.startswith("[500] ")
    assert "secret" not in text
    assert office.state() == {}
    assert all("secret" not in record.action for record in office.log)


@pytest.mark.spec("W-SRV-5")
@pytest.mark.parametrize("field", ["name", "office_id"])
def test_identifiers_longer_than_256_characters_are_refused(field: str) -> None:
    office = Office()
    office.connect("s1")
    good = {"role": "computer", "name": "pc", "office_id": "o1", field: "é" * 256}
    bad = good | {field: "é" * 257}
    assert refusal(office, office.send("s1", "server:join_office", bad)).startswith("[400] ")
    assert office.send("s1", "server:join_office", good) == [ack("s1", 1, *DONE)]


@pytest.mark.spec("W-SRV-5")
def test_the_length_of_identifiers_is_configurable() -> None:
    office = Office(Limits(identifier_chars=3))
    office.connect("s1")
    assert refusal(office, office.join("s1", "computer", "four", "o1")).startswith("[400] ")


@pytest.mark.spec("W-ROOM-2")
def test_an_office_named_like_a_session_id_delivers_nothing_private_to_that_session() -> None:
    office = Office()
    office.member("ag", "agent", "o1")
    office.member("spy", "computer", "ag")
    office.member("pc", "computer", "o1")
    assert [sent.sid for sent in office.leave("pc", "o1")] == ["ag", "pc"]
    assert [sent.sid for sent in office.leave("spy", "ag")] == ["spy"]


@pytest.mark.spec("W-ROOM-30", "W-ROOM-32", "W-ROOM-34", "E-20")
@pytest.mark.parametrize("role", ["agent", "computer"])
def test_the_others_are_told_before_the_joiner_and_only_under_its_role(role: str) -> None:
    office = Office()
    office.member("pc1", "computer")
    office.member("elsewhere", "computer", "o2")
    office.connect("new")
    assert office.join("new", role, "new", "o1") == [
        notice("pc1", "notify:enter_office", {"office_id": "o1", role: "new"}),
        ack("new", 1, *DONE),
    ]


@pytest.mark.spec("W-ROOM-28")
def test_a_newcomer_is_told_nothing_about_members_already_present() -> None:
    office = Office()
    office.member("pc", "computer")
    office.connect("ag")
    assert [sent.sid for sent in office.join("ag", "agent", "ag", "o1")] == ["pc", "ag"]


def test_a_join_without_an_acknowledgement_id_still_joins() -> None:
    office = Office()
    office.connect("s1")
    assert office.join("s1", "agent", "ag", "o1", id=None) == []
    assert office.state() == {"o1": [("ag", "agent")]}
