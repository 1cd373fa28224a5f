"""The event catalogue: names, structures, roles, and how replies are read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from smcp_runtime import wire
from smcp_runtime.wire import events
from smcp_runtime.wire.base import ComputerRequest, to_wire
from smcp_runtime.wire.errors import MalformedReplyError, PeerError
from smcp_runtime.wire.events import CALLS, NOTIFICATIONS, OFFICE_EVENTS, UPDATES, may_emit, notify_name
from smcp_runtime.wire.payload import event_unsupported, internal_error
from support.wire_tables import BASE, STRUCTURES, TO_COMPUTER

CLIENT_EVENTS = [
    ("E-1", "client:tool_call", wire.ToolCallReq, None),
    ("E-2", "client:get_tools", wire.GetToolsReq, wire.GetToolsRet),
    ("E-3", "client:get_config", wire.GetComputerConfigReq, wire.GetComputerConfigRet),
    ("E-4", "client:get_desktop", wire.GetDeskTopReq, wire.GetDeskTopRet),
    ("E-5", "client:get_resources", wire.GetResourcesReq, wire.GetResourcesRet),
    ("E-6", "client:get_skills", wire.GetSkillsReq, wire.GetSkillsRet),
    ("E-7", "client:get_skill", wire.GetSkillReq, wire.GetSkillRet),
    ("E-8", "client:get_blob", wire.GetBlobReq, wire.GetBlobRet),
    ("E-9", "client:put_blob", wire.PutBlobReq, wire.PutBlobRet),
    ("E-30", "client:list_finder", wire.ListFinderReq, wire.ListFinderRet),
    ("E-33", "client:get_dpe", wire.GetDpeReq, wire.GetDpeRet),
]


@pytest.mark.spec("E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-7", "E-8", "E-9", "E-30", "E-33", "W-GEN-4", "W-DOC-4")
@pytest.mark.parametrize(("id", "event", "request_type", "reply_type"), CLIENT_EVENTS)
def test_a_client_event_has_its_request_and_reply(
    id: str, event: str, request_type: type, reply_type: type | None
) -> None:
    call = CALLS[event]
    assert (call.id, call.request) == (id, request_type)
    assert reply_type is None or call.reply is reply_type


def test_there_are_no_other_client_events() -> None:
    assert set(CALLS) == {event for _, event, _, _ in CLIENT_EVENTS}


@pytest.mark.spec("W-EVT-1")
@pytest.mark.parametrize("event", sorted(CALLS))
def test_every_client_request_carries_agent_id_and_computer(event: str) -> None:
    assert issubclass(CALLS[event].request, ComputerRequest)


@pytest.mark.spec("W-EVT-1")
@pytest.mark.parametrize("event", sorted(CALLS))
def test_every_success_but_those_of_tool_calls_and_configuration_repeats_the_id(event: str) -> None:
    silent = {"client:tool_call", "client:get_config"}
    assert CALLS[event].echoes is (event not in silent)
    assert ("req_id" in getattr(CALLS[event].reply, "__struct_fields__", ())) is (event not in silent)


@pytest.mark.spec("E-10", "E-11", "E-12")
@pytest.mark.parametrize(
    ("event", "id", "request_type", "ack"),
    [
        ("server:join_office", "E-10", wire.EnterOfficeReq, "A2"),
        ("server:leave_office", "E-11", wire.LeaveOfficeReq, "A2"),
        ("server:list_room", "E-12", wire.ListRoomReq, "A1"),
    ],
)
def test_an_office_event_has_its_request_and_form_of_ack(event: str, id: str, request_type: type, ack: str) -> None:
    found = OFFICE_EVENTS[event]
    assert (found.id, found.request, found.ack) == (id, request_type, ack)
    assert len(OFFICE_EVENTS) == 3


@pytest.mark.spec(
    "E-13", "E-14", "E-15", "E-16", "E-17", "E-22", "E-23", "E-24", "E-25", "E-26", "E-31", "E-32", "W-DOC-1"
)
@pytest.mark.parametrize(
    ("event", "id", "sender", "notify", "notify_id"),
    [
        ("server:tool_call_cancel", "E-13", "agent", "notify:tool_call_cancel", "E-26"),
        ("server:update_config", "E-14", "computer", "notify:update_config", "E-22"),
        ("server:update_tool_list", "E-15", "computer", "notify:update_tool_list", "E-23"),
        ("server:update_desktop", "E-16", "computer", "notify:update_desktop", "E-24"),
        ("server:update_skills", "E-17", "computer", "notify:update_skills", "E-25"),
        ("server:update_finder", "E-31", "computer", "notify:update_finder", "E-32"),
    ],
)
def test_an_update_is_broadcast_under_the_same_name(
    event: str, id: str, sender: str, notify: str, notify_id: str
) -> None:
    update = UPDATES[event]
    assert (update.id, update.sender, update.notify, update.notify_id) == (id, sender, notify, notify_id)
    assert notify_name(event) == notify
    assert len(UPDATES) == 6


@pytest.mark.spec("W-EVT-12")
@pytest.mark.parametrize("update", UPDATES.values(), ids=lambda update: update.event)
def test_a_broadcast_holds_the_defined_fields_and_no_more(update: events.Update[Any]) -> None:
    fields = set(update.notification.__struct_fields__)
    assert fields == ({"agent", "req_id"} if update.sender == "agent" else {"computer"})


@pytest.mark.spec("E-20", "E-21")
def test_every_notification_has_a_structure() -> None:
    assert NOTIFICATIONS["notify:enter_office"] is wire.EnterOfficeNotification
    assert NOTIFICATIONS["notify:leave_office"] is wire.LeaveOfficeNotification
    assert set(NOTIFICATIONS) == {"notify:enter_office", "notify:leave_office"} | {u.notify for u in UPDATES.values()}


@pytest.mark.spec("W-GEN-4")
def test_every_event_name_has_one_prefix_and_lower_case_words() -> None:
    names = {
        value for name, value in vars(events).items() if re.match("(CLIENT|SERVER|NOTIFY)_", name) and ":" in value
    }
    names -= {events.CLIENT_PREFIX, events.SERVER_PREFIX, events.NOTIFY_PREFIX}
    assert names == {*CALLS, *OFFICE_EVENTS, *UPDATES, *NOTIFICATIONS}
    assert all(re.fullmatch("(client|server|notify):[a-z]+(_[a-z]+)*", name) for name in names)


@pytest.mark.spec("W-ARCH-4")
@pytest.mark.parametrize(
    ("role", "event", "allowed"),
    [
        ("agent", "client:tool_call", True),
        ("agent", "client:something_new", True),
        ("computer", "client:tool_call", False),
        ("agent", "notify:update_config", False),
        ("computer", "notify:enter_office", False),
        ("agent", "server:join_office", True),
        ("computer", "server:list_room", True),
        ("agent", "server:tool_call_cancel", True),
        ("computer", "server:tool_call_cancel", False),
        ("agent", "server:update_desktop", False),
        ("computer", "server:update_desktop", True),
    ],
)
def test_a_role_may_send_only_what_is_its_own(role: wire.Role, event: str, allowed: bool) -> None:
    assert may_emit(role, event) is allowed


@pytest.mark.parametrize("event", sorted(event for event, call in CALLS.items() if call.echoes))
def test_a_success_is_read_as_its_structure(event: str) -> None:
    call = CALLS[event]
    example = next(row.example for row in STRUCTURES if row.structure is call.reply)
    assert call.read_reply(example, "r1") == wire.decode_payload(call.reply, example)


@pytest.mark.spec("C-GEN-6", "W-AGT-4")
@pytest.mark.parametrize("req_id", ["r2", "", None])
def test_a_reply_to_another_request_is_malformed(req_id: str | None) -> None:
    with pytest.raises(MalformedReplyError) as caught:
        events.GET_TOOLS.read_reply({"tools": [], "req_id": req_id}, "r1")
    assert caught.value.field == "req_id"


@pytest.mark.spec("W-ERR-5")
@pytest.mark.parametrize(
    "ack", [{}, [], "x", 3, True, {"tools": None, "req_id": "r1"}, {"tools": [{}], "req_id": "r1"}]
)
def test_what_is_neither_success_nor_error_is_malformed_and_never_empty(ack: Any) -> None:
    with pytest.raises(MalformedReplyError) as caught:
        events.GET_TOOLS.read_reply(ack, "r1")
    assert caught.value.code == "malformed_reply"


@pytest.mark.spec("W-EVT-3", "W-DOC-2")
@pytest.mark.parametrize("event", sorted(CALLS))
def test_an_ack_without_argument_means_that_the_peer_does_not_know_the_event(event: str) -> None:
    with pytest.raises(MalformedReplyError) as caught:
        CALLS[event].read_reply(None, "r1")
    assert caught.value.code == "unsupported"


@pytest.mark.spec("W-ERR-3")
@pytest.mark.parametrize("event", sorted(CALLS))
def test_an_error_payload_is_an_error_on_every_event_also_with_an_unknown_code(event: str) -> None:
    with pytest.raises(PeerError) as caught:
        CALLS[event].read_reply({"code": 4999, "message": "later"}, "r1")
    assert caught.value.wire_code == 4999


@pytest.mark.spec("W-ERR-3")
def test_a_configuration_that_is_an_error_is_not_an_empty_one() -> None:
    with pytest.raises(PeerError):
        events.GET_CONFIG.read_reply({"code": 404, "message": "gone"}, "r1")


def test_the_result_of_a_tool_call_is_handed_over_as_it_is() -> None:
    result = {"content": [], "isError": True, "meta": {"error_code": 4001}, "later": 1}
    assert events.TOOL_CALL.read_reply(result, "r1") == result


def test_a_room_list_is_read_like_any_reply() -> None:
    member = {"sid": "s", "name": "n", "office_id": "o", "role": "agent"}
    assert events.read_room({"sessions": [member], "req_id": "r1"}, "r1").sessions[0].name == "n"
    with pytest.raises(PeerError):
        events.read_room({"code": 4103, "message": "Not in room"}, "r1")


def test_requests_are_sent_with_the_names_of_the_tables() -> None:
    assert to_wire(wire.ListRoomReq(**BASE, office_id="o")) == {**BASE, "office_id": "o"}
    assert to_wire(wire.GetSkillReq(**TO_COMPUTER, name="a")) == {**TO_COMPUTER, "name": "a"}


@pytest.mark.spec("W-DOC-2", "W-EVT-3", "W-SRV-4")
def test_a_server_that_says_it_for_its_computer_is_understood_too() -> None:
    said = event_unsupported().to_wire()
    assert said["code"] == 500
    with pytest.raises(MalformedReplyError) as caught:
        events.LIST_FINDER.read_reply(said, "r1")
    assert caught.value.code == "unsupported"
    with pytest.raises(PeerError):
        events.LIST_FINDER.read_reply(internal_error().to_wire(), "r1")
