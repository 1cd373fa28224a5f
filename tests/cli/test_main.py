"""The `smcp` command as a whole: it answers at once, and every mistake ends with a status that means something."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from smcp_runtime.cli import main as entry
from support.peers import Peers

SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["agent", "--help"], ["server", "--help"]], ids=" ".join)
def test_help_is_printed_on_stdout(peers: Peers, words: list[str]) -> None:
    peer = peers.start([*SMCP, *words])
    assert peer.wait_exit() == 0
    assert "Usage: smcp" in "\n".join(peer.lines).replace("python -m smcp_runtime.cli.main", "smcp")
    assert peer.errors == []


def test_the_version_is_that_of_the_distribution(peers: Peers) -> None:
    peer = peers.start([*SMCP, "--version"])
    assert (peer.wait_exit(), peer.lines) == (0, [f"smcp {version('smcp-runtime')}"])


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize("words", [["no-such-command"], ["--no-such-option"], ["agent", "no-such-verb"]], ids=" ".join)
def test_wrong_words_end_with_2(peers: Peers, words: list[str]) -> None:
    peer = peers.start([*SMCP, *words])
    assert (peer.wait_exit(), peer.lines) == (2, [])


@pytest.mark.spec("R-CLI-1")
def test_a_defect_ends_with_3_and_does_not_repeat_what_the_error_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("token s3cret")

    monkeypatch.setattr(entry, "app", broken)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error internal: unexpected RuntimeError\n"


@pytest.mark.parametrize("words", [["--help"], ["agent", "tools", "--help"]], ids=" ".join)
def test_output_into_a_closed_pipe_is_no_defect(peers: Peers, words: list[str]) -> None:
    peer = peers.start(["sh", "-c", f"{' '.join(SMCP)} {' '.join(words)} | true"])
    assert peer.wait_exit() == 0
    assert not any("Traceback" in line for line in peer.errors)


def test_a_command_runs_without_standard_streams_and_gives_their_numbers_to_nothing_else(
    peers: Peers, tmp_path: Path
) -> None:
    # What a socket with number 1 or 2 would show: only the null device and what the log asks for is open there.
    script = "import os, sys; from smcp_runtime.cli.streams import mend_streams; mend_streams(); print('lost')"
    script += "; open(sys.argv[1], 'w').write(' '.join(os.readlink(f'/proc/self/fd/{n}') for n in range(3)))"
    told = tmp_path / "told"
    peer = peers.start(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script, told])
    assert peer.wait_exit() == 0
    assert told.read_text() == "/dev/null /dev/null /dev/null"
    closed = peers.start(["sh", "-c", f"{' '.join(SMCP)} doctor --json >&-"])
    assert closed.wait_exit(timeout=30) in (0, 1)
    assert not any("Traceback" in line for line in closed.errors)


@pytest.mark.spec("R-CLI-1")
def test_a_full_disk_under_stdout_is_a_failure_that_says_so_and_no_defect(peers: Peers) -> None:
    peer = peers.start(["sh", "-c", f"{' '.join(SMCP)} doctor --json >/dev/full"])
    assert peer.wait_exit(timeout=30) == 1
    assert peer.errors[0] == "error unwritable: stdout cannot be written: No space left on device"
    deaf = peers.start(["sh", "-c", f"{' '.join(SMCP)} agent tools --url http://127.0.0.1:1 --office o 2>/dev/full"])
    assert deaf.wait_exit(timeout=30) == 2


@pytest.mark.spec("R-CLI-1")
def test_a_working_directory_that_is_gone_is_a_failure_that_says_so(peers: Peers, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    words = f"cd {folder} && rmdir {folder} && exec {' '.join(SMCP)} computer run --name x"
    peer = peers.start(["sh", "-c", words])
    assert peer.wait_exit(timeout=30) == 1
    assert any("the working directory does not exist any more" in line for line in peer.errors)
