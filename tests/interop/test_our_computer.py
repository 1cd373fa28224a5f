"""Our Computer for an official Agent, in an office of our Server and in one of an official Server."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.runtime import Computer
from smcp_runtime.server.app import serve
from smcp_runtime.wire.codes import CODES
from support.doorman import doorman
from support.leftovers import processes
from support.official import Official, OfficialError, OfficialPeer
from support.peers import Peers
from support.servers import open_options
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio

TOOLS = "echo,add,fail,sleep,big,binary,pid,safe_read,dangerous_delete,count"
SERVERS = ("our Server", "official Server")


@asynccontextmanager
async def office(kind: str, official: Official) -> AsyncIterator[str]:
    """URL of a Server of this kind."""
    if kind == "our Server":
        async with serve(options=open_options()) as running:
            yield running.url
    else:
        peer = await official.server()
        yield peer.facts["url"]


@pytest.fixture(params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(kind: str, official: Official) -> AsyncIterator[str]:
    async with office(kind, official) as url:
        yield url


def declared(log: Path) -> dict[str, Any]:
    """A configuration that fills every field a reply can have."""
    full = light("Main (display)", "--resources", "5", "--page-size", "2", "--log", str(log), tools=TOOLS)
    full |= {
        "bundle_id": "main",
        "forbidden_tools": ["dangerous_delete"],
        "tool_meta": {
            "add": {"auto_apply": True, "tags": ["sums"], "ret_object_mapper": {"sum": "total"}},
            "safe_read": {"auto_apply": False},
            "pid": {"auto_apply": True, "alias": "who"},
        },
        "default_tool_meta": {"auto_apply": True, "tags": ["light"]},
        "vrl": ".seen = [.tool_name, .content[0].text]",
    }
    full["server_parameters"]["env"] = {"TOKEN": "${input:token}", "KEY": "typed-s3cret"}
    remote = {
        "name": "remote",
        "type": "streamable",
        "disabled": True,
        "server_parameters": {
            "url": "http://u:pw-s3cret@127.0.0.1:9/mcp?key=q-s3cret",
            "headers": {"Authorization": "Bearer h-s3cret", "X": "Bearer ${input:token}"},
        },
    }
    old = {"name": "old", "type": "sse", "disabled": True, "server_parameters": {"url": "http://127.0.0.1:9/sse"}}
    inputs = [
        {"type": "promptString", "id": "token", "description": "d", "password": True, "default": "d-s3cret"},
        {"type": "pickString", "id": "pick", "description": "d", "options": [{"label": "One", "value": "1"}]},
        {"type": "command", "id": "run", "description": "d", "command": "printf x"},
    ]
    return config(full, light("bare"), remote, old, inputs=inputs)


@asynccontextmanager
async def joined(url: str, log: Path) -> AsyncIterator[Computer]:
    """Our Computer in the office, with its servers up."""
    async with Computer.from_config(declared(log), options(env={"A2C_SMCP_token": "resolved-s3cret"})) as computer:
        await computer.connect(url, office="lab")

        async def up() -> bool:
            known = (await computer.diagnostics()).servers
            return {"main", "bare"} <= {s.bundle_id for s in known if s.connection == "connected"}

        await until(up, 15)
        yield computer


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "heard"
    path.touch()
    return path


@pytest.fixture
async def desk(url: str, log: Path) -> AsyncIterator[Computer]:
    async with joined(url, log) as computer:
        yield computer


@pytest.fixture
async def planner(official: Official, url: str, desk: Computer) -> OfficialPeer:
    return await official.agent(url, "lab", "planner")


def heard(log: Path) -> str:
    """What the MCP server `main` wrote down of what reached it."""
    return log.read_text("utf-8")


async def call(planner: OfficialPeer, tool: str, timeout: int = 15, **params: Any) -> dict[str, Any]:
    """A tool call in the Agent's own way: it fetches blobs and drops what it does not know."""
    result = await planner.do("call", computer="desk", tool_name=tool, params=params, timeout=timeout)
    assert isinstance(result, dict)
    return result


def request(event: str, **more: Any) -> dict[str, Any]:
    """A request as it goes over the wire; its reply comes back as it arrived."""
    base = {"agent": "planner", "req_id": f"r-{event}", "computer": "desk"}
    return {"event": f"client:{event}", "data": {**base, **more}}


# --- handshake and rooms -------------------------------------------------------------------------------------


