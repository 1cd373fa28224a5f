"""Fire-and-forget events in the core (01 §5.2, §5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from support.office import Office, ack, notice

UPDATES = ["config", "tool_list", "desktop", "skills", "finder"]


def staffed() -> Office:
    office = Office()
    office.member("pc", "computer")
    office.member("pc2", "computer")
    office.member("ag", "agent")
    office.member("stranger", "agent", "o2")
    return office


@pytest.mark.spec(
    "E-14", "E-15", "E-16", "E-17", "E-22", "E-23", "E-24", "E-25", "E-31", "E-32", "W-EVT-12", "W-ROOM-32", "W-DOC-1"
)
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_reaches_all_others_of_the_office_with_the_defined_fields_only(name: str) -> None:
    office = staffed()
    payload = {"computer": "pc", "secret": "extra"}
    assert office.send("pc", f"server:update_{name}", payload, id=None) == [
        notice("pc2", f"notify:update_{name}", {"computer": "pc"}),
        notice("ag", f"notify:update_{name}", {"computer": "pc"}),
    ]


@pytest.mark.spec("W-EVT-10", "W-EVT-11")
def test_an_update_that_came_with_an_id_is_acknowledged_empty() -> None:
    office = staffed()
    assert office.send("pc", "server:update_config", {"computer": "pc"}, id=9)[-1] == ack("pc", 9)


@pytest.mark.spec("W-EVT-11", "W-ROOM-33")
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize(
    ("sender", "payload"),
    [
        ("ag", {"computer": "pc"}),
        ("pc", {"computer": "pc2"}),
        ("pc", {"computer": 5}),
        ("pc", {}),
        ("pc", "pc"),
        ("outside", {"computer": "outside"}),
    ],
)
def test_an_invalid_update_emits_nothing_warns_and_is_still_acknowledged(name: str, sender: str, payload: Any) -> None:
    office = staffed()
    office.connect("outside")
    assert office.send(sender, f"server:update_{name}", payload, id=3) == [ack(sender, 3)]
    assert [record.event for record in office.warnings()] == [f"server:update_{name}"]
    assert office.send(sender, f"server:update_{name}", payload, id=None) == []


@pytest.mark.spec("E-13", "E-26", "W-CALL-13", "W-EVT-12", "W-ROOM-46", "W-AGT-8")
def test_a_cancellation_goes_out_under_the_joined_name_whatever_the_request_says() -> None:
    office = staffed()
    payload = {"agent": "somebody else", "req_id": "r7", "computer": "pc"}
    assert office.send("ag", "server:tool_call_cancel", payload, id=None) == [
        notice("pc", "notify:tool_call_cancel", {"agent": "ag", "req_id": "r7"}),
        notice("pc2", "notify:tool_call_cancel", {"agent": "ag", "req_id": "r7"}),
    ]


@pytest.mark.spec("W-CALL-13", "W-EVT-11", "W-ROOM-33")
@pytest.mark.parametrize(
    ("sender", "payload"),
    [
        ("pc", {"agent": "ag", "req_id": "r7"}),
        ("outside", {"agent": "outside", "req_id": "r7"}),
        ("ag", {"agent": "ag"}),
        ("ag", {"agent": "ag", "req_id": "x" * 257}),
        ("ag", None),
    ],
)
def test_an_invalid_cancellation_is_dropped_with_a_warning(sender: str, payload: Any) -> None:
    office = staffed()
    office.connect("outside")
    assert office.send(sender, "server:tool_call_cancel", payload, id=2) == [ack(sender, 2)]
    assert len(office.warnings()) == 1


@pytest.mark.spec("W-EVT-10")
def test_a_lone_member_announces_to_nobody_without_a_warning() -> None:
    office = Office()
    office.member("pc", "computer")
    assert office.send("pc", "server:update_config", {"computer": "pc"}, id=None) == []
    assert office.warnings() == []


@pytest.mark.spec("W-EVT-14", "W-GEN-4", "W-ARCH-4")
@pytest.mark.parametrize(
    "name",
    [
        "server:unknown",
        "server_list_room",
        "server:list_room ",
        "Server:list_room",
        "notify:update_config",
        "hello",
        "message",
        "connect",
        "disconnect",
        "client:unheard_of",
    ],
)
def test_every_other_event_is_acknowledged_empty_and_does_nothing(name: str) -> None:
    office = staffed()
    before = office.state()
    assert office.send("ag", name, {"office_id": "o1", "req_id": "r"}, id=4) == [ack("ag", 4)]
    assert office.send("ag", name, id=4) == [ack("ag", 4)]
    assert office.send("ag", name, {}, id=None) == []
    assert office.state() == before
