"""Bytes in, pieces out: lines, events, the tail of stderr, noise, and the rotated log."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.mcp.transports.backlog import Backlog
from smcp_runtime.actors.mcp.transports.line_splitter import LineSplitter, LineTooLong
from smcp_runtime.actors.mcp.transports.noise import Noise
from smcp_runtime.actors.mcp.transports.sse_parser import EventTooLong, SseEvent, SseParser
from smcp_runtime.actors.mcp.transports.stderr_log import LONGEST_LINE, StderrLog
from smcp_runtime.actors.mcp.transports.tail import Tail
from smcp_runtime.wire.redaction import Redaction

spec = pytest.mark.spec


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """`data` in pieces that end at these places."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


SECRET = "sk-live-0123456789"
REDACTION = Redaction([SECRET])


def holds_part_of_the_secret(shown: str) -> bool:
    """Whether three characters of the secret that follow each other are shown."""
    return any(SECRET[at : at + 3] in shown for at in range(len(SECRET) - 2))


places = st.lists(st.integers(0, 10_000), max_size=8)


class TestLines:
    @given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=8), places)
    def test_however_the_stream_is_cut_the_lines_are_the_same(self, lines: list[bytes], where: list[int]) -> None:
        splitter = LineSplitter()
        stream = b"".join(line + b"\n" for line in lines)
        assert [line for piece in cut(stream, where) for line in splitter.feed(piece)] == lines

    def test_what_has_no_line_end_yet_is_no_line(self) -> None:
        assert LineSplitter().feed(b"half") == []

    def test_a_line_beyond_the_limit_is_an_error_and_not_kept(self) -> None:
        splitter = LineSplitter(max_line=10)
        splitter.feed(b"12345")
        with pytest.raises(LineTooLong):
            splitter.feed(b"678901")

    @spec("F-40")
    def test_a_line_of_many_chunks_is_put_together_once(self) -> None:
        splitter = LineSplitter()
        for _ in range(480):
            assert splitter.feed(b"x" * 65536) == []
        (line,) = splitter.feed(b"\n")
        assert len(line) == 480 * 65536


