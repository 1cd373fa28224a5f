"""`smcp bus …` as somebody types it, on a Computer that runs."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from smcp_runtime import fixtures
from smcp_runtime.cli.top import duration, grids, headline, picture
from support.peers import Peer, Peers

SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")


class Desk:
    """A home of its own, and a Computer that runs on it."""

    def __init__(self, peers: Peers, root: Path) -> None:
        self.peers = peers
        self.home = root / "user"
        self.home.mkdir()
        self.environment = {**os.environ, "HOME": str(self.home), "OPS_TOKEN": "a-token-that-is-long-enough"}
        for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "A2C_SKILL_HOME"):
            self.environment.pop(variable, None)

    def start(self, *words: str) -> Peer:
        servers = self.home / "servers.json"
        servers.write_text(json.dumps({"servers": fixtures.config("stdio")["mcp_servers"]}))
        run = self.smcp("computer", "run", "--name", "desk", "--mcp-config", str(servers), *words)
        run.wait_line(r"^ready ", timeout=30)
        return run

    def smcp(self, *words: str) -> Peer:
        return self.peers.start([*SMCP, *words], env=self.environment, cwd=self.home)

    def ended(self, *words: str) -> Peer:
        peer = self.smcp(*words)
        peer.wait_exit(timeout=30)
        return peer

    def view(self) -> Any:
        return json.loads(self.ended("bus", "top", "--json").lines[0])

    def until(self, holds: Callable[[], bool], within: float = 20.0) -> None:
        end = time.monotonic() + within
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.fixture
def desk(peers: Peers, tmp_path: Path) -> Desk:
    return Desk(peers, tmp_path)


@pytest.mark.spec("R-LIFE-23", "R-MGMT-6")
def test_status_finds_the_only_computer_of_the_home_and_chooses_none_of_several(desk: Desk) -> None:
    nobody = desk.ended("computer", "status")
    assert (nobody.status, "no Computer runs on" in nobody.errors[0]) == (2, True)
    desk.start()
    assert desk.ended("computer", "status").lines[0].startswith("desk: ")
    other = desk.smcp("computer", "run", "--name", "other")
    other.wait_line("^ready", timeout=30)
    several = desk.ended("computer", "status")
    assert (several.status, "several Computers run here: desk, other" in several.errors[0]) == (1, True)
    assert desk.ended("computer", "status", "--computer", "other").lines[0].startswith("other: ")


def test_top_in_a_pipe_prints_one_moment_in_plain_rows(desk: Desk) -> None:
    desk.start()
    top = desk.ended("bus", "top", "--every", "0.2")
    assert top.status == 0, top.errors
    assert top.lines[0].startswith("desk  started  no office")
    rows = [line.split("\t") for line in top.lines[1:]]
    assert [row[0] for row in rows if row[0].isupper()] == ["SERVER", "ACTOR", "MESSAGE"]
    assert ["tools", "up"] in [row[:2] for row in rows]
    assert "\x1b" not in "".join(top.lines)


def test_top_on_a_terminal_draws_and_ends_with_the_number_of_moments(desk: Desk) -> None:
    desk.start()
    master, slave = pty.openpty()
    words = [*SMCP, "bus", "top", "--every", "0.2", "--count", "2"]
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the child becomes the command
        os.setsid()
        for stream in (0, 1, 2):
            os.dup2(slave, stream)
        os.chdir(desk.home)
        os.execve(words[0], words, {**desk.environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "60"})
    os.close(slave)
    drawn = b""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                drawn += os.read(master, 65536)
            except OSError:
                break
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"\x1b[" in drawn
    assert b"mcp/echo" in drawn


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words", [("bus", "top", "--count", "0"), ("computer", "status", "--name", "desk", "--watch")], ids=" ".join
)
def test_a_watch_is_done_when_it_is_stopped(desk: Desk, words: tuple[str, ...]) -> None:
    desk.start()
    watching = desk.smcp(*words)
    watching.wait_line("^desk")
    watching.signal(signal.SIGINT)
    assert watching.wait_exit(timeout=20) == 0


@pytest.mark.spec("R-CLI-1")
def test_moments_that_were_counted_and_not_all_shown_are_an_interrupted_command(desk: Desk) -> None:
    desk.start()
    watching = desk.smcp("bus", "top", "--count", "1000", "--every", "0.1")
    watching.wait_line("^desk")
    watching.signal(signal.SIGINT)
    assert watching.wait_exit(timeout=20) == 1


def test_an_actor_that_is_killed_comes_back_and_is_counted(desk: Desk) -> None:
    desk.start()
    killed = desk.ended("bus", "kill", "desktop")
    assert (killed.status, killed.lines) == (0, ["desktop was killed"])

    def back() -> bool:
        actors = {actor["address"]: actor for actor in desk.view()["actors"]}
        return bool(actors["desktop"]["state"] == "up" and actors["desktop"]["restarts"] == 1)

    desk.until(back)
    missing = desk.ended("bus", "kill", "nobody")
    assert (missing.status, missing.lines) == (1, ["there is no actor nobody"])


def test_dead_letters_and_calls_are_listed_and_a_call_that_nobody_remembers_is_an_error(desk: Desk) -> None:
    desk.start()
    letters = desk.ended("bus", "dead-letters", "--json")
    assert json.loads(letters.lines[0]) == {"total": 0, "recent": []}
    assert json.loads(desk.ended("bus", "calls", "--json").lines[0]) == []
    unknown = desk.ended("bus", "calls", "some-id")
    assert unknown.status == 1
    assert "no call some-id is remembered" in "\n".join(unknown.errors)


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize("words", [("top",), ("kill", "tools"), ("dead-letters",), ("calls",)])
def test_without_a_computer_that_runs_there_is_nothing_to_see(desk: Desk, words: tuple[str, ...]) -> None:
    asked = desk.ended("bus", *words)
    assert asked.status == 2
    assert "no Computer runs on" in "\n".join(asked.errors)


def test_keys_are_made_once_private_and_the_secret_is_never_printed(desk: Desk) -> None:
    keys = desk.home / "keys"
    made = desk.ended("bus", "keygen", "--keys", str(keys), "worker-1")
    assert made.status == 0, made.errors
    secret = (keys / "worker-1.secret").read_text().strip()
    assert (keys / "worker-1.secret").stat().st_mode & 0o077 == 0
    assert (keys / "worker-1.public").read_text().strip() in made.lines[0]
    assert secret not in "\n".join([*made.lines, *made.errors])
    again = desk.ended("bus", "keygen", "--keys", str(keys), "worker-1")
    assert again.status == 1
    assert (keys / "worker-1.secret").read_text().strip() == secret
    hub = desk.ended("bus", "keygen", "--keys", str(keys), "--json")
    assert json.loads(hub.lines[0])["name"] == "hub"


def test_the_operator_endpoint_is_opened_by_a_word_and_its_token_never_by_one(desk: Desk) -> None:
    run = desk.start("--ops", "127.0.0.1:0", "--ops-token-env", "OPS_TOKEN")
    run.wait_line(r"the operator endpoint listens on http://127\.0\.0\.1:\d+", of="errors")
    assert desk.environment["OPS_TOKEN"] not in "\n".join([*run.lines, *run.errors])
    refused = desk.ended("computer", "run", "--name", "open", "--ops", "0.0.0.0:0")
    assert (refused.status, "loopback" in "\n".join(refused.errors)) == (2, True)


class TestMoments:
    def moment(self, at: float, calls: int) -> dict[str, Any]:
        histogram = {"counts": [calls, *[0] * 17], "total": 0.0}
        server = {
            "bundle_id": "files", "phase": "ready", "durations": histogram, "in_flight": 1, "queued": 0,
            "calls": {"ok": calls, "timeout": 2}, "reconnects": 0, "last_error": None,
        }  # fmt: skip
        return {
            "at": at, "name": "desk", "state": "started", "office": None, "link": "offline", "uptime": at,
            "bounds": [0.0005 * 2**n for n in range(17)], "dead_letters": {"total": 3},
            "servers": [server], "actors": [], "messages": [], "nodes": [],
        }  # fmt: skip

    def test_rates_are_what_happened_between_two_moments(self) -> None:
        servers = grids(self.moment(10.0, 50), self.moment(8.0, 30))[0]
        assert servers.rows == [("files", "ready", "10", "<500 us", "<500 us", "1", "0", "2", "0", "")]

    def test_counters_that_began_anew_are_not_negative_rates(self) -> None:
        servers = grids(self.moment(10.0, 4), self.moment(8.0, 30))[0]
        assert servers.rows[0][2] == "2"

    def test_the_headline_says_who_it_is_and_how_it_is(self) -> None:
        assert headline(self.moment(5.0, 0)) == "desk  started  no office  link offline  up 5 s  dead letters 3"

    def test_on_a_terminal_of_80_columns_every_heading_is_whole_and_an_error_is_one_line(self) -> None:
        moment = self.moment(10.0, 50)
        reason = "'no-such-command' was not found; " + "look for it in PATH " * 20
        moment["servers"][0] |= {"bundle_id": "a_server_with_a_long_name", "last_error": {"reason": reason}}
        console = Console(width=80, file=io.StringIO(), force_terminal=False)
        console.print(picture(moment, self.moment(8.0, 30)))
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        (heading,) = (line for line in lines if "SERVER" in line)
        for word in grids(moment, moment)[0].columns[:-1]:
            assert word in heading
        (error,) = (line for line in lines if "was not found" in line)
        assert (len(error), error[-1]) == (80, "…")
        assert [line for line in lines if "look for it" in line] == [error]

    @pytest.mark.parametrize(
        ("seconds", "text"), [(None, "-"), (0.000_012, "12 us"), (0.012_3, "12.3 ms"), (1.5, "1.5 s"), (300, "300 s")]
    )
    def test_durations_have_three_digits_and_a_unit(self, seconds: float | None, text: str) -> None:
        assert duration(seconds) == text
