"""The helper that tests of processes stand on: nothing outlives its test."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from support.alive import runs
from support.peers import Peers, PeerSilent

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(
    [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
    start_new_session=True,
)
print("child", child.pid, flush=True)
time.sleep(600)
"""


def gone(pid: int, *, within: float = 5.0) -> bool:
    """Whether a process has ended, or does so in time."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if not runs(psutil.Process(pid)):
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_a_peer_that_ignores_sigterm_and_its_detached_child_are_gone_afterwards() -> None:
    with Peers() as peers:
        peer = peers.python("-c", STUBBORN)
        child = int(peer.wait_line(r"child (\d+)")[1])
        assert psutil.pid_exists(child)
        peer.stop(grace=0.2)
    assert gone(peer.pid)
    assert gone(child)


def test_a_peer_does_not_outlive_a_test_run_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys, time
            sys.path.insert(0, {str(Path(__file__).parents[1])!r})
            from support.peers import Peers
            peer = Peers().python("-c", "import time; print('up', flush=True); time.sleep(600)")
            peer.wait_line("up")
            print(peer.pid, flush=True)
            time.sleep(600)
            """
        )
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_waiting_for_a_line_ends_when_the_peer_ends_and_shows_what_it_said(peers: Peers) -> None:
    peer = peers.python("-c", "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)")
    started = time.monotonic()
    with pytest.raises(PeerSilent, match=r"(?s)ended with 3.*one.*two"):
        peer.wait_line("never", timeout=30)
    assert time.monotonic() - started < 10


def test_a_running_peer_that_stays_silent_is_waited_for_no_longer_than_asked(peers: Peers) -> None:
    peer = peers.python("-c", "input()")
    with pytest.raises(PeerSilent, match=r"said no 'never' in 0\.2 s"):
        peer.wait_line("never", timeout=0.2)
    peer.send("enough")
    assert peer.wait_exit() == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_lines_and_exit_can_be_awaited_on_both_event_loops(peers: Peers, anyio_backend: str) -> None:
    peer = peers.python("-c", "print('ready url=http://127.0.0.1:1 pid=7')")
    assert (await peer.line(r"ready url=(\S+)"))[1] == "http://127.0.0.1:1"
    assert await peer.exit() == 0


def test_a_command_that_does_not_exist_ends_with_127_and_a_reason(peers: Peers) -> None:
    peer = peers.start(["no-such-command-anywhere"])
    assert peer.wait_exit() == 127
    assert "No such file" in peer.errors[0]