@pytest.mark.spec("W-HS-1", "W-HS-18", "W-ROOM-19", "W-ROOM-40", "W-CMP-1")
async def test_it_connects_with_its_version_and_joins(planner: OfficialPeer, desk: Computer) -> None:
    ask = {"agent": "planner", "req_id": "r-1", "office_id": "lab"}
    members = (await planner.do("raw", event="server:list_room", data=ask))["sessions"]
    assert sorted((m["name"], m["role"]) for m in members) == [("desk", "computer"), ("planner", "agent")]
    assert {m["a2c_version"] for m in members} == {"0.4.0"}
    assert (await desk.diagnostics()).link.transport == "websocket"


@pytest.mark.spec("W-ROOM-16", "R-LIFE-12")
async def test_a_name_that_is_taken_is_a_refused_join_and_the_connection_stays(
    url: str, desk: Computer, tmp_path: Path
) -> None:
    del desk
    async with Computer.from_config(config(), options()) as twin:
        with pytest.raises(Exception) as refused:  # noqa: PT011  its class depends on whether the Server sends a code
            await twin.connect(url, office="lab")
        assert getattr(refused.value, "code", None) == "join_failed"
        assert twin.phase == "connected"


@pytest.mark.spec("W-CMP-5", "W-ROOM-21", "R-LIFE-14")
async def test_the_agent_hears_it_enter_and_leave_and_asks_for_its_tools_by_itself(
    official: Official, url: str, log: Path
) -> None:
    planner = await official.agent(url, "lab", "planner")
    async with joined(url, log) as desk:
        assert (await planner.event("enter_office"))["data"] == {"office_id": "lab", "computer": "desk"}
        await planner.peer.line(r'"tools_received", "computer": "desk".*main__echo')
        await desk.leave()
        assert (await planner.event("leave_office"))["data"] == {"office_id": "lab", "computer": "desk"}
        await desk.join("lab")
        await until(lambda: len(planner.events("enter_office")) == 2)
        await desk.disconnect()
        await until(lambda: len(planner.events("leave_office")) == 2)


# --- tools ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("E-2", "W-META-2", "W-EXP-1", "W-REL-2")
async def test_its_tools_arrive_whole(planner: OfficialPeer) -> None:
    tools = {tool["name"]: tool for tool in (await planner.do("tools", computer="desk"))["tools"]}
    names = ["add", "big", "binary", "count", "echo", "fail", "safe_read", "sleep", "who"]
    assert list(tools) == ["bare__echo", *[f"main__{name}" for name in names]]
    add = tools["main__add"]
    assert (add["bundle_id"], add["description"], add["return_schema"]) == ("main", "The tool add", None)
    assert add["params_schema"]["required"] == ["a", "b"]
    merged = json.loads(add["meta"]["a2c_tool_meta"])
    assert (merged["tags"], merged["auto_apply"], merged["ret_object_mapper"]) == (["sums"], True, {"sum": "total"})
    assert json.loads(add["meta"]["MCP_TOOL_ANNOTATION"])["readOnlyHint"] is True


@pytest.mark.spec("E-1", "C-1", "C-2", "W-CALL-8", "W-CALL-19", "W-CALL-22")
async def test_calls_succeed_fail_and_carry_their_metadata(planner: OfficialPeer) -> None:
    result = await call(planner, "main__add", a=2, b=3)
    assert (result["isError"], result["structuredContent"]) == (False, {"sum": 5})
    raw = await planner.do("raw", **request("tool_call", tool_name="main__add", params={"a": 2, "b": 3}, timeout=10))
    assert json.loads(raw["meta"]["a2c_vrl_transformed"])["seen"] == ["add", "5"]
    assert raw["meta"]["a2c_tool_meta"]["tags"] == ["sums"]
    assert (await call(planner, "main__who"))["content"][0]["text"].isdigit()
    failed = await call(planner, "main__fail", text="no")
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "no")


@pytest.mark.spec("C-3", "C-4", "C-5", "W-CALL-5", "W-CALL-6", "W-CALL-7", "W-REL-1")
async def test_refused_calls_keep_their_codes_whatever_relays_them(planner: OfficialPeer) -> None:
    codes = {}
    for tool in ("main__nothing", "main__dangerous_delete", "main__safe_read", "remote__x"):
        raw = await planner.do("raw", **request("tool_call", tool_name=tool, params={}, timeout=5))
        assert raw["isError"] is True
        assert raw["content"][0]["text"]
        assert raw["meta"]["a2c_outcome"] == "not_executed"
        codes[tool] = raw["meta"]["error_code"]
        assert (await call(planner, tool))["isError"] is True
    assert codes == {
        "main__nothing": 4001,
        "main__dangerous_delete": 4002,
        "main__safe_read": 4005,
        "remote__x": 4001,
    }


