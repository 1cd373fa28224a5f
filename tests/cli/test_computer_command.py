"""`smcp computer` and `smcp demo` as somebody starts them: ready lines, statuses, and nothing left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from smcp_runtime import fixtures
from support.alive import runs
from support.command import smcp as in_this_process
from support.peers import Peer, Peers

SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")


def smcp(peers: Peers, *words: str, **environment: str) -> Peer:
    return peers.start([*SMCP, *words], env={**os.environ, **environment})


def ended(peers: Peers, *words: str, **environment: str) -> Peer:
    peer = smcp(peers, *words, **environment)
    peer.wait_exit(timeout=30)
    return peer


def server(peers: Peers, *words: str, **environment: str) -> str:
    return smcp(peers, "server", "--port", "0", *words, **environment).wait_line(r"^ready url=(\S+)", timeout=20)[1]


def mcp_file(tmp_path: Path, name: str = "stdio") -> str:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({"servers": fixtures.config(name)["mcp_servers"]}))
    return str(path)


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return False


def running(pid: int) -> bool:
    return psutil.pid_exists(pid) and runs(psutil.Process(pid))


def gone(pids: list[int], limit: float = 5.0) -> bool:
    return within(limit, lambda: not any(map(running, pids)))


def test_run_prints_one_line_once_it_has_joined_and_an_agent_can_call_its_tools(peers: Peers, tmp_path: Path) -> None:
    url = server(peers)
    run = smcp(
        peers, "computer", "run", "--name", "desk", "--mcp-config", mcp_file(tmp_path), "--url", url, "--office", "lab"
    )
    assert run.wait_line(r"^ready url=(\S+) pid=(\d+)$", timeout=20).groups() == (url, str(run.pid))
    assert len(run.lines) == 1
    words = ("agent", "call", "echo_srv_display__add", "--params", '{"a":1,"b":2}', "--url", url, "--office", "lab")
    called = ended(peers, *words, "--computer", "desk", "--json")
    assert called.status == 0, called.errors
    assert json.loads(called.lines[0])["content"] == [{"type": "text", "text": "3"}]


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_ten_seconds_with_status_0_and_its_servers_with_it(
    peers: Peers, tmp_path: Path, number: int
) -> None:
    url = server(peers)
    words = ("--name", "desk", "--mcp-config", mcp_file(tmp_path), "--url", url, "--office", "lab")
    run = smcp(peers, "computer", "run", *words)
    run.wait_line(r"^ready", timeout=20)
    servers = [process.pid for process in run.descendants()]
    assert servers
    run.signal(number)
    assert run.wait_exit(timeout=10) == 0
    assert gone(servers)
    room = ended(peers, "agent", "room", "--url", url, "--office", "lab", "--json")
    assert [member["role"] for member in json.loads(room.lines[0])["sessions"]] == ["agent"]


@pytest.mark.spec("R-CLI-1")
def test_a_signal_ends_a_computer_whose_server_ignores_everything_too(peers: Peers, tmp_path: Path) -> None:
    path = tmp_path / "mute.json"
    mute = fixtures.light_stdio("--mute-initialize", "--ignore-term", "--ignore-eof")
    path.write_text(json.dumps({"servers": {"mute": {"type": "stdio", "command": mute[0], "args": mute[1:]}}}))
    run = smcp(peers, "computer", "run", "--name", "desk", "--mcp-config", str(path))
    run.wait_line(r"^ready url=none pid=", timeout=20)
    servers = [process.pid for process in run.descendants()]
    run.signal(signal.SIGTERM)
    assert run.wait_exit(timeout=10) == 0
    assert gone(servers)


@pytest.mark.spec("R-LIFE-23", "DEC-1")
def test_status_shows_a_running_computer_and_says_when_there_is_none(peers: Peers, tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    good = fixtures.light_stdio("--tools", "echo")
    servers = {"good": {"command": good[0], "args": good[1:]}, "bad": {"command": "no-such-command-anywhere"}}
    path.write_text(json.dumps({"servers": servers}))
    run = smcp(peers, "computer", "run", "--name", "desk of mine", "--mcp-config", str(path))
    run.wait_line(r"^ready", timeout=20)

    def status() -> dict[str, Any]:
        asked = ended(peers, "computer", "status", "--name", "desk of mine", "--json")
        assert asked.status == 0, asked.errors
        known: dict[str, Any] = json.loads(asked.lines[0])
        known["servers"] = {server["bundle_id"]: server for server in known["servers"]}
        return known

    assert within(20, lambda: status()["servers"]["good"]["connection"] == "connected")
    known = status()
    assert (known["name"], known["state"]) == ("desk of mine", "degraded")
    by_id = known["servers"]
    assert "no-such-command-anywhere" in by_id["bad"]["reason"]
    shown = ended(peers, "computer", "status", "--name", "desk of mine")
    assert shown.lines[0] == "desk of mine: degraded"
    assert shown.lines[1].split("\t")[:3] == ["SERVER", "STATE", "RECENT RESTARTS"]
    assert any(line.startswith("good\tready") for line in shown.lines)
    run.signal(signal.SIGKILL)
    run.wait_exit()
    assert ended(peers, "computer", "status", "--name", "desk of mine").status == 2
    again = smcp(peers, "computer", "run", "--name", "desk of mine")
    again.wait_line(r"^ready", timeout=20)
    assert ended(peers, "computer", "status", "--name", "desk of mine").status == 0
    again.signal(signal.SIGTERM)
    assert again.wait_exit() == 0
    assert ended(peers, "computer", "status", "--name", "desk of mine").status == 2


@pytest.mark.spec("DEC-8")
def test_a_computer_that_is_killed_hard_takes_its_servers_with_it_however_stubborn(
    peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "stubborn.json"
    command, *arguments = fixtures.light_stdio("--ignore-term", "--ignore-eof", "--grandchild")
    path.write_text(json.dumps({"servers": {"s": {"type": "stdio", "command": command, "args": arguments}}}))
    run = smcp(peers, "computer", "run", "--name", "desk", "--mcp-config", str(path))
    run.wait_line(r"^ready", timeout=20)
    family = [process.pid for process in run.descendants()]
    assert len(family) >= 3
    run.signal(signal.SIGKILL)
    run.wait_exit()
    assert gone(family, limit=10)


@pytest.mark.spec("R-CLI-1", "R-LIFE-12")
def test_a_computer_that_is_refused_ends_with_the_status_of_the_reason(peers: Peers) -> None:
    def status(url: str, name: str = "desk", *words: str, **environment: str) -> int:
        run = ended(peers, "computer", "run", "--name", name, "--url", url, "--office", "lab", *words, **environment)
        assert not run.lines
        assert run.status is not None
        return run.status

    assert status("http://127.0.0.1:1") == 2
    guarded = server(peers, "--token-env", "TOKEN", TOKEN="right")
    assert status(guarded, "desk", "--auth-env", "TOKEN", TOKEN="wrong") == 1
    open_ = server(peers)
    other = smcp(peers, "computer", "run", "--name", "desk", "--url", open_, "--office", "lab")
    other.wait_line(r"^ready", timeout=20)
    assert status(open_) == 1


@pytest.mark.spec("R-CLI-1", "DEC-17", "R-LIFE-13", "F-78")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_computer_outlives_restarts_of_its_server_and_is_back_each_time(
    peers: Peers, tmp_path: Path, number: int
) -> None:
    first = smcp(peers, "server", "--port", "0")
    url = first.wait_line(r"^ready url=(\S+)", timeout=20)[1]
    place = ("--url", url, "--office", "lab")
    run = smcp(peers, "computer", "run", "--name", "desk", "--mcp-config", mcp_file(tmp_path), *place)
    run.wait_line(r"^ready", timeout=20)
    hosted = {process.pid for process in run.descendants()}
    for _ in range(2):
        first.signal(number)
        first.wait_exit()
        first = smcp(peers, "server", "--port", url.rsplit(":", 1)[1])
        first.wait_line(r"^ready", timeout=20)

        def back() -> bool:
            room = ended(peers, "agent", "room", *place, "--json")
            return room.status == 0 and "desk" in room.lines[0]

        assert within(30, back), run.errors
    words = ("--params", '{"a":1,"b":2}', *place, "--computer", "desk", "--json")
    called = ended(peers, "agent", "call", "echo_srv_display__add", *words)
    assert json.loads(called.lines[0])["content"] == [{"type": "text", "text": "3"}]
    assert {process.pid for process in run.descendants()} == hosted
    assert run.status is None


@pytest.mark.spec("R-CLI-1", "R-LIFE-12")
def test_a_computer_whose_server_comes_back_with_another_version_ends_with_status_2(peers: Peers) -> None:
    first = smcp(peers, "server", "--port", "0")
    url = first.wait_line(r"^ready url=(\S+)", timeout=20)[1]
    run = smcp(peers, "computer", "run", "--name", "desk", "--url", url, "--office", "lab")
    run.wait_line(r"^ready", timeout=20)
    first.stop()
    port = url.rsplit(":", 1)[1]
    newer = peers.python(
        "-c",
        "import anyio\n"
        "from smcp_runtime.server.app import serve\n"
        "from smcp_runtime.server.auth import ANONYMOUS\n"
        "from smcp_runtime.server.options import ServerOptions\n"
        "async def main():\n"
        f"    async with serve(port={port}, options=ServerOptions(auth=ANONYMOUS, protocol_version='1.0.0')):\n"
        "        print('up', flush=True)\n"
        "        await anyio.sleep(60)\n"
        "anyio.run(main)\n",
    )
    newer.wait_line("up", timeout=20)
    assert run.wait_exit(timeout=30) == 2
    assert any("protocol version" in line for line in run.errors)


@pytest.mark.spec("R-CLI-1", "R-LIFE-8", "R-CFG-2")
@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_faulty_flag_file_ends_both_with_status_2_naming_file_path_and_expectation_before_any_effect(
    peers: Peers, tmp_path: Path, verb: str
) -> None:
    touched = tmp_path / "touched"
    path = tmp_path / "bad.json"
    launch = {"type": "stdio", "command": "touch", "args": [str(touched)]}
    path.write_text(json.dumps({"servers": {"first": launch, "second": {"type": "stdio", "command": 5}}}))
    run = ended(peers, "computer", verb, "--name", "desk", "--mcp-config", str(path))
    assert run.status == 2
    told = "\n".join(run.errors)
    assert str(path) in told
    assert "servers.second" in told
    assert "string" in told
    assert run.lines == []
    assert not touched.exists()


def test_check_prints_the_plan_masked_and_starts_nothing(peers: Peers, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    path = tmp_path / "servers.json"
    entry = {"type": "stdio", "command": "touch", "args": [str(touched)], "env": {"TOKEN": "s3cret"}}
    path.write_text(json.dumps({"servers": {"My touch": entry, "off": {**entry, "disabled": True}}}))
    check = ended(peers, "computer", "check", "--name", "desk", "--mcp-config", str(path), "--json")
    assert check.status == 0, check.errors
    plan = json.loads(check.lines[0])
    assert {bundle_id: server["state"] for bundle_id, server in plan["servers"].items()} == {
        "My_touch": "starts",
        "off": "disabled",
    }
    assert plan["servers"]["My_touch"]["source"] == str(path)
    assert "s3cret" not in check.lines[0]
    assert not touched.exists()


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words",
    [
        ("--url", "http://127.0.0.1:1"),
        ("--url", "foo", "--office", "lab"),
        ("--placement", "foo"),
        ("--placement", "external"),
        ("--bus", "foo"),
        ("--ops", "9999"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_wrong_or_lacks_another_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = in_this_process("computer", "run", "--name", "desk", *words, environ=os.environ, cwd=tmp_path)
    assert (run.status, run.lines, "Invalid value for" in "".join(run.errors)) == (2, [], True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize("url", ["foo", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port"])
def test_a_url_where_no_server_can_be_is_wrong_usage(tmp_path: Path, url: str) -> None:
    ran = in_this_process("agent", "tools", "--url", url, "--office", "lab", environ=os.environ, cwd=tmp_path)
    assert (ran.status, ran.lines, "--url" in "".join(ran.errors)) == (2, [], True)


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words", [("--hub", "foo"), ("--hub", "ipc://relative"), ("--hub", "tcp://127.0.0.1:1")], ids=" ".join
)
def test_a_worker_without_a_place_to_offer_itself_at_is_wrong_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = in_this_process("worker", "--server", "one", *words, environ=os.environ, cwd=tmp_path)
    assert (ran.status, ran.lines, "Error" in "".join(ran.errors)) == (2, [], True)


def test_the_demo_shows_tools_and_a_result_in_ten_seconds_and_leaves_nothing_behind(
    peers: Peers, tmp_path: Path
) -> None:
    # Seconds of the processor, so that a busy machine does not decide; it hardly ever waits for anything else.
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    home = tmp_path / "home"
    (home / ".config" / "a2c").mkdir(parents=True)
    (home / ".config" / "a2c" / "mcp.json").write_text(json.dumps({"servers": {"mine": {"command": "touch"}}}))
    before = sorted(home.rglob("*"))
    demo = smcp(peers, "demo", HOME=str(home), XDG_CONFIG_HOME="", XDG_STATE_HOME="", TMPDIR=str(tmp_path))
    demo.wait_line(r"^Tools:", timeout=20)
    children = [process.pid for process in demo.descendants()]
    assert demo.wait_exit(timeout=20) == 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - began.ru_utime - began.ru_stime < 10
    assert any("sample__echo" in line for line in demo.lines)
    assert demo.lines[-1] == "sample__add(a=19, b=23) = 42.0"
    assert gone(children)
    assert (sorted(home.rglob("*")), list(tmp_path.iterdir())) == (before, [home])
