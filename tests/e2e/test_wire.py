"""What leaves a real Computer on the wire, seen by a Server that is not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.runtime import Computer
from smcp_runtime.wire.codes import CODES
from smcp_runtime.wire.events import CALLS
from support.recording_server import RecordingServer
from support.stack import config, light, open_stack, options

pytestmark = pytest.mark.anyio

BASE = {"agent": "a", "req_id": "r", "computer": "desk"}
ASKED: dict[str, dict[str, Any]] = {
    "client:tool_call": {"tool_name": "srv__echo", "params": {"text": "x"}, "timeout": 5},
    "client:get_tools": {},
    "client:get_config": {},
    "client:get_desktop": {},
    "client:get_resources": {"mcp_server": "unknown"},
    "client:get_skills": {},
    "client:get_skill": {"name": "no-such-skill"},
    "client:get_blob": {"blob_handle": "nobody-made-this"},
    "client:put_blob": {"chunk_offset": 0, "eof": True, "blob": "", "total_size": 1, "sha256": "0" * 64},
    "client:list_finder": {},
    "client:get_dpe": {"uri": "dpe://h/doc"},
}
OFFICIAL = sorted(event for event in CALLS if event not in ("client:list_finder", "client:get_dpe"))


@pytest.mark.spec("W-REL-5", "W-CMP-2", "W-ARCH-5")
async def test_every_event_well_made_or_not_is_acknowledged_with_exactly_one_object() -> None:
    assert set(ASKED) == set(CALLS)
    async with RecordingServer() as server, Computer.from_config(config(light("srv")), options()) as computer:
        await computer.connect(server.url, office="lab")
        for event, more in ASKED.items():
            for payload in ({**BASE, **more}, {**BASE, "computer": "other", **more}, {"agent": 5}, None, [1]):
                answer = await server.ask(event, payload)
                assert isinstance(answer, dict), (event, payload, answer)


@pytest.mark.spec("W-REL-4", "W-REL-3")
async def test_a_refusal_that_leaves_a_choice_uses_a_code_that_an_official_server_passes_on() -> None:
    async with RecordingServer() as server, Computer.from_config(config(), options()) as computer:
        await computer.connect(server.url, office="lab")
        for event in OFFICIAL:
            answer = await server.ask(event, {**BASE, **ASKED[event]})
            if "code" in answer:
                assert CODES[answer["code"]].survives, (event, answer)
        await computer.leave()
        for event in OFFICIAL:
            if event == "client:tool_call":
                continue  # its refusals are results
            answer = await server.ask(event, {**BASE, **ASKED[event]})
            assert answer["code"] == 404, (event, answer)


@pytest.mark.spec("T-SEC-7", "R-MCP-3", "F-39")
async def test_t_sec_7_a_child_process_has_the_basic_variables_and_the_declared_ones_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOST_S3CRET", "not for servers")
    monkeypatch.setenv("PASSED_ON", "by name")
    entry = light("srv", tools="env")
    entry["server_parameters"]["env"] = {"DECLARED": "here", "COPIED": "${env:PASSED_ON}"}
    async with open_stack(config(entry)) as stack:
        found = json.loads(await stack.text("srv__env"))
        basic = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
        # An interpreter adds its locale by itself.
        assert set(found) - basic - {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"} == {"DECLARED", "COPIED"}
        assert (found["DECLARED"], found["COPIED"]) == ("here", "by name")