@pytest.mark.spec("C-10", "W-CALL-4", "W-REL-4")
async def test_a_malformed_call_is_a_result_too(planner: OfficialPeer, log: Path) -> None:
    raw = await planner.do("raw", **request("tool_call", tool_name="main__echo", params={}, timeout=3601), timeout=5)
    assert (raw["isError"], raw["meta"]["error_code"]) == (True, 400)
    assert '"tools/call"' not in heard(log)


@pytest.mark.spec("C-8", "W-CALL-13", "W-CALL-14", "W-CALL-15", "DEC-12")
async def test_a_cancel_ends_the_call_here_and_at_the_mcp_server(planner: OfficialPeer, log: Path) -> None:
    ask = request("tool_call", tool_name="main__sleep", params={"seconds": 60}, timeout=60)
    calling = planner.order("raw", **ask)
    await until(lambda: '"tools/call"' in heard(log))
    cancel = {"agent": "planner", "req_id": ask["data"]["req_id"]}
    await planner.do("raw", event="server:tool_call_cancel", data=cancel, timeout=5)
    with anyio.fail_after(5):
        result = await planner.outcome(calling)
    assert result["isError"] is True
    assert result["meta"]["a2c_cancelled"] is True
    assert result["meta"]["a2c_cancel_reason"] == "agent_requested"
    assert "error_code" not in result["meta"]
    await until(lambda: "notifications/cancelled" in heard(log))
    assert (await call(planner, "main__echo", text="still here"))["content"][0]["text"] == "still here"


@pytest.mark.spec("C-7", "W-CALL-10", "W-D-4")
async def test_a_call_over_its_limit_ends_and_the_server_hears_of_it(
    kind: str, planner: OfficialPeer, log: Path
) -> None:
    ask = request("tool_call", tool_name="main__sleep", params={"seconds": 60}, timeout=1)
    calling = planner.order("raw", **ask, timeout=4)
    if kind == "our Server":
        result = await planner.outcome(calling)
        assert (result["meta"]["a2c_timeout"], result["meta"]["error_code"]) == (True, 4004)
        assert result["meta"]["a2c_outcome"] == "unknown"
    else:
        # It gives up at the very moment of our answer and acknowledges nothing.
        with pytest.raises(OfficialError):
            await planner.outcome(calling)
    await until(lambda: "notifications/cancelled" in heard(log))
    assert (await call(planner, "main__echo", text="still here"))["content"][0]["text"] == "still here"


@pytest.mark.spec("W-CALL-17")
async def test_fifty_calls_at_once_each_get_their_own_answer(planner: OfficialPeer) -> None:
    words = {"computer": "desk", "tool_name": "main__echo", "timeout": 20}
    orders = [planner.order("call", **words, params={"text": f"call {n}"}) for n in range(50)]
    for number, order in enumerate(orders):
        assert (await planner.outcome(order))["content"][0]["text"] == f"call {number}"


@pytest.mark.spec("C-9", "W-UP-2", "W-UP-6", "W-D-3", "R-FIX-4", "U-2")
@pytest.mark.parametrize("transport", ["streamable", "sse"])
async def test_an_upstream_refusal_reaches_the_agent_at_once_with_its_code(
    planner: OfficialPeer, desk: Computer, peers: Peers, transport: str
) -> None:
    script = ("-m", "smcp_runtime.fixtures.servers.sdk_everything", "--transport", transport)
    upstream = peers.python(*script).wait_line(r"ready url=(\S+)", timeout=30)[1]
    async with doorman(upstream) as door:
        vault = {"name": "The vault", "bundle_id": "vault", "type": transport, "server_parameters": {"url": door.url}}
        await desk.mount({**vault, "default_tool_meta": {"auto_apply": True}})
        await planner.peer.line(r'"tools_received".*vault__echo')
        door.refuse(401)
        began = time.monotonic()
        result = await call(planner, "vault__echo", text="x")
        assert time.monotonic() - began < 2
        meta = result["_meta"]  # the spelling of its own model
        assert (result["isError"], meta["error_code"], meta["mcp_server"]) == (True, 4006, "vault")
        assert meta["auth_hint"]["message"]
        door.admit()
        assert (await call(planner, "vault__echo", text="after"))["content"][0]["text"] == "after"
        await desk.unmount("vault")


