"""Relaying `client:*` in the core (01 §8.1, §8.2, §9.5, §11.1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.server.limits import Limits
from smcp_runtime.server.orders import Ack, Relay
from smcp_runtime.wire.events import CALLS
from support.office import Office, ack, relay, request, tool_call

FORWARDED = {name: (tool_call() if name == "client:tool_call" else request()) for name in CALLS}


def staffed(limits: Limits | None = None, **options: Any) -> Office:
    office = Office(limits, **options)
    office.member("pc", "computer")
    office.member("pc2", "computer")
    office.member("ag", "agent")
    return office


def error(sent: list[Any], sid: str = "ag") -> dict[str, Any]:
    """The flat ErrorPayload of the one acknowledgement in `sent`."""
    [only] = sent
    assert (only.sid, only.kind) == (sid, "ack")
    [payload] = only.values
    assert isinstance(payload["code"], int)
    assert isinstance(payload["message"], str)
    return dict(payload)


@pytest.mark.spec(
    "E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-7", "E-8", "E-9", "E-30", "E-33", "W-ARCH-5", "W-ROOM-45", "W-DOC-1"
)
@pytest.mark.parametrize("event", FORWARDED)
def test_every_client_event_goes_to_the_named_computer_and_its_reply_to_the_caller(event: str) -> None:
    office = staffed()
    assert office.send("ag", event, FORWARDED[event], id=7) == [relay("pc", 1, event, FORWARDED[event])]
    assert office.answer("pc", 1, {"any": "thing"}) == [ack("ag", 7, {"any": "thing"})]
    assert office.rooms.waiting == 0


@pytest.mark.spec("W-GEN-2", "W-CALL-1", "W-SRV-4", "W-REL-1", "W-ERR-4")
def test_request_and_reply_pass_byte_for_byte() -> None:
    office = staffed()
    body = '["client:tool_call", {"zzz":1.0,"agent":"ag","req_id":"r","computer":"pc",  "tool_name":"t",'
    body += '"params":{"\\u00e9":[1e3]},"timeout":30,"x":{"y":null}}]'
    office.raw("ag", body)
    [order] = office.orders
    assert isinstance(order, Relay)
    assert order.body == body
    reply = '[ {"code":4999,"message":"m","b":1.0,"unknown":"\\u00e9"} ]'
    [answer] = office.rooms.acknowledged("pc", order.id, reply)
    assert isinstance(answer, Ack)
    assert answer.body == reply


@pytest.mark.spec("W-ROOM-46", "W-ROOM-45")
def test_the_agent_field_neither_gives_nor_takes_authority() -> None:
    office = staffed()
    assert office.call("ag", "pc", agent="another name")[0].kind == "relay"
    assert error(office.call("pc2", "pc", agent="ag"), "pc2")["code"] == 403


@pytest.mark.spec("W-CALL-1", "W-SRV-1")
@pytest.mark.parametrize("event", FORWARDED)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"agent": None}, "agent"),
        ({"req_id": 5}, "req_id"),
        ({"computer": ["pc"]}, "computer"),
        ({"req_id": "x" * 257}, "req_id"),
    ],
)
def test_bad_routing_fields_are_400_naming_the_field(event: str, change: dict[str, Any], field: str) -> None:
    office = staffed()
    payload = error(office.send("ag", event, FORWARDED[event] | change))
    assert payload["code"] == 400
    assert payload["details"]["field"] == field


@pytest.mark.spec("W-CALL-1", "W-SRV-1")
@pytest.mark.parametrize("event", FORWARDED)
@pytest.mark.parametrize("field", ["agent", "req_id", "computer"])
def test_half_a_character_in_a_routing_field_is_400_and_no_failure_of_the_server(event: str, field: str) -> None:
    office = staffed()
    payload = error(office.raw("ag", json.dumps([event, FORWARDED[event] | {field: "\udfff"}])))
    assert (payload["code"], payload["details"]["field"]) == (400, field)
    assert error(office.raw("ag", json.dumps([event, "\ud800"])))["code"] == 400


@pytest.mark.spec("W-CALL-1")
@pytest.mark.parametrize("missing", ["agent", "req_id", "computer", "tool_name", "params", "timeout"])
def test_a_tool_call_without_one_of_its_routing_fields_is_400(missing: str) -> None:
    office = staffed()
    payload = tool_call()
    del payload[missing]
    answer = error(office.send("ag", "client:tool_call", payload))
    assert (answer["code"], answer["details"]["field"]) == (400, missing)


@pytest.mark.spec("W-CALL-1", "W-SRV-5")
@pytest.mark.parametrize(
    "change",
    [
        {"timeout": 0},
        {"timeout": 3601},
        {"timeout": 1.5},
        {"timeout": "30"},
        {"timeout": True},
        {"timeout": None},
        {"params": []},
        {"params": None},
        {"params": "{}"},
        {"tool_name": 7},
        {"tool_name": "x" * 257},
    ],
)
def test_a_tool_call_with_wrong_fields_is_400(change: dict[str, Any]) -> None:
    office = staffed()
    assert error(office.send("ag", "client:tool_call", tool_call(**change)))["code"] == 400


@pytest.mark.spec("W-CALL-1", "W-SRV-5")
@pytest.mark.parametrize("timeout", [1, 3600, 30.0])
def test_whole_timeouts_up_to_an_hour_pass(timeout: float) -> None:
    office = staffed()
    assert office.send("ag", "client:tool_call", tool_call(timeout=timeout))[0].kind == "relay"


@pytest.mark.spec("W-CALL-1")
@pytest.mark.parametrize("payload", [(), (None,), ([],), ("x",), (5,), (request(), request())])
def test_a_payload_that_is_not_one_object_is_400(payload: tuple[Any, ...]) -> None:
    office = staffed()
    assert error(office.send("ag", "client:get_tools", *payload))["code"] == 400


@pytest.mark.spec("W-CALL-1", "W-GEN-1")
def test_a_binary_event_is_400() -> None:
    office = staffed()
    assert error(office.raw("ag", json.dumps(["client:get_tools", request()]), binary=True))["code"] == 400


@pytest.mark.spec("W-SRV-2")
@pytest.mark.parametrize("body", ["", "{}", "[]", "[5]", '["client:get_tools",{]', "[" * 100_000])
def test_a_packet_whose_json_is_broken_is_still_answered(body: str) -> None:
    office = staffed()
    assert error(office.raw("ag", body))["code"] == 400
    assert office.raw("ag", body, id=None) == []


@pytest.mark.spec("W-CALL-1")
def test_what_lies_beyond_the_routing_fields_is_the_computers_to_judge() -> None:
    office = staffed()
    wrong = request(cursor=5, rel_path=[], chunk_offset="x", timeout="soon")
    for event in ("client:get_resources", "client:get_skill", "client:put_blob", "client:get_dpe"):
        assert office.send("ag", event, wrong)[0].kind == "relay"


@pytest.mark.spec("W-CALL-1")
def test_the_checks_come_in_their_order() -> None:
    office = staffed()
    office.connect("nobody")
    office.member("far", "computer", "o2")
    office.member("boss", "agent", "o2")
    codes = [
        error(office.send("nobody", "client:get_tools", {}), "nobody")["code"],  # malformed before outside
        error(office.call("nobody", "pc"), "nobody")["code"],  # outside before everything else
        error(office.call("pc2", "unknown"), "pc2")["code"],  # wrong role before unknown name
        error(office.call("ag", "unknown"))["code"],
        error(office.call("ag", "far"))["code"],
        error(office.call("ag", "boss"))["code"],  # other office before wrong target role
        error(office.call("ag", "ag"))["code"],
    ]
    assert codes == [400, 4103, 403, 404, 4104, 4104, 403]


@pytest.mark.spec("W-CALL-2", "W-CALL-3")
@pytest.mark.parametrize("event", FORWARDED)
def test_an_unknown_computer_is_the_exact_404_of_the_official_server(event: str) -> None:
    office = staffed()
    payload = FORWARDED[event] | {"computer": "ghost"}
    office.send("ag", event, payload)
    [order, *_] = office.orders
    assert isinstance(order, Ack)
    assert order.body == (
        '[{"code":404,"message":"Computer with name \'ghost\' not found","details":{"computer_name":"ghost"}}]'
    )


@pytest.mark.spec("DEC-20", "W-CALL-1")
def test_a_deployment_may_hide_names_of_other_offices() -> None:
    office = staffed(hide_names=True)
    office.member("far", "computer", "o2")
    hidden, unknown = error(office.call("ag", "far")), error(office.call("ag", "nix"))
    assert hidden["code"] == unknown["code"] == 404
    assert hidden["details"] == {"computer_name": "far"}


@pytest.mark.spec("W-CALL-3")
@pytest.mark.parametrize(
    ("sender", "payload", "code"),
    [
        ("ag", tool_call(params=[]), 400),
        ("pc2", tool_call(), 403),
        ("ag", tool_call("far"), 4104),
        ("outside", tool_call(), 4103),
    ],
)
def test_a_refused_tool_call_also_reads_as_a_failed_result(sender: str, payload: Any, code: int) -> None:
    office = staffed()
    office.member("far", "computer", "o2")
    office.connect("outside")
    answer = error(office.send(sender, "client:tool_call", payload), sender)
    assert answer["code"] == code
    assert answer["isError"] is True
    assert answer["meta"] == {"error_code": code}
    assert answer["content"] == [{"type": "text", "text": f"[{code}] {answer['message']}"}]


@pytest.mark.spec("W-CALL-3")
def test_refusals_of_other_events_stay_flat() -> None:
    office = staffed()
    assert set(error(office.call("pc2", "pc"), "pc2")) == {"code", "message"}


@pytest.mark.spec("W-EVT-14")
def test_an_unknown_client_event_that_names_a_computer_takes_the_generic_relay() -> None:
    office = staffed()
    assert office.call("ag", "pc", "client:future")[0] == relay("pc", 1, "client:future", request("pc"))
    assert error(office.call("ag", "ghost", "client:future"))["code"] == 404
    assert error(office.send("ag", "client:future", {"computer": "pc"}))["code"] == 400
    assert error(office.call("pc2", "pc", "client:future"), "pc2")["code"] == 403


@pytest.mark.spec("W-SRV-4")
@pytest.mark.parametrize("values", [(), ({}, {}), ([],), (None,), ("text",), (5,)])
@pytest.mark.parametrize("event", ["client:get_tools", "client:tool_call"])
def test_a_reply_that_is_not_one_object_becomes_500(event: str, values: tuple[Any, ...]) -> None:
    office = staffed()
    office.send("ag", event, FORWARDED[event])
    answer = error(office.answer("pc", 1, *values))
    assert answer["code"] == 500
    assert ("isError" in answer) is (event == "client:tool_call")


@pytest.mark.spec("W-SRV-4", "W-GEN-1")
def test_a_binary_or_broken_reply_becomes_500() -> None:
    office = staffed()
    office.call("ag", "pc")
    assert error(office.answer("pc", 1, {}, binary=True))["code"] == 500
    office.call("ag", "pc")
    [order] = office.rooms.acknowledged("pc", 2, '[{"a":]')
    assert isinstance(order, Ack)
    assert '"code":500' in order.body


@pytest.mark.spec("W-GEN-2")
def test_escapes_only_the_standard_library_reads_pass_in_both_directions() -> None:
    office = staffed()
    body = json.dumps(["client:tool_call", tool_call(params={"text": "\ud800"})])
    office.raw("ag", body)
    [order] = office.orders
    assert isinstance(order, Relay)
    assert order.body == body
    [answer] = office.rooms.acknowledged("pc", order.id, '[{"text":"\\ud800"}]')
    assert isinstance(answer, Ack)
    assert answer.body == '[{"text":"\\ud800"}]'


@pytest.mark.spec("W-SRV-4", "W-ERR-5")
def test_an_empty_object_is_passed_on_unjudged() -> None:
    office = staffed()
    office.call("ag", "pc")
    assert office.answer("pc", 1, {}) == [ack("ag", 1, {})]


@pytest.mark.spec("W-ROOM-45", "W-SRV-3")
def test_a_computer_cannot_answer_the_call_of_another() -> None:
    office = staffed()
    office.call("ag", "pc")
    assert office.answer("pc2", 1, {"forged": True}) == []
    assert office.answer("pc", 1, {"real": True}) == [ack("ag", 1, {"real": True})]


@pytest.mark.spec("F-82", "W-CALL-17", "W-ARCH-6")
def test_calls_answered_in_reverse_order_reach_their_own_callers() -> None:
    office = staffed()
    for number in range(50):
        assert office.call("ag", "pc", id=100 + number, req_id=f"r{number}")[0].id == number + 1
    for number in reversed(range(50)):
        assert office.answer("pc", number + 1, {"n": number}) == [ack("ag", 100 + number, {"n": number})]


@pytest.mark.spec("W-CALL-12", "W-CALL-10")
def test_a_tool_call_gives_up_five_seconds_after_its_timeout() -> None:
    office = staffed()
    office.send("ag", "client:tool_call", tool_call(timeout=30))
    assert office.rooms.next_deadline() == office.now + 35
    assert office.after(34.9) == []
    answer = error(office.after(0.1))
    assert (answer["code"], answer["isError"]) == (408, True)
    assert office.answer("pc", 1, {"late": True}) == []


@pytest.mark.spec("W-CALL-12")
def test_other_events_give_up_after_sixty_seconds() -> None:
    office = staffed()
    office.call("ag", "pc")
    assert office.after(59.9) == []
    assert error(office.after(0.1))["code"] == 408


@pytest.mark.spec("DEC-31", "W-CALL-12")
@pytest.mark.parametrize(
    ("timeout", "limit"),
    [({}, 65), ({"timeout": 10}, 60), ({"timeout": 100.5}, 105.5), ({"timeout": 9999}, 305), ({"timeout": "x"}, 65)],
)
def test_the_limit_of_a_document_request_follows_its_timeout(timeout: dict[str, Any], limit: float) -> None:
    office = staffed()
    office.call("ag", "pc", "client:get_dpe", **timeout)
    assert office.rooms.next_deadline() == office.now + limit


@pytest.mark.spec("W-CALL-12")
def test_limits_end_in_the_order_of_their_deadlines() -> None:
    office = staffed()
    office.send("ag", "client:tool_call", tool_call(timeout=100), id=1)
    office.send("ag", "client:tool_call", tool_call(timeout=10), id=2)
    office.call("ag", "pc2", id=3)
    assert [sent.id for sent in office.after(200)] == [2, 3, 1]
    assert office.rooms.next_deadline() == float("inf")


@pytest.mark.spec("W-ERR-30", "F-11", "C-12")
@pytest.mark.parametrize("event", ["client:tool_call", "client:get_tools"])
def test_a_vanished_computer_ends_its_calls_at_once_with_404_and_no_others(event: str) -> None:
    office = staffed()
    for id in range(20):
        office.send("ag", event, FORWARDED[event], id=id)
    office.call("ag", "pc2", id=99)
    acks = [sent for sent in office.disconnect("pc") if sent.kind == "ack"]
    assert [sent.id for sent in acks] == list(range(20))
    assert all(sent.values[0]["code"] == 404 for sent in acks)
    assert acks[0].values[0]["details"] == {"computer_name": "pc"}
    assert office.rooms.waiting == 1


@pytest.mark.spec("W-ERR-31")
def test_a_computer_that_only_leaves_still_answers_what_it_was_sent() -> None:
    office = staffed()
    office.call("ag", "pc", id=5)
    office.leave("pc")
    assert error(office.call("ag", "pc", id=6))["code"] == 404
    assert office.answer("pc", 1, {"late": "but valid"}) == [ack("ag", 5, {"late": "but valid"})]


@pytest.mark.spec("W-ERR-31")
def test_a_computer_that_left_and_is_silent_runs_into_the_limit() -> None:
    office = staffed()
    office.call("ag", "pc", id=5)
    office.leave("pc")
    assert error(office.after(60))["code"] == 408


@pytest.mark.spec("W-ERR-32")
def test_the_reply_for_a_vanished_agent_is_dropped_in_silence() -> None:
    office = staffed()
    office.call("ag", "pc")
    office.disconnect("ag")
    warnings = len(office.warnings())
    assert office.answer("pc", 1, {"done": True}) == []
    assert len(office.warnings()) == warnings
    assert office.rooms.waiting == 0


@pytest.mark.spec("W-ERR-32", "W-CALL-12")
def test_neither_limit_nor_loss_tells_a_vanished_agent_anything() -> None:
    office = staffed()
    office.call("ag", "pc")
    office.call("ag", "pc2")
    office.disconnect("ag")
    assert all(sent.sid != "ag" for sent in office.disconnect("pc"))
    assert office.after(100) == []


def test_a_request_without_an_acknowledgement_id_is_relayed_and_its_reply_dropped() -> None:
    office = staffed()
    assert office.call("ag", "pc", id=None)[0].kind == "relay"
    assert office.answer("pc", 1, {}) == []
    assert office.rooms.waiting == 0


@pytest.mark.spec("W-SRV-5", "W-SRV-7")
def test_the_1025th_pending_call_is_refused_until_one_ends() -> None:
    office = staffed()
    for id in range(1_024):
        assert office.call("ag", "pc", id=id)[0].kind == "relay"
    answer = error(office.call("ag", "pc2", id=2_000))
    assert (answer["code"], answer["details"]) == (403, {"reason": "rate_limited"})
    assert [record.code for record in office.warnings()] == [403]
    office.answer("pc", 1, {})
    assert office.call("ag", "pc2", id=2_001)[0].kind == "relay"


@pytest.mark.spec("W-SRV-5", "DEC-28", "W-SRV-7")
def test_a_rate_limit_refuses_what_exceeds_it_and_recovers_with_time() -> None:
    office = staffed(Limits(requests_per_second=5))
    office.now += 10
    assert [office.call("ag", "pc")[0].kind for _ in range(5)] == ["relay"] * 5
    answer = error(office.call("ag", "pc"))
    assert (answer["code"], answer["details"]) == (403, {"reason": "rate_limited"})
    assert office.warnings()[-1].code == 403
    office.now += 0.2
    assert office.call("ag", "pc")[0].kind == "relay"


@pytest.mark.spec("DEC-28", "W-SRV-5")
@pytest.mark.parametrize("event", ["client:get_blob", "client:put_blob"])
def test_blob_chunks_never_count_as_requests(event: str) -> None:
    office = staffed(Limits(requests_per_second=1))
    office.now += 10
    for id in range(100):
        assert office.call("ag", "pc", event, id=id)[0].kind == "relay"
    assert office.call("ag", "pc", id=200)[0].kind == "relay"


@pytest.mark.spec("DEC-28")
def test_there_is_no_rate_limit_unless_configured() -> None:
    office = staffed()
    assert all(office.call("ag", "pc", id=id)[0].kind == "relay" for id in range(1_000))


@pytest.mark.spec("W-SRV-5", "W-ROOM-4", "W-EVT-11")
def test_a_rate_refusal_has_the_form_of_the_event_it_answers() -> None:
    office = staffed(Limits(requests_per_second=1))
    office.send("pc", "hello")
    office.send("pc", "hello")
    [left] = office.leave("pc")
    assert left.values[0] is False
    assert left.values[1].startswith("[403] ")
    assert office.send("pc", "server:update_config", {"computer": "pc"}, id=3) == [ack("pc", 3)]


@pytest.mark.spec("W-AUTH-6")
def test_events_of_an_unknown_connection_are_ignored() -> None:
    office = staffed()
    assert office.join("stranger", "agent", "x", "o1") == []
    assert office.call("stranger", "pc") == []
    assert office.answer("stranger", 1, {}) == []


@pytest.mark.spec("W-SRV-7", "F-72")
def test_an_audit_line_names_the_request_by_id_and_holds_no_arguments() -> None:
    office = staffed(audit=True)
    office.send("ag", "client:tool_call", tool_call(params={"password": "hunter2"}, req_id="r-77"))
    [line] = [record for record in office.log if record.action == "relayed"]
    assert (line.event, line.req_id, line.office) == ("client:tool_call", "r-77", "o1")
    assert 'sid="ag"' in line.who
    assert "hunter2" not in repr(office.log)


@pytest.mark.spec("W-SRV-7", "W-ROOM-45")
def test_cross_room_attempts_and_wrong_roles_leave_warnings() -> None:
    office = staffed()
    office.member("far", "computer", "o2")
    office.call("ag", "far")
    office.call("pc2", "pc")
    office.leave("ag", "o2")
    assert [record.code for record in office.warnings()] == [4104, 403, 4104]
