"""The `smcp` command as a whole: it answers at once, and every mistake ends with a status that means something."""

from __future__ import annotations

import sys
from importlib.metadata import version

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
