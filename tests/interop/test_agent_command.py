"""`smcp agent` in an office of official peers: what it prints, where, and the status it ends with."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.fixtures import config
from support.official import Official, OfficialPeer
from support.peers import Peer, Peers

pytestmark = pytest.mark.anyio


class Command:
    """`smcp agent …` in one office."""

    def __init__(self, peers: Peers, url: str) -> None:
        self._peers, self._url = peers, url

    def start(self, *words: str) -> Peer:
        smcp = (sys.executable, "-m", "smcp_runtime.cli.main", "agent")
        return self._peers.start([*smcp, *words, "--url", self._url, "--office", "lab"])

    async def run(self, *words: str) -> tuple[int, list[str], list[str]]:
        """Status, lines of stdout, lines of stderr."""
        peer = self.start(*words)
        status = await peer.exit(timeout=20)
        return status, peer.lines, peer.errors

    async def document(self, *words: str) -> tuple[int, Any]:
        """Status, and the one JSON document on stdout."""
        status, lines, errors = await self.run(*words, "--json")
        assert len(lines) == 1, (lines, errors)
        return status, json.loads(lines[0])


@pytest.fixture
async def server(official: Official) -> OfficialPeer:
    return await official.server()


@pytest.fixture
def smcp(peers: Peers, server: OfficialPeer) -> Command:
    return Command(peers, server.facts["url"])


@pytest.fixture
async def desk(official: Official, server: OfficialPeer) -> OfficialPeer:
    return await official.computer(server.facts["url"], "lab", "desk", servers=config("stdio")["mcp_servers"])


@pytest.mark.usefixtures("desk")
async def test_each_verb_prints_the_document_of_its_answer(smcp: Command) -> None:
    status, tools = await smcp.document("tools")
    assert status == 0
    assert "echo_srv_display__echo" in [tool["name"] for tool in tools["tools"]]
    assert "req_id" in tools

    status, result = await smcp.document("call", "echo_srv_display__echo", "--params", '{"text": "hello"}')
    assert (status, result["content"], result["isError"]) == (0, [{"type": "text", "text": "hello"}], False)

    status, shown = await smcp.document("config", "--computer", "desk")
    assert (status, shown["servers"]["echo_srv_display"]["type"]) == (0, "stdio")

    status, present = await smcp.document("room", "--name", "planner")
    assert (status, sorted(m["name"] for m in present["sessions"])) == (0, ["desk", "planner"])


@pytest.mark.usefixtures("desk")
async def test_results_for_people_are_plain_lines_in_a_pipe(smcp: Command) -> None:
    status, lines, _ = await smcp.run("tools")
    assert status == 0
    assert "echo_srv_display__add" in [line.split("\t")[0] for line in lines]
    status, lines, _ = await smcp.run("call", "echo_srv_display__echo", "--params", '{"text": "one\\ntwo"}')
    assert (status, lines) == (0, ["one", "two"])
    assert not any("\x1b" in line for line in lines)


@pytest.mark.spec("R-CLI-1")
@pytest.mark.usefixtures("desk")
async def test_a_failed_call_prints_its_result_and_ends_with_1(smcp: Command) -> None:
    status, result = await smcp.document("call", "echo_srv_display__fail", "--params", '{"text": "no"}')
    assert (status, result["isError"], result["content"][0]["text"]) == (1, True, "no")
    status, lines, errors = await smcp.run("call", "echo_srv_display__fail", "--params", '{"text": "no"}')
    assert (status, lines) == (1, ["no"])
    assert errors == ["the call failed"]


@pytest.mark.spec("R-CLI-1", "W-ERR-1")
@pytest.mark.usefixtures("desk")
async def test_a_protocol_error_is_printed_flat_and_ends_with_1(smcp: Command) -> None:
    status, payload = await smcp.document("resources", "nobody")
    assert (status, payload["code"]) == (1, 4014)
    status, lines, errors = await smcp.run("resources", "nobody")
    assert (status, lines) == (1, [])
    assert errors[0].startswith("error 4014: ")


@pytest.mark.spec("R-CLI-1")
async def test_no_computer_to_ask_is_a_failed_operation(smcp: Command) -> None:
    status, facts = await smcp.document("tools")
    assert (status, facts["category"]) == (1, "validation")
    assert facts["retry_hint"].startswith("have a Computer join the office")


@pytest.mark.usefixtures("desk")
async def test_a_file_that_is_none_is_told_with_what_to_do_about_files(smcp: Command, tmp_path: Path) -> None:
    for name in ("none", "."):
        status, facts = await smcp.document("put", str(tmp_path / name))
        assert (status, facts["retry_hint"]) == (1, "name a regular file that can be read")


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words",
    [
        ["tools", "--colour"],
        ["call"],
        ["call", "x", "--params", "{oops"],
        ["call", "x", "--params", "[1]"],
        ["call", "x", "--timeout", "0"],
        ["tools", "--auth-env", "SURELY_NOT_SET"],
    ],
    ids=" ".join,
)
async def test_wrong_usage_ends_with_2_and_says_nothing_on_stdout(smcp: Command, words: list[str]) -> None:
    status, lines, errors = await smcp.run(*words)
    assert (status, lines) == (2, [])
    assert any("Error" in line for line in errors)


@pytest.mark.spec("R-CLI-1")
async def test_a_server_that_is_not_there_ends_with_2(peers: Peers) -> None:
    status, facts = await Command(peers, "http://127.0.0.1:9").document("room")
    assert (status, facts["category"]) == (2, "network")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_watch_prints_a_line_for_each_notification_until_it_is_interrupted(
    smcp: Command, official: Official, server: OfficialPeer, number: signal.Signals
) -> None:
    watching = smcp.start("watch", "--json")
    await watching.line("watching lab", of="errors")
    await official.computer(server.facts["url"], "lab", "late")
    entered = json.loads((await watching.line("notify:enter_office")).string)
    assert entered["payload"] == {"office_id": "lab", "computer": "late"}
    watching.signal(number)
    assert await watching.exit() == 0


@pytest.mark.spec("W-CALL-15", "R-CLI-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_an_interrupted_call_is_cancelled_where_it_runs(
    peers: Peers, official: Official, server: OfficialPeer, number: signal.Signals, tmp_path: Any
) -> None:
    declared = config("stdio")["mcp_servers"][0]
    declared["server_parameters"]["args"] += ["--log", str(tmp_path / "log")]
    await official.computer(server.facts["url"], "lab", "desk", servers=[declared])
    calling = Command(peers, server.facts["url"]).start(
        "call", "echo_srv_display__sleep", "--params", '{"seconds": 60}'
    )
    log = peers.start(["tail", "-n", "+1", "-F", tmp_path / "log"])
    await log.line(r'"tools/call"')
    calling.signal(number)
    assert await calling.exit() == 1
    assert calling.errors == ["the call of echo_srv_display__sleep was cancelled"]
    await log.line(r"notifications/cancelled")