# --- large results --------------------------------------------------------------------------------------------


@pytest.mark.spec("W-CALL-24", "C-BLOB-22", "C-BLOB-23")
@pytest.mark.parametrize("size", [32_768, 32_769, 700_000])
async def test_the_agent_gets_a_large_image_as_if_it_had_been_inline(planner: OfficialPeer, size: int) -> None:
    (item,) = (await call(planner, "main__binary", bytes=size))["content"]
    assert (item["type"], item["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(item["data"]) == bytes(i % 251 for i in range(size))
    assert not any(key.startswith("a2c_") for key in item.get("_meta") or {})


@pytest.mark.spec("DEC-18", "C-BLOB-27", "W-CALL-21")
async def test_a_text_above_the_packet_limit_is_fetched_whole_and_the_connection_stays(
    planner: OfficialPeer, desk: Computer
) -> None:
    generation = (await desk.diagnostics()).link.generation
    start, whole = (await call(planner, "main__big", bytes=3_000_000))["content"]
    assert 0 < len(start["text"]) < 1_000_000
    assert base64.b64decode(whole["resource"]["blob"]) == b"x" * 3_000_000
    assert (await desk.diagnostics()).link.generation == generation
    assert planner.events("leave_office") == []


# --- configuration and resources ------------------------------------------------------------------------------


@pytest.mark.spec("E-3", "W-CFG-1", "W-CFG-2", "W-CFG-3", "W-CFG-4", "W-CFG-5", "DEC-19", "DEC-30")
async def test_its_configuration_arrives_masked(planner: OfficialPeer) -> None:
    shown = await planner.do("config", computer="desk")
    assert "s3cret" not in json.dumps(shown)
    assert set(shown["servers"]) == {"main", "bare", "remote", "old"}
    main = shown["servers"]["main"]
    assert (main["name"], main["bundle_id"], main["type"]) == ("Main (display)", "main", "stdio")
    assert main["server_parameters"]["env"] == {"TOKEN": "${input:token}", "KEY": "[REDACTED]"}
    remote = shown["servers"]["remote"]
    assert remote["disabled"] is True
    assert remote["server_parameters"]["headers"] == {
        "Authorization": "[REDACTED]",
        "X": "Bearer ${input:token}",
    }
    assert remote["server_parameters"]["timeout"] == "PT30S"
    assert shown["servers"]["old"]["server_parameters"]["timeout"] == 5.0
    assert [one["id"] for one in shown["inputs"]] == ["token", "pick", "run"]


@pytest.mark.spec("E-5", "W-RES-1")
async def test_its_resources_arrive_page_by_page(planner: OfficialPeer) -> None:
    uris: list[str] = []
    cursor: dict[str, str] = {}
    sizes = []
    while True:
        page = await planner.do("resources", computer="desk", mcp_server="main", **cursor)
        sizes.append(len(page["resources"]))
        uris += [resource["uri"] for resource in page["resources"]]
        if not page.get("next_cursor"):
            break
        cursor = {"cursor": page["next_cursor"]}
    assert (sizes, uris) == ([2, 2, 1], [f"memo://note/{n}" for n in range(5)])


@pytest.mark.spec("W-RES-2", "W-REL-3", "W-ERR-4")
@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("nobody", {"code": 4014, "mcp_server": "nobody"}),
        ("remote", {"code": 4014, "mcp_server": "remote"}),
        ("bare", {"code": 4015, "mcp_server": "bare", "capability": "resources"}),
    ],
)
async def test_resources_that_are_not_there_have_a_code_the_agent_knows(
    planner: OfficialPeer, server: str, expected: dict[str, Any]
) -> None:
    with pytest.raises(OfficialError) as raised:
        await planner.do("resources", computer="desk", mcp_server=server)
    assert raised.value.code == expected["code"]
    raw = await planner.do("raw", **request("get_resources", mcp_server=server))
    assert expected.items() <= raw.items()


@pytest.mark.spec("W-RES-2", "DEC-34")
async def test_a_stopped_server_is_4014_for_resources(planner: OfficialPeer, desk: Computer) -> None:
    await desk.control("main", "stop")
    with pytest.raises(OfficialError) as raised:
        await planner.do("resources", computer="desk", mcp_server="main")
    assert raised.value.code == 4014