class TestBacklog:
    def test_what_a_server_provokes_and_does_not_read_is_dropped_beyond_a_bound(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        backlog = Backlog(side_bytes=10)
        assert [backlog.admits_side(4, unread) for unread in (0, 4, 8, 8)] == [True, True, False, False]
        assert len(caplog.records) == 1
        assert backlog.admits_side(4, 0)  # it has read everything

    def test_a_side_message_of_any_size_goes_to_a_server_that_reads(self) -> None:
        assert Backlog(side_bytes=10).admits_side(100, 0)

    def test_a_request_in_front_keeps_no_side_message_back(self) -> None:
        assert Backlog(side_bytes=10).admits_side(4, 5_000_000)

    def test_requests_are_refused_once_too_much_waits_and_never_for_their_own_size(self) -> None:
        backlog = Backlog(unread_bytes=10)
        assert backlog.admits_request(10)
        assert not backlog.admits_request(11)


class TestTail:
    @spec("F-19")
    def test_it_keeps_the_last_lines_and_the_end_of_a_long_one(self) -> None:
        tail = Tail(lines=2, line_bytes=5)
        tail.feed(b"one\ntwo\n0123456789\r\nrest")
        assert tail.lines() == ("two", "6789", "rest")
        assert tail.lines(1) == ("rest",)

    @spec("F-19", "F-36")
    def test_five_megabytes_without_a_line_end_cost_one_line(self) -> None:
        tail = Tail(line_bytes=100)
        for _ in range(80):
            tail.feed(b"x" * 65536)
        assert tail.lines() == ("x" * 100,)

    @given(st.binary(max_size=200), places)
    def test_it_never_holds_more_than_its_bounds(self, data: bytes, where: list[int]) -> None:
        tail = Tail(lines=3, line_bytes=7)
        for piece in cut(data, where):
            tail.feed(piece)
        assert len(tail.lines()) <= 4

    def test_bytes_that_are_no_text_are_shown_all_the_same(self) -> None:
        tail = Tail()
        tail.feed(b"caf\xe9\n")
        assert tail.lines() == ("caf�",)
        assert tail.lines(0) == ()

    @spec("R-INPUT-23")
    @given(st.integers(0, 30), st.integers(0, 30), st.sampled_from((5, 20, 40)), places)
    def test_no_cut_leaves_part_of_a_secret(self, before: int, after: int, size: int, where: list[int]) -> None:
        tail = Tail(line_bytes=size, redaction=REDACTION)
        for piece in cut(b"x" * before + SECRET.encode() + b"y" * after + b"\n", where):
            tail.feed(piece)
        (shown,) = REDACTION.texts(tail.lines())
        assert not holds_part_of_the_secret(shown)


class TestNoise:
    @spec("R-INPUT-23")
    @pytest.mark.parametrize("before", range(100, 122))
    def test_no_cut_leaves_part_of_a_secret(self, before: int) -> None:
        noise = Noise(REDACTION)
        noise.add(b"x" * before + SECRET.encode() + b"y" * 50)
        (shown,) = REDACTION.texts(noise.notes())
        assert not holds_part_of_the_secret(shown)

    @spec("DEC-6")
    def test_it_is_counted_and_its_first_lines_are_shown_cut(self) -> None:
        noise = Noise()
        assert noise.notes() == ()
        for line in (b"Welcome", b"", b"  ", b"y" * 500, b"third", b"fourth"):
            noise.add(line)
        (note,) = noise.notes()
        assert note.startswith("4 lines on stdout that are no messages, first: Welcome | yyy")
        assert len(note) < 300


class TestEvents:
    @given(places)
    def test_however_the_stream_is_cut_the_events_are_the_same(self, where: list[int]) -> None:
        stream = (
            b": comment\r\n\r\nevent: endpoint\r\ndata: /messages\r\n\r\n"
            b"id: 7\nretry: 1500\ndata: {\ndata: }\n\ndata:x\r\rid: 8\ndata\n\n"
        )
        parser = SseParser()
        found = [event for piece in cut(stream, where) for event in parser.feed(piece)]
        assert found == [
            SseEvent(b"/messages", "endpoint"),
            SseEvent(b"{\n}", id="7", retry=1500),
            SseEvent(b"x", id="7"),
            SseEvent(b"", id="8"),
        ]

    def test_an_event_that_the_end_cuts_off_is_none(self) -> None:
        assert SseParser().feed(b"data: half\n") == []

    @pytest.mark.parametrize("delay", [b"soon", b"-1", b"9" * 10_000])
    def test_a_delay_that_is_none_is_passed_over(self, delay: bytes) -> None:
        assert SseParser().feed(b"retry: " + delay + b"\ndata: x\n\n") == [SseEvent(b"x")]

    def test_an_event_beyond_the_limit_is_an_error(self) -> None:
        parser = SseParser(max_event=20)
        parser.feed(b"data: small\n\n")
        parser.feed(b"data: small\n\n")
        with pytest.raises(EventTooLong):
            parser.feed(b"data: " + b"x" * 30)


class TestLog:
    @spec("F-36")
    def test_it_moves_on_at_its_size_and_keeps_no_more_than_told(self, tmp_path: Path) -> None:
        log = StderrLog(tmp_path / "logs" / "files.log", max_bytes=10, keep=2)
        for text in (b"first....\n", b"second...\n", b"third....\n", b"fourth...\n"):
            log.feed(text)
        log.close()
        kept = {path.name: path.read_bytes() for path in (tmp_path / "logs").iterdir()}
        assert kept == {"files.log": b"fourth...\n", "files.log.1": b"third....\n"}

    def test_a_disk_that_refuses_is_said_once_and_costs_nothing_else(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("")
        log = StderrLog(tmp_path / "file" / "no folder.log")
        log.feed(b"one\n")
        log.feed(b"two\n")
        assert len(caplog.records) == 1

    @spec("R-INPUT-23")
    @pytest.mark.parametrize("known", range(len(SECRET) + 1))
    def test_a_line_too_long_to_wait_for_is_written_in_pieces_that_split_no_secret(
        self, tmp_path: Path, known: int
    ) -> None:
        log = StderrLog(tmp_path / "files.log", redaction=REDACTION)
        line = b"x" * (2 * LONGEST_LINE) + SECRET.encode()
        log.feed(line[: len(line) - len(SECRET) + known])
        assert (tmp_path / "files.log").stat().st_size > LONGEST_LINE
        log.feed(line[len(line) - len(SECRET) + known :] + b" refused\n")
        log.close()
        written = (tmp_path / "files.log").read_text()
        assert written == "x" * (2 * LONGEST_LINE) + "[REDACTED] refused\n"
