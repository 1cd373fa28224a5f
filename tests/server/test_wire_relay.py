"""Relaying over real sockets, the same on every stack (01 §5, §8.1, §8.2, §9.5)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest

from smcp_runtime.server import requests
from smcp_runtime.wire.events import CALLS
from support.office import request, tool_call
from support.raw_socket import RawPeer, member, raw_peer
from support.servers import Serving

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-ARCH-7")]


def is_request(frame: str) -> bool:
    return frame.startswith("2/smcp,") and '["client:' in frame


async def first_request(peer: RawPeer) -> str:
    return await peer.next(is_request)


@pytest.mark.spec("W-GEN-2", "W-SRV-4", "W-ARCH-1")
async def test_request_and_reply_cross_the_server_byte_for_byte(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        body = '["client:tool_call", {"zz":1.0,"agent":"ag","req_id":"r","computer":"pc","tool_name":"ü",'
        body += '"params":{"e":[1e3]},"timeout":30,"unknown":null}]'
        await ag.send(f"2/smcp,41{body}")
        assert await first_request(pc) == f"2/smcp,1{body}"
        reply = '[{"content":[ ],"isError":false,"meta":{"k":1.0},"unbekannt":"ß"}]'
        await pc.send(f"3/smcp,1{reply}")
        assert await ag.next() == f"3/smcp,41{reply}"


@pytest.mark.spec("E-1", "E-2", "E-3", "E-4", "E-5", "E-6", "E-7", "E-8", "E-9", "E-30", "E-33")
async def test_every_client_event_finds_its_computer_and_back(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        for event in CALLS:
            payload = tool_call() if event == "client:tool_call" else request()
            waiting = asyncio.create_task(ag.call(event, payload))
            await pc.answer(await first_request(pc), {"event": event})
            assert await waiting == [{"event": event}]


@pytest.mark.spec("W-CALL-2")
async def test_an_unknown_computer_is_answered_with_the_exact_bytes(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag:
        await ag.start("client:get_tools", request("ghost"))
        assert await ag.next(lambda frame: frame.startswith("3")) == (
            '3/smcp,2[{"code":404,"message":"Computer with name \'ghost\' not found",'
            '"details":{"computer_name":"ghost"}}]'
        )


@pytest.mark.spec("W-CALL-1", "W-CALL-3", "W-ROOM-45", "W-SRV-2", "W-SRV-3")
async def test_refusals_arrive_at_once_and_reach_nobody_else(server: Serving) -> None:
    async with (
        member(server.url, "computer", "pc") as pc,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "far", "o2") as far,
        raw_peer(server.url) as outside,
    ):
        await outside.connect()
        cases: list[tuple[RawPeer, Any, int]] = [
            (ag, tool_call(timeout=0), 400),
            (outside, tool_call(), 4103),
            (pc, tool_call("ag"), 403),
            (ag, tool_call("far"), 4104),
            (ag, tool_call("ag"), 403),
        ]
        for peer, payload, code in cases:
            [answer] = await peer.call("client:tool_call", payload)
            assert (answer["code"], answer["isError"], answer["meta"]) == (code, True, {"error_code": code})
        for bystander in (pc, far):
            await bystander.settle()
            assert not any(is_request(frame) for frame in bystander.frames)


@pytest.mark.spec("W-ARCH-6")
async def test_a_pending_relay_delays_no_other_event_of_the_same_peer(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        pending = asyncio.create_task(ag.call("client:tool_call", tool_call(timeout=300)))
        held = await first_request(pc)
        await ag.emit("server:tool_call_cancel", {"agent": "ag", "req_id": "r1"})
        notice = await pc.next(lambda frame: "notify:tool_call_cancel" in frame)
        assert notice == '2/smcp,["notify:tool_call_cancel",{"agent":"ag","req_id":"r1"}]'
        [room] = await ag.call("server:list_room", {"agent": "ag", "req_id": "1", "office_id": "o1"})
        assert len(room["sessions"]) == 2
        await pc.answer(held, {"isError": True})
        assert await pending == [{"isError": True}]


@pytest.mark.spec("F-82", "W-CALL-17")
async def test_fifty_calls_answered_in_reverse_order_reach_their_own_callers(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        numbers = [await ag.start("client:tool_call", tool_call(params={"n": n}, req_id=f"r{n}")) for n in range(50)]
        frames = [await first_request(pc) for _ in range(50)]
        for frame in reversed(frames):
            asked = frame[frame.index('"n": ' if '"n": ' in frame else '"n":') + 4 :].split("}")[0].strip()
            await pc.answer(frame, {"n": int(asked)})
        for n, number in enumerate(numbers):
            assert await ag.next(lambda frame, head=f"3/smcp,{number}[": frame.startswith(head)) == (
                f'3/smcp,{number}[{{"n":{n}}}]'
            )


@pytest.mark.spec("F-11", "W-ERR-30", "C-12")
async def test_twenty_calls_are_answered_within_a_second_when_the_computers_socket_is_cut(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        for n in range(20):
            await ag.start("client:tool_call", tool_call(req_id=f"r{n}", timeout=300))
        for _ in range(20):
            await first_request(pc)
        began = time.monotonic()
        pc.cut()
        for _ in range(20):
            answer = await ag.next(lambda frame: frame.startswith("3/smcp,"))
            assert '"code":404' in answer
            assert '"computer_name":"pc"' in answer
        assert time.monotonic() - began < 1.0
        assert await ag.next() == '2/smcp,["notify:leave_office",{"office_id":"o1","computer":"pc"}]'


@pytest.mark.spec("W-ERR-31")
async def test_a_computer_that_only_leaves_still_answers_what_it_was_sent(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        pending = asyncio.create_task(ag.call("client:tool_call", tool_call()))
        held = await first_request(pc)
        assert await pc.call("server:leave_office", {"office_id": "o1"}) == [True, None]
        [refused] = await ag.call("client:get_tools", request())
        assert refused["code"] == 404
        await pc.answer(held, {"done": True})
        assert await pending == [{"done": True}]


@pytest.mark.spec("W-ERR-32")
async def test_the_reply_for_a_vanished_agent_disturbs_nobody(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc:
        async with member(server.url, "agent", "ag") as ag:
            await ag.start("client:tool_call", tool_call())
            held = await first_request(pc)
            ag.cut()
            await pc.next(lambda frame: "notify:leave_office" in frame)
        await pc.answer(held, {"done": True})
        await pc.settle()
        assert [frame for frame in pc.frames if not frame.startswith('2/smcp,["notify:enter')] == []
        async with member(server.url, "agent", "ag2") as second:
            waiting = asyncio.create_task(second.call("client:get_tools", request()))
            await pc.answer(await first_request(pc), {"tools": []})
            assert await waiting == [{"tools": []}]


@pytest.mark.spec("W-CALL-12", "W-CALL-10")
async def test_a_silent_computer_costs_the_caller_no_more_than_the_servers_limit(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SERVER_TOOL_MARGIN", 0.2)
    monkeypatch.setattr(requests, "SERVER_ACK_LIMIT", 0.3)
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        slow = await ag.start("client:tool_call", tool_call(timeout=1))
        quick = await ag.start("client:get_tools", request())
        first = await ag.next(lambda frame: frame.startswith("3"))
        assert first.startswith(f'3/smcp,{quick}[{{"code":408,')
        second = await ag.next(lambda frame: frame.startswith("3"))
        assert second.startswith(f'3/smcp,{slow}[{{"code":408,')
        assert '"isError":true' in second
        for _ in range(2):
            await pc.answer(await first_request(pc), {"late": True})
        await pc.settle()
        await ag.settle()
        assert not any("late" in frame for frame in ag.frames)


@pytest.mark.spec("W-SRV-4", "W-SRV-2")
@pytest.mark.parametrize("reply", ["[]", "[{},{}]", "[null]", '["text"]', '[{"a":]', "[[]]"])
async def test_a_reply_that_is_not_one_object_becomes_500(server: Serving, reply: str) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        waiting = asyncio.create_task(ag.call("client:get_tools", request()))
        await first_request(pc)
        await pc.send(f"3/smcp,1{reply}")
        [answer] = await waiting
        assert answer["code"] == 500


@pytest.mark.spec("W-GEN-1", "W-SRV-4", "W-SRV-2")
async def test_binary_events_and_replies_are_refused_and_the_connection_lives(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        await ag.send('51-/smcp,70["client:get_tools",{"_placeholder":true,"num":0}]')
        await ag.send_bytes(b"\x00\x01")
        assert '"code":400' in await ag.next(lambda frame: frame.startswith("3/smcp,70["))
        waiting = asyncio.create_task(ag.call("client:get_tools", request()))
        await first_request(pc)
        await pc.send('61-/smcp,1[{"_placeholder":true,"num":0}]')
        await pc.send_bytes(b"\x00\x01")
        [answer] = await waiting
        assert answer["code"] == 500
        await ag.settle()
        await pc.settle()


@pytest.mark.spec("W-EVT-14", "W-GEN-4", "W-EVT-3")
@pytest.mark.parametrize(
    "event", ["server:unknown", "server_list_room", "notify:update_config", "hello", "client:future", "connect"]
)
async def test_unknown_events_are_acknowledged_empty_and_go_nowhere(server: Serving, event: str) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        assert await ag.call(event, {"office_id": "o1"}) == []
        await ag.emit(event, {"office_id": "o1"})
        await ag.settle()
        await pc.settle()
        assert [frame for frame in pc.frames if "notify:enter_office" not in frame] == []


@pytest.mark.spec("W-EVT-14")
async def test_an_unknown_client_event_that_names_a_computer_is_relayed(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, member(server.url, "agent", "ag") as ag:
        waiting = asyncio.create_task(ag.call("client:future", request("pc", new=1)))
        await pc.answer(await first_request(pc), {"future": True})
        assert await waiting == [{"future": True}]


@pytest.mark.spec("W-EVT-10", "W-EVT-12", "W-ROOM-32", "E-13", "E-14", "E-15", "E-16", "E-17", "E-31")
async def test_updates_and_cancellations_reach_the_others_of_the_office_alone(server: Serving) -> None:
    async with (
        member(server.url, "computer", "pc") as pc,
        member(server.url, "computer", "pc2") as pc2,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "agent", "stranger", "o2") as stranger,
    ):
        for peer in (pc, pc2, ag):
            await peer.settle()
            peer.frames.clear()
        names = ["config", "tool_list", "desktop", "skills", "finder"]
        for name in names:
            await pc.emit(f"server:update_{name}", {"computer": "pc", "extra": 1})
        await pc.settle()
        expected = [f'2/smcp,["notify:update_{name}",{{"computer":"pc"}}]' for name in names]
        for peer in (ag, pc2):
            await peer.settle()
            assert peer.frames == expected
        await stranger.settle()
        assert pc.frames == stranger.frames == []


async def test_frames_of_unusual_shape_are_understood_all_the_same(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag:
        await ag.send('2/smcp?x=1,77["hello",{}]')
        assert await ag.next() == "3/smcp,77[]"
        await ag.send(f'2/smcp,{"9" * 30}["hello"]')
        assert await ag.next() == f"3/smcp,{'9' * 30}[]"


@pytest.mark.spec("W-SRV-7")
@pytest.mark.parametrize("frame", ["9", "", "5x", "2/smcp,1" + "1" * 200 + '["a"]', "0/smcp,{", "[[[[", "2/smcp,7"])
async def test_nonsense_frames_neither_end_the_connection_nor_the_server(server: Serving, frame: str) -> None:
    async with member(server.url, "agent", "ag") as ag:
        await ag.send(frame)
        await ag.settle()
        with anyio.fail_after(5):
            async with member(server.url, "computer", "pc") as pc:
                await pc.settle()