# --- changes --------------------------------------------------------------------------------------------------


@pytest.mark.spec("E-14", "E-15", "E-22", "E-23", "W-CMP-4", "R-PROJ-3")
async def test_what_is_mounted_and_unmounted_at_run_time_is_told_and_seen(
    planner: OfficialPeer, desk: Computer
) -> None:
    await desk.mount(light("late"))
    assert (await planner.event("update_config"))["data"] == {"computer": "desk"}
    assert (await planner.event("update_tool_list"))["data"] == {"computer": "desk"}
    await planner.peer.line(r'"tools_received", "computer": "desk".*late__echo')
    assert (await call(planner, "late__echo", text="x"))["content"][0]["text"] == "x"
    told = len(planner.events("update_tool_list"))
    await desk.unmount("late")
    await until(lambda: len(planner.events("update_tool_list")) > told)
    await until(lambda: "late__echo" not in str(planner.events("tools_received")[-1]))
    assert (await call(planner, "late__echo", text="x"))["isError"] is True
    assert set((await planner.do("config", computer="desk"))["servers"]) == {"main", "bare", "remote", "old"}


@pytest.mark.spec("C-12", "C-14", "DEC-10", "DEC-25")
async def test_a_server_that_dies_in_mid_call_is_an_answer_and_comes_back(
    planner: OfficialPeer, desk: Computer
) -> None:
    await desk.mount(light("mortal", tools="die,echo"))
    await planner.peer.line(r'"tools_received".*mortal__die')
    raw = await planner.do("raw", **request("tool_call", tool_name="mortal__die", params={}, timeout=10))
    assert (raw["meta"]["error_code"], raw["meta"]["a2c_outcome"]) == (4003, "unknown")
    assert (await call(planner, "main__echo", text="x"))["content"][0]["text"] == "x"

    async def back() -> bool:
        return (await call(planner, "mortal__echo", text="again"))["isError"] is False

    await until(back, 10)


@pytest.mark.spec("R-LIFE-20", "W-CMP-5", "DEC-26")
async def test_a_shutdown_answers_what_runs_tells_the_agent_and_leaves_no_process(
    planner: OfficialPeer, desk: Computer, log: Path
) -> None:
    calling = planner.order("raw", **request("tool_call", tool_name="main__sleep", params={"seconds": 30}, timeout=30))
    await until(lambda: '"tools/call"' in heard(log))
    servers = {server.pid for server in (await desk.diagnostics()).servers if server.pid}
    await desk.shutdown()
    result = await planner.outcome(calling)
    assert (result["meta"]["error_code"], result["meta"]["a2c_outcome"]) == (4003, "unknown")
    assert (await planner.event("leave_office"))["data"]["computer"] == "desk"
    assert not servers & processes()


# --- what an official Server lets through ---------------------------------------------------------------------

REPLIES: list[tuple[str, dict[str, Any]]] = [
    ("get_tools", {}),
    ("get_config", {}),
    ("get_resources", {"mcp_server": "main"}),
    ("get_resources", {"mcp_server": "nobody"}),
    ("get_resources", {"mcp_server": "bare"}),
    ("tool_call", {"tool_name": "main__add", "params": {"a": 1, "b": 2}, "timeout": 10}),
    ("tool_call", {"tool_name": "main__nothing", "params": {}, "timeout": 10}),
    ("tool_call", {"tool_name": "main__fail", "params": {}, "timeout": 10}),
    ("tool_call", {"tool_name": "main__safe_read", "params": {}, "timeout": 10}),
]


@pytest.mark.spec("W-REL-1", "W-REL-2", "W-REL-3", "W-REL-4", "W-REL-5", "W-META-1", "W-CFG-5")
async def test_an_official_server_passes_every_reply_on_exactly_as_ours_does(
    official: Official, tmp_path: Path
) -> None:
    seen: dict[str, list[Any]] = {}
    for kind in SERVERS:
        log = tmp_path / "heard"
        log.touch()
        async with office(kind, official) as url, joined(url, log):
            planner = await official.agent(url, "lab", "planner")
            seen[kind] = [await planner.do("raw", **request(event, **more)) for event, more in REPLIES]
            await planner.stop()
    for (event, more), ours, theirs in zip(REPLIES, seen[SERVERS[0]], seen[SERVERS[1]], strict=True):
        assert isinstance(theirs, dict), (event, more)
        assert theirs == ours, (event, more)
        if "code" in theirs:
            assert CODES[theirs["code"]].survives
