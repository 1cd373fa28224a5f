"""`smcp server` as somebody starts it: the ready line, who may come in, and a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

import pytest

from smcp_runtime.wire.protocol import PROTOCOL_VERSION
from support.peers import Peer, Peers

SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")


class Server:
    """One `smcp server` on a free port, ready."""

    def __init__(self, peers: Peers, *words: str, **environment: str) -> None:
        env = {**os.environ, **environment}
        self.peer: Peer = peers.start([*SMCP, "server", "--port", "0", *words], env=env)
        self.url, self.pid = self.peer.wait_line(r"^ready url=(\S+) pid=(\d+)$").groups()


def room(peers: Peers, server: Server, *words: str, **environment: str) -> Peer:
    """`smcp agent room` at that Server, ended."""
    command = [*SMCP, "agent", "room", "--url", server.url, "--office", "lab", "--name", "me", "--json", *words]
    peer = peers.start(command, env={**os.environ, **environment})
    peer.wait_exit(timeout=20)
    return peer


def status_of(url: str) -> int:
    """The status of an HTTP GET."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_the_ready_line_is_the_first_and_names_url_and_process(peers: Peers) -> None:
    server = Server(peers)
    assert server.peer.lines == [f"ready url={server.url} pid={server.peer.pid}"]
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", server.url)


def test_an_agent_can_join_it(peers: Peers) -> None:
    joined = room(peers, Server(peers))
    assert joined.status == 0, joined.errors
    (member,) = json.loads(joined.lines[0])["sessions"]
    assert (member["name"], member["role"], member["office_id"]) == ("me", "agent", "lab")


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_cleanly_with_members_in_an_office(peers: Peers, number: signal.Signals) -> None:
    server = Server(peers)
    words = ["agent", "watch", "--url", server.url, "--office", "lab", "--json"]
    watching = peers.start([*SMCP, *words])
    watching.wait_line("watching lab", of="errors")
    asked = time.monotonic()
    server.peer.signal(number)
    assert server.peer.wait_exit(timeout=10) == 0
    assert time.monotonic() - asked < 10
    assert server.peer.lines == [f"ready url={server.url} pid={server.peer.pid}"]
    watching.wait_line("link:lost")


@pytest.mark.spec("W-ROOM-15")
def test_whoever_watches_is_the_agent_of_the_office_and_the_next_is_told_what_to_do(peers: Peers) -> None:
    server = Server(peers)
    watching = peers.start([*SMCP, "agent", "watch", "--url", server.url, "--office", "lab"])
    watching.wait_line("watching lab", of="errors")
    second = room(peers, server)
    assert (second.status, json.loads(second.lines[0])["code"]) == (1, "join_failed")
    assert any("retry_hint: an office has one Agent at a time" in line for line in second.errors)


@pytest.mark.parametrize("words", [["agent"], ["agent", "watch"]], ids=" ".join)
def test_the_help_says_that_an_office_has_one_agent(peers: Peers, words: list[str]) -> None:
    shown = peers.start([*SMCP, *words, "--help"])
    assert shown.wait_exit(timeout=20) == 0
    assert "office has one" in " ".join(" ".join(shown.lines).replace("│", " ").split())


@pytest.mark.spec("W-AUTH-1")
def test_with_a_token_only_who_shows_it_gets_in(peers: Peers) -> None:
    server = Server(peers, "--token-env", "SECRET", SECRET="s3cret-of-the-server")
    assert room(peers, server, "--auth-env", "MINE", MINE="s3cret-of-the-server").status == 0
    assert room(peers, server, "--auth-env", "MINE", MINE='{"token": "s3cret-of-the-server"}').status == 0
    wrong = room(peers, server, "--auth-env", "MINE", MINE="wrong")
    assert (wrong.status, json.loads(wrong.lines[0])["category"]) == (1, "auth")
    nothing = room(peers, server)
    assert (nothing.status, json.loads(nothing.lines[0])["category"]) == (1, "auth")
    for refused in (wrong, nothing):
        assert "--auth-env" in json.loads(refused.lines[0])["retry_hint"]
    server.peer.stop()
    everything = "\n".join([*server.peer.lines, *server.peer.errors, *wrong.lines, *wrong.errors])
    assert "s3cret" not in everything


@pytest.mark.spec("W-ARCH-3")
def test_it_serves_under_another_path_when_told_so(peers: Peers) -> None:
    server = Server(peers, "--socketio-path", "/signals")
    query = f"?a2c_version={PROTOCOL_VERSION}&EIO=4&transport=polling"
    assert status_of(f"{server.url}/signals/{query}") == 200
    assert status_of(f"{server.url}/socket.io/{query}") == 404
    assert room(peers, server, "--socketio-path", "/signals").status == 0


@pytest.mark.spec("W-AUTH-10")
def test_nobody_gets_in_by_omission_where_others_can_reach_it(peers: Peers) -> None:
    refused = peers.start([*SMCP, "server", "--host", "0.0.0.0", "--port", "0"])
    assert refused.wait_exit() == 2
    assert refused.lines == []
    assert any("--anonymous" in line for line in refused.errors)


def test_it_can_be_opened_to_everybody_on_purpose(peers: Peers) -> None:
    assert Server(peers, "--host", "0.0.0.0", "--anonymous").url.startswith("http://127.0.0.1:")


@pytest.mark.spec("R-CLI-1")
def test_a_port_that_is_taken_ends_with_2(peers: Peers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        peer = peers.start([*SMCP, "server", "--port", str(taken.getsockname()[1])])
        assert peer.wait_exit() == 2
    assert peer.lines == []
    assert "cannot listen" in peer.errors[-1] or "cannot listen" in peer.errors[0]


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words",
    [["--port", "high"], ["--token-env", "SURELY_NOT_SET"], ["--tls-key", "key.pem"], ["--porty"]],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(peers: Peers, words: list[str]) -> None:
    peer = peers.start([*SMCP, "server", *words])
    assert (peer.wait_exit(), peer.lines) == (2, [])


@pytest.mark.spec("R-OPT-3")
def test_its_log_goes_where_the_environment_says(peers: Peers, tmp_path: object) -> None:
    server = Server(peers, A2C_LOG_FILE=f"{tmp_path}/log", A2C_LOG_LEVEL="debug")
    room(peers, server)
    server.peer.signal(signal.SIGTERM)
    server.peer.wait_exit()
    assert server.peer.errors == []
    with open(f"{tmp_path}/log", encoding="utf-8") as log:
        assert "lab" in log.read()
