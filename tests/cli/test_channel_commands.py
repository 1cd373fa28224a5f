"""`smcp agent desktop|skills|skill|get|put|docs` against a Server and a Computer of ours in their own processes."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.peers import Peer, Peers
from support.shelf import document, pattern, shelf, skill, user_skill, window

SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")
BIG = 700_000


class Office:
    """A Server and a Computer that have everything, and the command in their office."""

    def __init__(self, peers: Peers, folder: Path) -> None:
        self.peers, self.folder = peers, folder
        self.landing = folder / "landing"
        self.env = {**os.environ, "HOME": str(folder)}
        home = folder / "home"
        user_skill(home, "mine", {"notes.txt": "n" * 40_000})
        resources = [
            window("window://lab/low", "low"),
            window("window://lab/high", "high", annotations={"priority": 1}),
            *skill("lab", "brew", {"data.bin": BIG}),
            document("dpe://lab/report", "Report", pages=2),
            document("dpe://lab/memo", "Memo", _meta={"file_type": "memo", "page_count": 1, "keywords": ["tea"]}),
        ]
        entry = shelf(folder, "shelf", resources, "--tools", "echo,binary")
        (folder / "mcp.json").write_text(json.dumps({"servers": {entry["name"]: entry}}))
        (folder / "settings.json").write_text(json.dumps({"landingRoot": str(self.landing)}))
        server = self._start("server", "--port", "0")
        self.url = server.wait_line(r"^ready url=(\S+)", timeout=20)[1]
        words = ["--mcp-config", folder / "mcp.json", "--settings", folder / "settings.json", "--home", home]
        run = self._start("computer", "run", "--name", "desk", *words, "--url", self.url, "--office", "lab")
        run.wait_line("^ready ", timeout=20)

    def _start(self, *words: str | Path) -> Peer:
        return self.peers.start([*SMCP, *words], env=self.env)

    def agent(self, *words: str | Path) -> Peer:
        peer = self._start("agent", *words, "--url", self.url, "--office", "lab")
        peer.wait_exit(timeout=30)
        return peer

    def document(self, *words: str | Path) -> Any:
        """The JSON document of a command that succeeds."""
        done = self.agent(*words, "--json")
        assert done.status == 0, (done.lines, done.errors)
        assert len(done.lines) == 1, done.lines
        return json.loads(done.lines[0])


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with Peers() as peers:
        made = Office(peers, tmp_path_factory.mktemp("office"))
        names: list[str] = []
        while "mcp:shelf_display:brew" not in names:
            names = [found["name"] for found in made.document("skills")["skills"]]
        yield made


@pytest.mark.spec("R-CLI-1", "E-4")
def test_desktop_prints_the_windows_of_its_answer(office: Office) -> None:
    shown = office.document("desktop")
    assert shown["desktops"] == ["window://lab/high\n\nhigh", "window://lab/low\n\nlow"]
    assert shown["req_id"]
    assert office.document("desktop", "--size", "1")["desktops"] == ["window://lab/high\n\nhigh"]
    assert office.document("desktop", "--window", "window://lab/low")["desktops"] == ["window://lab/low\n\nlow"]
    assert office.agent("desktop", "--window", "window://lab/low").lines == ["window://lab/low", "low"]


@pytest.mark.spec("R-CLI-1", "E-6")
def test_skills_lists_them_and_a_pipe_gets_tabs(office: Office) -> None:
    listed = office.document("skills")
    assert [found["name"] for found in listed["skills"]] == ["mine", "mcp:shelf_display:brew"]
    assert office.agent("skills").lines == [
        "mine\tuser\tof mine",
        "mcp:shelf_display:brew\tmcp:shelf_display\tdoes things",
    ]


@pytest.mark.spec("R-CLI-1", "E-7", "C-SKILL-77")
def test_skill_prints_texts_of_any_length_and_gives_the_handle_of_anything_else(office: Office) -> None:
    entry = office.document("skill", "mine")
    assert (entry["rel_path"], entry["body"]) == ("SKILL.md", "# mine\n")
    long = office.document("skill", "mine", "notes.txt")
    assert long["body"] == "n" * 40_000
    assert "blob_handle" not in long
    data = office.document("skill", "mcp:shelf_display:brew", "data.bin")
    assert (data["total_size"], "body" in data) == (BIG, False)
    printed = office.agent("skill", "mcp:shelf_display:brew", "data.bin")
    assert printed.lines == [data["blob_handle"]]
    assert str(BIG) in printed.errors[0]


@pytest.mark.spec("R-CLI-1", "W-ERR-1")
def test_a_refusal_is_printed_flat_and_ends_with_1(office: Office) -> None:
    done = office.agent("skill", "none-of-ours", "--json")
    assert done.status == 1
    assert json.loads(done.lines[0])["code"] == 4014
    done = office.agent("get", "b1.x.y", "--out", office.folder / "nothing", "--json")
    assert (done.status, json.loads(done.lines[0])["details"]) == (1, {"reason": "invalid_handle"})
    assert not (office.folder / "nothing").exists()


@pytest.mark.spec("R-CLI-1", "E-8")
def test_get_writes_the_file_and_says_what_it_is(office: Office) -> None:
    handle = office.document("skill", "mcp:shelf_display:brew", "data.bin")["blob_handle"]
    out = office.folder / "out.bin"
    facts = office.document("get", handle, "--out", out)
    assert out.read_bytes() == pattern(BIG)
    assert facts == {
        "size": BIG,
        "sha256": hashlib.sha256(pattern(BIG)).hexdigest(),
        "mime_type": "application/octet-stream",
    }


@pytest.mark.spec("C-BLOB-39", "W-CALL-24")
def test_a_binary_in_a_result_is_told_with_its_size_and_with_its_handle_while_it_is_elsewhere(office: Office) -> None:
    def called(size: int, *words: str) -> Peer:
        return office.agent("call", "shelf_display__binary", "--params", json.dumps({"bytes": size}), *words)

    for size in (100, 101, 102):
        assert called(size).lines == [f"[image image/png {size} bytes]"]
    fetched = called(BIG)
    assert (fetched.lines, fetched.errors) == ([f"[image image/png {BIG} bytes]"], [])
    left = called(BIG, "--no-fetch")
    told, handle = left.lines[0].removesuffix("]").split(" behind ")
    assert told == f"[image image/png {BIG} bytes"
    assert left.errors == ["a large binary is behind its handle: smcp agent get HANDLE --out FILE"]
    assert office.document("get", handle, "--out", office.folder / "left.png")["size"] == BIG


@pytest.mark.spec("R-CLI-1", "E-9")
def test_put_sends_a_file_and_prints_the_last_acknowledgement(office: Office) -> None:
    file = office.folder / "photo.png"
    file.write_bytes(pattern(BIG))
    last = office.document("put", file)
    landed = Path(last["landing_path"])
    assert landed.read_bytes() == pattern(BIG)
    assert landed.parent == office.landing
    assert landed.name == f"{last['upload_id']}_photo.png"
    assert set(last) == {"upload_id", "chunk_offset", "req_id", "landing_path", "total_size", "sha256"}
    assert office.document("put", file, "--name-hint", "x")["landing_path"].endswith("_x")


@pytest.mark.spec("R-CLI-1", "E-30", "E-33")
def test_docs_lists_and_opens(office: Office) -> None:
    page = office.document("docs")
    assert [found["doc_ref"] for found in page["documents"]] == ["memo", "report"]
    assert page["total_count"] == 2
    assert office.document("docs", "--tag", "TEA")["total_count"] == 1
    assert office.document("docs", "--type", "memo", "--limit", "0")["documents"] == []
    rest = office.agent("docs", "--limit", "1")
    assert (rest.lines, rest.errors) == (["dpe://lab/memo\tMemo\t"], ["1 more with --offset 1"])
    done = office.agent("docs", "open", "dpe://lab/report", "--json")
    assert (done.status, json.loads(done.lines[0])["code"]) == (1, 4011)


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    "words", [["docs", "open"], ["docs", "shut", "dpe://h/d"], ["get", "h"], ["desktop", "--size", "x"]]
)
def test_wrong_usage_ends_with_2(office: Office, words: list[str]) -> None:
    done = office.agent(*words)
    assert (done.status, done.lines) == (2, [])


def test_a_terminal_sees_the_bytes_go_by_and_a_pipe_does_not(office: Office) -> None:
    file = office.folder / "film.mp4"
    file.write_bytes(pattern(3_000_000))
    words = [*SMCP, "agent", "put", str(file), "--url", office.url, "--office", "lab"]
    assert "film.mp4" in on_terminal(words, office.env)
    assert office.agent("put", file).errors == []


def on_terminal(command: list[str], env: dict[str, str]) -> str:
    """What a command writes to a terminal that is its stdout and stderr."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {**env, "TERM": "xterm", "COLUMNS": "100"})
    written = b""
    try:
        while chunk := os.read(descriptor, 65536):
            written += chunk
    except OSError:
        pass  # how a pseudo terminal says that the other end is gone
    os.waitpid(pid, 0)
    os.close(descriptor)
    return written.decode(errors="replace")
