"""Names of members: plain, inside, and each only once."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.skills.contents import content_bytes, file_paths
from smcp_runtime.actors.skills.entry_names import EntryNames
from smcp_runtime.actors.skills.limits import PackageLimits, StagingFailed
from smcp_runtime.actors.skills.roots import SubResource

spec = pytest.mark.spec
LIMITS = PackageLimits(depth=4)


@spec("C-SKILL-25")
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ("a",)),
        ("a/b", ("a", "b")),
        ("./a", ("a",)),
        ("a/./b", ("a", "b")),
        (".hidden", (".hidden",)),
        ("a b", ("a b",)),
    ],
)
def test_a_plain_name_is_taken(name: str, parts: tuple[str, ...]) -> None:
    assert EntryNames(LIMITS).file(name) == parts


@spec("C-SKILL-25", "C-SEC-14", "F-122")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "/",
            "/etc/passwd",
            "//x",
            "..",
            "../x",
            "a/..",
            "a/../../x",
            "a\\b",
            "..\\x",
            "C:x",
            "a:b",
            "a\0b",
            "a\nb",
        ),
        *("a\x7f", "\x9b", "a//b", "\ud800", "x" * 256, "a/b/c/d/e", "a/" * 3 + "x" * 256, ".", "./"),
    ],
)
def test_a_name_that_is_no_plain_path_refuses_the_package(name: str) -> None:
    with pytest.raises(StagingFailed):
        EntryNames(LIMITS).file(name)


@spec("C-SKILL-25")
@pytest.mark.parametrize("name", ["", "/", "../", "a/../", "/a/", "a\\/", "a:/"])
def test_a_directory_obeys_the_same_rule(name: str) -> None:
    with pytest.raises(StagingFailed):
        EntryNames(LIMITS).directory(name)


@spec("C-SKILL-25")
@pytest.mark.parametrize("name", [".", "./", "././"])
def test_the_package_itself_may_be_an_entry(name: str) -> None:
    assert EntryNames(LIMITS).directory(name) == ()


@spec("C-SKILL-25", "C-SEC-14")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "a"),
        ("a", "./a"),
        ("Read.md", "README.md"[:1] + "ead.MD"),
        ("é", "e\u0301"),
        ("ﬁ", "fi"),
        ("a/b", "A/B"),
        ("ß", "SS"),
    ],
)
def test_a_name_that_equals_an_earlier_file_in_some_spelling_is_refused(first: str, second: str) -> None:
    names = EntryNames(LIMITS)
    names.file(first)
    with pytest.raises(StagingFailed):
        names.file(second)


@spec("C-SKILL-25", "C-SKILL-38")
def test_files_and_directories_do_not_change_places() -> None:
    names = EntryNames(LIMITS)
    names.file("a")
    names.directory("d")
    for refused in (names.file, names.directory):
        with pytest.raises(StagingFailed):
            refused("A/b")
    with pytest.raises(StagingFailed):
        names.directory("a")
    with pytest.raises(StagingFailed):
        names.file("D")
    names.directory("d/")
    names.file("d/x")
    with pytest.raises(StagingFailed):
        names.file("d")


@spec("C-SKILL-24", "C-SKILL-25")
def test_a_path_longer_than_the_limit_is_refused() -> None:
    limits = PackageLimits(path_bytes=20)
    EntryNames(limits).file("é" * 10)
    with pytest.raises(StagingFailed):
        EntryNames(limits).file("é" * 10 + "x")


@spec("C-SKILL-25", "C-SEC-14")
@given(st.lists(st.text(st.sampled_from("aA.é/\\:\0 \u0301ß"), max_size=8), max_size=8))
def test_what_is_taken_never_leaves_the_package_and_never_collides(names: list[str]) -> None:
    known = EntryNames(PackageLimits())
    taken: list[tuple[str, ...]] = []
    for name in names:
        try:
            taken.append(known.file(name))
        except StagingFailed:
            continue
    folded = [tuple(unicodedata.normalize("NFKC", part).casefold() for part in parts) for parts in taken]
    assert len(set(folded)) == len(folded)
    for parts in taken:
        assert parts
        assert not {"", ".", ".."} & set(parts)
        assert not any(letter in part for part in parts for letter in "/\\:\0")


class TestResources:
    @spec("C-SKILL-39")
    def test_each_segment_is_percent_decoded_once(self) -> None:
        files = [SubResource("u1", "a%20b/%C3%A9.md"), SubResource("u2", "%2525"), SubResource("u3", "plain")]
        assert file_paths(files, LIMITS) == [(("a b", "é.md"), "u1"), (("%25",), "u2"), (("plain",), "u3")]

    @spec("C-SKILL-39", "C-SKILL-25", "C-SEC-14")
    @pytest.mark.parametrize("tail", ["%2e%2e/x", "%2E%2E%2Fx", "", "%00", "%ff", "a%5Cb", "%2Fetc", "a%3Ab", "a/../b"])
    def test_a_tail_that_decodes_to_a_bad_name_refuses_the_skill(self, tail: str) -> None:
        with pytest.raises(StagingFailed):
            file_paths([SubResource("u", "SKILL.md"), SubResource("v", tail)], LIMITS)

    @spec("C-SKILL-41", "C-SKILL-24")
    def test_no_file_or_too_many_refuse_the_skill(self) -> None:
        with pytest.raises(StagingFailed):
            file_paths([], LIMITS)
        with pytest.raises(StagingFailed):
            file_paths([SubResource(str(n), str(n)) for n in range(3)], PackageLimits(entries=2))

    @spec("C-SKILL-40")
    def test_all_blocks_are_taken_in_order_text_as_utf8_and_blobs_as_base64(self) -> None:
        blocks = b'[{"text": "\\u00e9\\n"}, {"blob": "AAE="}, {"uri": "x", "text": ""}]'
        assert b"".join(content_bytes(blocks)) == "é\n".encode() + b"\0\1"
        assert content_bytes(b"[]") == []

    @spec("C-SKILL-41")
    @pytest.mark.parametrize(
        "contents",
        [
            b'[{"blob": "a"}]',
            b'[{"blob": "A A="}]',
            b'[{"blob": "-_=="}]',
            b"[{}]",
            b"[1]",
            b"{}",
            b"",
            b'[{"text": 3}]',
        ],
    )
    def test_what_is_neither_text_nor_strict_base64_fails_the_skill(self, contents: bytes) -> None:
        with pytest.raises(StagingFailed) as caught:
            content_bytes(contents)
        assert caught.value.transfer
