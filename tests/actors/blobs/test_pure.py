"""Handles, eviction and the judgement of upload chunks: no files, no clock."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.blobs.eviction import Entry, Quota, evict
from smcp_runtime.actors.blobs.handle import LONGEST, HandleTooLong, InvalidHandle, Minter
from smcp_runtime.actors.blobs.uploads import (
    Chunk,
    Declaration,
    Refusal,
    Session,
    UploadLimits,
    clean_hint,
    first_chunk,
    later_chunk,
)
from smcp_runtime.wire.messages.channels import BlobSource

KEY = bytes(range(32))
MINTER = Minter(KEY, "pc1")
SKILL = BlobSource("s", name="mcp:acme:x", rel_path="a/b.bin")
SPOOLED = BlobSource("t", content_id="ab" * 32, mime_type="image/png", office_tag="0" * 16)


class TestHandles:
    @pytest.mark.spec("C-BLOB-3", "C-BLOB-4")
    @pytest.mark.parametrize("source", [SKILL, SPOOLED, BlobSource("d", content_id="x", mime_type="", office_tag="o")])
    def test_a_handle_is_verified_by_the_same_key_and_name_in_any_run(self, source: BlobSource) -> None:
        handle = MINTER.mint(source)
        assert handle.startswith("b1.")
        assert Minter(KEY, "pc1").verify(handle) == source

    @pytest.mark.spec("C-BLOB-5", "C-SEC-20")
    def test_no_single_altered_character_passes(self) -> None:
        handle = MINTER.mint(SPOOLED)
        for position in range(len(handle)):
            for other in "A_-.=b":
                altered = handle[:position] + other + handle[position + 1 :]
                if altered != handle:
                    with pytest.raises(InvalidHandle):
                        MINTER.verify(altered)

    @pytest.mark.spec("C-BLOB-5", "C-SEC-20")
    def test_handles_do_not_pass_between_computers_keys_or_payloads(self) -> None:
        handle, other = MINTER.mint(SKILL), MINTER.mint(SPOOLED)
        swapped = ".".join([*handle.split(".")[:2], other.split(".")[2]])
        for minter, wrong in ((Minter(KEY, "pc2"), handle), (Minter(bytes(32), "pc1"), handle), (MINTER, swapped)):
            with pytest.raises(InvalidHandle):
                minter.verify(wrong)

    @pytest.mark.spec("C-BLOB-5", "C-SEC-20")
    @pytest.mark.parametrize("handle", ["", "b1.", "b1..", "b2.a.b", "b1.é.x", "b1." + "a" * LONGEST, "eyJrIjoicyJ9"])
    def test_malformed_handles_are_invalid(self, handle: str) -> None:
        with pytest.raises(InvalidHandle):
            MINTER.verify(handle)

    @pytest.mark.spec("C-BLOB-5", "C-BLOB-3")
    def test_a_handle_that_would_not_be_accepted_for_its_length_is_not_minted(self) -> None:
        room = LONGEST * 3 // 4 - len(MINTER.mint(SKILL))
        fits = BlobSource("s", name="n" * room, rel_path="p")
        assert MINTER.verify(MINTER.mint(fits)) == fits
        with pytest.raises(HandleTooLong):
            MINTER.mint(BlobSource("s", name="n" * LONGEST, rel_path="p"))

    @given(st.text(max_size=200))
    def test_no_text_is_a_handle_by_chance(self, text: str) -> None:
        for attempt in (text, f"b1.{text}", f"b1.{text}.{text}"):
            with pytest.raises(InvalidHandle):
                MINTER.verify(attempt)

    @pytest.mark.spec("C-BLOB-4")
    def test_an_office_tag_does_not_name_its_office(self) -> None:
        tag = MINTER.office_tag("office-1")
        assert len(tag) == 16
        assert tag != MINTER.office_tag("office-2")
        assert "office" not in tag


class TestEviction:
    QUOTA = Quota(most_bytes=100, unused_for=1000.0, youngest=10.0)

    @pytest.mark.spec("C-BLOB-32")
    def test_what_nobody_used_for_a_day_goes(self) -> None:
        entries = [Entry("old", 1, 0.0), Entry("new", 1, 1.0)]
        assert evict(entries, self.QUOTA, 1000.0).names == ("old",)

    @pytest.mark.spec("C-BLOB-32", "C-SEC-25")
    def test_over_the_quota_the_least_recently_used_go_first(self) -> None:
        entries = [Entry("b", 40, 2.0), Entry("a", 40, 1.0), Entry("c", 40, 3.0)]
        chosen = evict(entries, self.QUOTA, 100.0, needed=30)
        assert (chosen.names, chosen.fits) == (("a", "b"), True)

    @pytest.mark.spec("C-BLOB-32")
    def test_young_entries_stay_and_storing_fails_instead(self) -> None:
        entries = [Entry("old", 10, 0.0), Entry("young", 90, 95.0)]
        chosen = evict(entries, self.QUOTA, 100.0, needed=50)
        assert (chosen.names, chosen.fits) == (("old",), False)

    @given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 2000)), max_size=12), st.integers(0, 120))
    def test_it_never_deletes_a_young_entry_and_fits_means_fits(
        self, rows: list[tuple[int, float]], needed: int
    ) -> None:
        entries = [Entry(str(n), size, used) for n, (size, used) in enumerate(rows)]
        chosen = evict(entries, self.QUOTA, 2000.0, needed)
        left = [entry for entry in entries if entry.name not in chosen.names]
        assert all(2000.0 - entry.used_at >= 10.0 for entry in entries if entry.name in chosen.names)
        assert chosen.fits == (sum(entry.size for entry in left) + needed <= 100)


LIMITS = UploadLimits(idle=120.0, most_open=2, most_bytes=1000, lifetime=3600.0)
SHA = "AB" * 32


def first(data: bytes = b"abc", **changes: Any) -> dict[str, Any]:
    request = {
        "chunk_offset": 0, "eof": False, "total_size": 10, "sha256": SHA, "blob": base64.b64encode(data).decode()
    }  # fmt: skip
    return {**request, **changes}


def later(data: bytes = b"defg", **changes: Any) -> dict[str, Any]:
    return {"upload_id": "u", "chunk_offset": 3, "eof": False, "blob": base64.b64encode(data).decode(), **changes}


def session(**changes: Any) -> Session:
    facts: dict[str, Any] = {"opened_at": 0.0, "renewed_at": 0.0, "received": 3, **changes}
    return Session("u", "agent", "office", 10, SHA.lower(), "", **facts)


class TestFirstChunk:
    @pytest.mark.spec("C-UP-1", "C-UP-3")
    def test_a_valid_declaration_is_taken_in_either_case_of_the_hash(self) -> None:
        assert first_chunk(first(name_hint="a b"), LIMITS, 0) == Declaration(10, SHA.lower(), "a_b", b"abc", False)
        whole = first_chunk(first(b"0123456789", eof=True), LIMITS, 0)
        assert isinstance(whole, Declaration)
        assert whole.eof

    @pytest.mark.spec("C-UP-5")
    @pytest.mark.parametrize(
        "wrong",
        [
            {"total_size": None}, {"total_size": 0}, {"total_size": True}, {"total_size": 1.0}, {"total_size": "10"},
            {"sha256": None}, {"sha256": "ab"}, {"sha256": "z" * 64}, {"name_hint": 5}, {"eof": None}, {"eof": 1},
            {"blob": None}, {"blob": "a"}, {"blob": "YQ"}, {"blob": "Y Q="}, {"blob": "é"},
        ],
    )  # fmt: skip
    def test_a_malformed_declaration_comes_before_everything_else(self, wrong: dict[str, Any]) -> None:
        assert first_chunk(first(**{"chunk_offset": 7, **wrong}), LIMITS, 9) == Refusal("invalid_declaration")

    @pytest.mark.spec("C-UP-6")
    def test_then_the_size_cap_with_the_size_echoed(self) -> None:
        request = first(total_size=1001, chunk_offset=7)
        assert first_chunk(request, LIMITS, 9) == Refusal("too_large", total_size=1001)

    @pytest.mark.spec("C-UP-7")
    @pytest.mark.parametrize("wrong", [{"chunk_offset": 1}, {"chunk_offset": "0"}, {"total_size": 2}, {"eof": True}])
    def test_then_offset_and_length(self, wrong: dict[str, Any]) -> None:
        assert first_chunk(first(**wrong), LIMITS, 9) == Refusal("range")

    @pytest.mark.spec("C-UP-8")
    def test_then_the_number_of_open_uploads(self) -> None:
        assert first_chunk(first(), LIMITS, 2) == Refusal("busy")
        assert isinstance(first_chunk(first(), LIMITS, 1), Declaration)


class TestLaterChunk:
    @pytest.mark.spec("C-UP-12")
    @pytest.mark.parametrize("name", ["total_size", "sha256", "name_hint"])
    def test_a_repeated_declaration_is_refused_and_keeps_the_session(self, name: str) -> None:
        assert later_chunk(later(**{name: "x", "blob": "?"}), session()) == Refusal("invalid_declaration")
        assert isinstance(later_chunk(later(**{name: None}), session()), Chunk)

    @pytest.mark.spec("C-UP-13", "C-UP-14")
    def test_base64_and_eof_come_before_the_offset(self) -> None:
        assert later_chunk(later(blob="?", chunk_offset=9), session()) == Refusal("invalid_declaration")
        assert later_chunk(later(eof="yes", chunk_offset=9), session()) == Refusal("invalid_declaration")
        for offset in (2, 4, "3", None, True):
            assert later_chunk(later(chunk_offset=offset), session()) == Refusal("range")

    @pytest.mark.spec("C-UP-15", "C-SEC-32")
    def test_more_bytes_than_declared_end_the_session(self) -> None:
        assert later_chunk(later(b"x" * 8), session()) == Refusal("range", ends=True)

    @pytest.mark.spec("C-UP-16", "C-UP-18", "C-SEC-32")
    def test_an_early_end_is_refused_and_an_empty_end_is_legal(self) -> None:
        assert later_chunk(later(b"x" * 6, eof=True), session()) == Refusal("range")
        assert later_chunk(later(b"x" * 7, eof=False), session()) == Chunk(b"x" * 7, False)
        assert later_chunk(later(b"", eof=True, chunk_offset=10), session(received=10)) == Chunk(b"", True)

    @pytest.mark.spec("C-UP-25")
    @pytest.mark.parametrize(
        ("renewed", "now", "expired"), [(0.0, 119.9, False), (0.0, 120.0, True), (3599.0, 3600.0, True)]
    )
    def test_a_session_ends_idle_or_old(self, renewed: float, now: float, *, expired: bool) -> None:
        assert session(renewed_at=renewed).expired(now, LIMITS) is expired


@pytest.mark.spec("C-UP-21")
@pytest.mark.parametrize(
    ("hint", "cleaned"),
    [
        ("../../etc/passwd", "etc_passwd"), ("a b?.txt", "a_b_.txt"), ("..", ""), (".hidden", "hidden"),
        ("ünï.txt", "n_.txt"), ("  x  ", "x"), ("a" * 100, "a" * 64), ("-._", ""), ("C:\\x\0y", "C_x_y"),
    ],
)  # fmt: skip
def test_a_hint_becomes_a_harmless_suffix(hint: str, cleaned: str) -> None:
    assert clean_hint(hint) == cleaned


@given(st.text())
def test_no_hint_names_a_directory(hint: str) -> None:
    cleaned = clean_hint(hint)
    assert "/" not in cleaned
    assert not cleaned.startswith(".")
    assert len(cleaned) <= 64


@given(
    st.dictionaries(
        st.sampled_from(["chunk_offset", "eof", "total_size", "sha256", "blob", "name_hint", "upload_id"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()),
    )
)
def test_no_request_makes_the_judgement_raise(request: dict[str, Any]) -> None:
    json.dumps(str(first_chunk(request, LIMITS, 0)))
    json.dumps(str(later_chunk(request, session())))
