"""Rooms over real sockets as recorded frames, the same on every stack (01 §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.raw_socket import RawPeer, member, raw_peer
from support.servers import Serving, open_options, serving

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-ARCH-7")]


def join_frame(id: str, **fields: Any) -> str:
    return f'2/smcp,{id}["server:join_office",{json.dumps(fields)}]'


async def frames_after(peer: RawPeer, *packets: str) -> list[str]:
    """What a peer gets once these were handled."""
    await peer.settle()
    peer.frames.clear()
    await peer.send(*packets)
    await peer.settle()
    return peer.frames


@pytest.mark.spec("W-ROOM-4", "W-ROOM-19", "W-ROOM-30", "W-ROOM-34", "E-10", "E-20")
async def test_a_join_is_announced_then_acknowledged_with_two_arguments(server: Serving) -> None:
    async with member(server.url, "agent", "ag", "r1") as ag, raw_peer(server.url) as pc:
        await pc.connect()
        sent = await frames_after(pc, join_frame("0", role="computer", name="pc1", office_id="r1"))
        assert sent == ["3/smcp,0[true,null]"]
        assert await ag.next() == '2/smcp,["notify:enter_office",{"office_id":"r1","computer":"pc1"}]'


@pytest.mark.spec("W-ROOM-30", "W-ROOM-31")
async def test_others_hear_of_a_join_before_the_joiner_has_its_acknowledgement(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag, raw_peer(server.url) as pc:
        await pc.connect()
        # One peer that is both told and acknowledged would show the order, so the joiner's ack is looked at last.
        number = await pc.start("server:join_office", {"role": "computer", "name": "pc", "office_id": "o1"})
        assert "notify:enter_office" in await ag.next()
        assert await pc.next() == f"3/smcp,{number}[true,null]"


@pytest.mark.spec(
    "W-ROOM-10",
    "W-ROOM-11",
    "W-ROOM-12",
    "W-ROOM-13",
    "W-ROOM-14",
    "W-ROOM-15",
    "W-ROOM-16",
    "W-ROOM-5",
    "W-SRV-1",
    "W-ERR-2",
)
async def test_each_refusal_of_a_join_arrives_as_two_arguments_and_tells_nobody(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc") as pc,
        member(server.url, "agent", "ag2", "o2") as ag2,
        raw_peer(server.url) as new,
    ):
        await new.connect()
        for peer in (ag, pc, ag2):
            await peer.settle()
            peer.frames.clear()
        rows: list[tuple[RawPeer, dict[str, Any], list[Any]]] = [
            (new, {"role": "computer", "name": "", "office_id": "o1"}, [False, "[400] "]),
            (new, {"role": "boss", "name": "x", "office_id": "o1"}, [False, "[400] "]),
            (pc, {"role": "agent", "name": "pc", "office_id": "o1"}, [False, "[403] Role mismatch"]),
            (pc, {"role": "computer", "name": "pc", "office_id": "o1"}, [True, None]),
            (pc, {"role": "computer", "name": "other", "office_id": "o1"}, [False, "[403] "]),
            (
                ag,
                {"role": "agent", "name": "ag", "office_id": "o3"},
                [False, "[403] Agent must leave its office first"],
            ),
            (new, {"role": "agent", "name": "new", "office_id": "o1"}, [False, "[4101] Room already has an agent"]),
            (new, {"role": "computer", "name": "pc", "office_id": "o2"}, [False, "[403] Name already in use"]),
            (new, {"role": "agent", "name": "ag", "office_id": "o3"}, [False, "[403] Name already in use"]),
        ]
        for peer, payload, (done, text) in rows:
            answer = await peer.call("server:join_office", payload)
            assert len(answer) == 2
            assert answer[0] is done
            assert answer[1] is None if text is None else answer[1].startswith(text)
        for peer in (ag, pc, ag2):
            await peer.settle()
            assert peer.frames == []


@pytest.mark.spec("W-ROOM-17")
async def test_a_deployment_may_only_know_its_own_offices(kind: str) -> None:
    async with serving(kind, open_options(known_offices=["o1"])) as server, raw_peer(server.url) as peer:
        await peer.connect()
        assert await peer.join("agent", "ag", "o9") == [False, "[4102] Room not found"]
        assert await peer.join("agent", "ag", "o1") == [True, None]


@pytest.mark.spec("W-ROOM-18", "W-ROOM-30", "E-21")
async def test_a_computer_that_switches_offices_is_told_off_and_announced(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag1", "o1") as ag1,
        member(server.url, "agent", "ag2", "o2") as ag2,
        member(server.url, "computer", "pc", "o1") as pc,
    ):
        await ag1.next()
        assert await pc.join("computer", "pc", "o2") == [True, None]
        assert await ag1.next() == '2/smcp,["notify:leave_office",{"office_id":"o1","computer":"pc"}]'
        assert await ag2.next() == '2/smcp,["notify:enter_office",{"office_id":"o2","computer":"pc"}]'
        for peer in (ag1, ag2):
            await peer.settle()
            assert peer.frames == []


@pytest.mark.spec("W-ROOM-21", "W-ROOM-22", "W-ROOM-23", "W-ROOM-24", "W-ROOM-33", "E-11")
async def test_leaving_row_by_row(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag, member(server.url, "computer", "pc") as pc:
        await ag.next()
        assert await pc.call("server:leave_office", {"office_id": "o9"}) == [False, "[4104] Cross room access denied"]
        assert (await pc.call("server:leave_office", {}))[1].startswith("[400] ")
        assert await pc.call("server:leave_office", {"office_id": "o1"}) == [True, None]
        assert await pc.call("server:leave_office", {"office_id": "o1"}) == [False, "[4103] Not in room"]
        await pc.emit("server:update_config", {"computer": "pc"})
        await pc.settle()
        await ag.settle()
        assert ag.frames == ['2/smcp,["notify:leave_office",{"office_id":"o1","computer":"pc"}]']


@pytest.mark.spec("W-ROOM-25", "W-ROOM-6")
@pytest.mark.parametrize("how", ["close", "cut", "namespace", "engine"])
async def test_however_a_connection_ends_its_member_has_left(server: Serving, how: str) -> None:
    async with member(server.url, "agent", "ag") as ag, raw_peer(server.url) as pc:
        await pc.connect()
        assert await pc.join("computer", "pc") == [True, None]
        await ag.next()
        if how == "close":
            await pc.close()
        elif how == "cut":
            pc.cut()
        elif how == "namespace":
            await pc.send("1/smcp,")
        else:
            await pc.send_raw("1")
        assert await ag.next() == '2/smcp,["notify:leave_office",{"office_id":"o1","computer":"pc"}]'
        async with member(server.url, "computer", "pc") as again:
            await again.settle()


@pytest.mark.spec("W-ROOM-25")
async def test_a_peer_that_left_the_namespace_may_connect_to_it_again(server: Serving) -> None:
    async with raw_peer(server.url) as peer:
        await peer.connect()
        first = peer.sid
        assert await peer.join("agent", "ag") == [True, None]
        await peer.send("1/smcp,")
        assert (await peer.connect()).startswith("0")
        assert peer.sid != first
        # A new session: the role is free again, and so is the name.
        assert await peer.join("computer", "ag") == [True, None]


@pytest.mark.spec("W-ROOM-27", "W-ROOM-28")
async def test_a_reconnected_peer_is_in_no_office_and_told_nothing_of_those_present(server: Serving) -> None:
    async with member(server.url, "computer", "pc"), raw_peer(server.url) as again:
        await again.connect()
        [error] = await again.call("server:list_room", {"agent": "a", "req_id": "1", "office_id": "o1"})
        assert error["code"] == 4103
        assert await again.join("agent", "ag") == [True, None]
        await again.settle()
        assert again.frames == []
        [room] = await again.call("server:list_room", {"agent": "a", "req_id": "1", "office_id": "o1"})
        assert sorted(session["name"] for session in room["sessions"]) == ["ag", "pc"]


@pytest.mark.spec("W-ROOM-40", "W-ROOM-41", "W-ROOM-44", "W-ROOM-3", "E-12")
async def test_listing_a_room_row_by_row(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc") as pc,
        member(server.url, "computer", "far", "o2"),
        raw_peer(server.url) as outside,
    ):
        await outside.connect()
        good = {"agent": "whoever", "req_id": "constant", "office_id": "o1"}
        for peer in (ag, pc):
            [room] = await peer.call("server:list_room", good)
            assert room == {
                "sessions": [
                    {"sid": ag.sid, "name": "ag", "office_id": "o1", "role": "agent", "a2c_version": "0.4.0"},
                    {"sid": pc.sid, "name": "pc", "office_id": "o1", "role": "computer", "a2c_version": "0.4.0"},
                ],
                "req_id": "constant",
            }
        rows: list[tuple[RawPeer, Any, int]] = [
            (outside, good, 4103),
            (ag, good | {"office_id": "o2"}, 4104),
            (ag, good | {"office_id": "nowhere"}, 4104),
            (ag, {"office_id": "o1"}, 400),
            (ag, "o1", 400),
        ]
        for peer, payload, code in rows:
            [error] = await peer.call("server:list_room", payload)
            assert error["code"] == code
            assert isinstance(error["message"], str)


@pytest.mark.spec("W-ROOM-2")
async def test_an_office_named_like_a_session_hears_nothing_meant_for_that_session(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "spy", ag.sid) as spy,
        member(server.url, "computer", "pc"),
    ):
        await ag.settle()
        await spy.settle()
        assert spy.frames == []
        assert [frame for frame in ag.frames if "spy" in frame] == []


@pytest.mark.spec("W-ROOM-32", "W-SRV-3")
async def test_nothing_crosses_from_one_office_to_another(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag1", "o1") as ag1,
        member(server.url, "computer", "pc1", "o1") as pc1,
        member(server.url, "agent", "ag2", "o2") as ag2,
        member(server.url, "computer", "pc2", "o2") as pc2,
    ):
        for peer in (ag1, pc1, ag2, pc2):
            await peer.settle()
            peer.frames.clear()
        await pc1.emit("server:update_tool_list", {"computer": "pc1"})
        await pc1.emit("server:update_tool_list", {"computer": "pc2"})
        await ag1.emit("server:tool_call_cancel", {"agent": "ag2", "req_id": "r"})
        [error] = await ag1.call("client:get_config", {"agent": "ag1", "req_id": "1", "computer": "pc2"})
        assert error["code"] == 4104
        await pc1.call("server:leave_office", {"office_id": "o1"})
        for peer in (pc1, ag1, ag2, pc2):
            await peer.settle()
        assert ag2.frames == pc2.frames == []
