"""Leaving, disconnecting, and listing a room in the core (01 §4.3…§4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from support.office import DONE, Office, ack, notice


@pytest.mark.spec("W-ROOM-21", "W-ROOM-30", "E-11", "E-21")
def test_a_leave_is_told_to_the_others_then_acknowledged() -> None:
    office = Office()
    office.member("pc", "computer")
    office.member("ag", "agent")
    assert office.leave("pc") == [
        notice("ag", "notify:leave_office", {"office_id": "o1", "computer": "pc"}),
        ack("pc", 1, *DONE),
    ]
    assert office.state() == {"o1": [("ag", "agent")]}


@pytest.mark.spec("W-ROOM-1")
def test_an_office_ends_with_its_last_member() -> None:
    office = Office()
    office.member("pc", "computer")
    office.leave("pc")
    assert len(office.rooms.offices) == 0


@pytest.mark.spec("W-ROOM-22")
def test_leaving_while_in_no_office_is_4103_and_tells_nobody() -> None:
    office = Office()
    office.member("ag", "agent")
    office.connect("s2")
    assert office.leave("s2") == [ack("s2", 1, False, "[4103] Not in room")]


@pytest.mark.spec("W-ROOM-23")
@pytest.mark.parametrize("named", ["o2", "nowhere"])
def test_leaving_a_foreign_office_changes_nothing_and_hides_whether_it_exists(named: str) -> None:
    office = Office()
    office.member("pc", "computer", "o1")
    office.member("ag", "agent", "o2")
    assert office.leave("pc", named) == [ack("pc", 1, False, "[4104] Cross room access denied")]
    assert office.state() == {"o1": [("pc", "computer")], "o2": [("ag", "agent")]}


@pytest.mark.spec("W-ROOM-24")
@pytest.mark.parametrize("payload", [(), ({},), ("o1",), ({"office_id": 5},), ({"office_id": None},)])
def test_a_malformed_leave_is_400(payload: tuple[Any, ...]) -> None:
    office = Office()
    office.member("pc", "computer")
    [sent] = office.send("pc", "server:leave_office", *payload)
    assert sent.values[0] is False
    assert sent.values[1].startswith("[400] ")
    assert office.state() == {"o1": [("pc", "computer")]}


@pytest.mark.spec("W-ROOM-25", "E-21")
@pytest.mark.parametrize("role", ["agent", "computer"])
def test_a_lost_connection_is_a_leave_without_an_acknowledgement(role: str) -> None:
    office = Office()
    office.member("s1", role)
    office.member("pc2", "computer")
    assert office.disconnect("s1") == [notice("pc2", "notify:leave_office", {"office_id": "o1", role: "s1"})]
    assert office.state() == {"o1": [("pc2", "computer")]}


def test_a_connection_that_never_joined_ends_in_silence() -> None:
    office = Office()
    office.connect("s1")
    assert office.disconnect("s1") == []
    assert office.disconnect("s1") == []


@pytest.mark.spec("W-ROOM-3", "W-ROOM-40", "W-ROOM-44", "W-HS-18", "E-12")
@pytest.mark.parametrize("caller", ["ag", "pc"])
def test_any_member_sees_its_own_office_with_itself_in_it(caller: str) -> None:
    office = Office()
    office.member("ag", "agent")
    office.member("pc", "computer")
    office.member("other", "computer", "o2")
    [sent] = office.send(caller, "server:list_room", {"agent": "whoever", "req_id": "constant", "office_id": "o1"})
    assert sent.values == [
        {
            "sessions": [
                {"sid": "ag", "name": "ag", "office_id": "o1", "role": "agent", "a2c_version": "0.4.0"},
                {"sid": "pc", "name": "pc", "office_id": "o1", "role": "computer", "a2c_version": "0.4.0"},
            ],
            "req_id": "constant",
        }
    ]


@pytest.mark.spec("W-HS-18")
def test_the_raw_version_string_is_shown_and_left_out_where_unknown() -> None:
    office = Office()
    office.connect("s1", version="0.04.7")
    office.join("s1", "agent", "ag", "o1")
    office.connect("s2", version=None)
    office.join("s2", "computer", "pc", "o1")
    [sent] = office.send("s1", "server:list_room", {"agent": "ag", "req_id": "1", "office_id": "o1"})
    first, second = sent.values[0]["sessions"]
    assert first["a2c_version"] == "0.04.7"
    assert "a2c_version" not in second


@pytest.mark.spec("W-ROOM-41")
@pytest.mark.parametrize(
    ("joined", "payload", "code"),
    [
        (False, {"agent": "ag", "req_id": "1", "office_id": "o1"}, 4103),
        (True, {"agent": "ag", "req_id": "1", "office_id": "o2"}, 4104),
        (True, {"agent": "ag", "req_id": "1", "office_id": "nowhere"}, 4104),
        (True, {"agent": "ag", "req_id": "1"}, 400),
        (True, {"agent": "ag", "office_id": "o1"}, 400),
        (True, {"agent": "ag", "req_id": "x" * 257, "office_id": "o1"}, 400),
        (True, [], 400),
    ],
)
def test_a_room_list_is_refused_with_a_flat_error(joined: bool, payload: Any, code: int) -> None:
    office = Office()
    office.member("pc2", "computer", "o2")
    office.connect("ag")
    if joined:
        office.join("ag", "agent", "ag", "o1")
    [sent] = office.send("ag", "server:list_room", payload)
    [error] = sent.values
    assert error["code"] == code
    assert "sessions" not in error
    assert "content" not in error
