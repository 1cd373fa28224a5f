"""The header of a SKILL.md: where it ends, what may be in it, and what is said when it is wrong."""

from __future__ import annotations

import datetime
import time
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from smcp_runtime.actors.skills import frontmatter
from smcp_runtime.actors.skills.frontmatter import (
    BadFrontmatter,
    Block,
    body_start,
    find_block,
    head_bytes,
    parse_block,
    plain_mapping,
)
from smcp_runtime.actors.skills.manifest import Manifest, read_manifest

spec = pytest.mark.spec


def body(data: bytes) -> bytes:
    return data[body_start(data) :]


def manifest(text: str | bytes, notes: list[str] | None = None) -> Manifest:
    """The manifest of a header given without its fences."""
    data = text if isinstance(text, bytes) else f"---\n{text}\n---\nbody".encode()
    return read_manifest(data, lambda level, said: (notes if notes is not None else []).append(f"{level} {said}"))


def reason(text: str | bytes) -> str:
    with pytest.raises(BadFrontmatter) as caught:
        manifest(text)
    return str(caught.value)


class TestWhereTheBodyBegins:
    @spec("C-SKILL-43", "C-SKILL-47")
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"---\na: 1\n---\nbody\n", b"body\n"),
            (b"---\r\na: 1\r\n---\r\nbody\r\n", b"body\r\n"),
            (b"\xef\xbb\xbf---\na: 1\n---\n\xef\xbb\xbfbody", b"\xef\xbb\xbfbody"),
            (b"--- \t\na: 1\n---\t \n\n  body  \n", b"\n  body  \n"),
            (b"---\n---\nbody", b"body"),
            (b"---\na: 1\n---", b""),
            (b"---\na: 1\n---\n", b""),
            (b"---\na: 1\n---\n\xff\xfe", b"\xff\xfe"),
            (b"---\na: 1\n----\n---\nx", b"x"),
            (b"---\na: |\n  ---\n ---\n---\nx", b"x"),
        ],
    )
    def test_it_begins_after_the_line_break_of_the_closing_fence_and_is_not_touched(
        self, data: bytes, expected: bytes
    ) -> None:
        assert body(data) == expected

    @spec("C-SKILL-43", "C-SKILL-47")
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"body",
            b"\n---\na: 1\n---\n",
            b" ---\na: 1\n---\n",
            b"---\na: 1\n",
            b"----\na: 1\n---\n",
            b"---\n\xff\n---\nbody",
            b"\xef\xbb\xbf\xef\xbb\xbf---\na: 1\n---\n",
            b"\xef\xbb\xbfbody",
        ],
    )
    def test_without_a_header_it_is_the_whole_file(self, data: bytes) -> None:
        assert body(data) == data

    @spec("C-SKILL-44")
    def test_a_header_above_the_limit_counts_as_none(self) -> None:
        fits = b"---\n" + b"#" * (frontmatter.BLOCK_BYTES - 1) + b"\n---\nbody"
        assert body(fits[: head_bytes()]) == b"body"
        beyond = b"---\n" + b"#" * frontmatter.BLOCK_BYTES + b"\n---\nbody"
        assert body_start(beyond[: head_bytes()]) == 0
        assert "longer than" in str(find_block(beyond[: head_bytes()]))

    @spec("C-SKILL-47")
    @given(st.binary(max_size=200), st.sampled_from([b"\n", b"\r\n"]))
    def test_whatever_follows_the_fence_comes_back_byte_for_byte(self, rest: bytes, line: bytes) -> None:
        assert body(b"---" + line + b"a: 1" + line + b"---" + line + rest) == rest


class TestSafety:
    @spec("C-SKILL-44", "C-SEC-17")
    @pytest.mark.parametrize("loader", ["compiled", "plain"])
    @pytest.mark.parametrize(
        "block",
        [
            "a: !!python/object/apply:os.system [touch /tmp/owned]",
            "a: !!python/name:os.system",
            "a: !custom x",
            "a: !<tag:example.org,2002:x> y",
            "a: &anchor 1\nb: *anchor",
            "a: &anchor 1",
            "a: " + "[" * 5_000,
            "a: " + "{a: " * 5_000,
            "- " * 5_000,
            "a: !!float x",
            "a: !!timestamp x",
            "a: 2001-99-99",
            "a: " + "9" * 6_000,
            "? [a]\n: b",
            "a: 1\n---\nb: 1",
            "- a",
            "text",
            "",
        ],
    )
    def test_what_is_beyond_the_safe_subset_is_refused(
        self, block: str, loader: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if loader == "plain":
            monkeypatch.setattr(frontmatter, "_Loader", yaml.SafeLoader)
        with pytest.raises(BadFrontmatter):
            parse_block(Block(block.encode(), 0))

    @spec("C-SEC-17")
    def test_a_header_of_ten_megabytes_is_not_even_parsed(self) -> None:
        data = b"---\na: " + b"x" * 10_000_000 + b"\n---\nbody"
        began = time.monotonic()
        assert "longer than" in reason(data[: head_bytes()])
        assert time.monotonic() - began < 0.5

    @spec("C-SEC-17")
    def test_an_alias_bomb_ends_at_its_first_anchor(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
        assert "anchors and aliases" in reason("\n".join(lines))

    @spec("C-SEC-17")
    @given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
    def test_no_text_makes_anything_but_a_mapping_or_a_refusal(self, text: str) -> None:
        with suppress(BadFrontmatter):
            assert isinstance(parse_block(Block(text.encode(), 0)), dict)

    @spec("C-SEC-17")
    @given(st.binary(max_size=300))
    def test_no_bytes_make_anything_but_a_manifest_or_a_refusal(self, data: bytes) -> None:
        for head in (data, b"---\n" + data + b"\n---\n"):
            with suppress(BadFrontmatter):
                assert manifest(head).description


class TestReasons:
    @spec("F-120", "C-SKILL-44")
    @pytest.mark.parametrize(
        ("block", "said"),
        [
            ("name: a\ndescription: use when: always", ("line 3", "colon", "quotes")),
            ("name: a\ndescription: [WIP] does things", ("line 3", "bracket", "quotes")),
            ("name: a\n\tdescription: x", ("line 3",)),
            ("name: a", ("description",)),
            ("description: ''", ("description",)),
            ("description: '  '", ("description",)),
            ("description: [a]", ("description",)),
            ("description: true", ("description",)),
            ("description: 2024-01-01", ("description",)),
            (b"---\nname: a\ndescription: b\nbody without end", ("no second line ---",)),
            (b"\nname: a", ("line 1", "---")),
            (b"---\nname: a\ndescription: \xff\n---\n", ("line 3", "UTF-8")),
            ('description: "\\ud800"', ()),
        ],
    )
    def test_a_refusal_says_where_and_why_and_quotes_no_content(
        self, block: str | bytes, said: tuple[str, ...]
    ) -> None:
        text = reason(block)
        assert all(part in text for part in said), text
        assert "does things" not in text
        assert "always" not in text

    @spec("F-120", "C-SKILL-43")
    @pytest.mark.parametrize(
        "data", [b"\xef\xbb\xbf---\nname: a\ndescription: d\n---\n", b"---\r\ndescription: d\r\n---\r\n"]
    )
    def test_a_byte_order_mark_or_windows_line_ends_cost_nothing(self, data: bytes) -> None:
        assert manifest(data).description == "d"


class TestFields:
    @spec("C-SKILL-45")
    @pytest.mark.parametrize(
        ("value", "name"),
        [
            ("my-skill", "my-skill"),
            ("12", "12"),
            ("1.5", "1.5"),
            ("[a]", None),
            ("true", None),
            ("2024-01-01", None),
            ("", None),
        ],
    )
    def test_a_name_is_text_or_the_decimal_text_of_a_number(self, value: str, name: str | None) -> None:
        assert manifest(f"name: {value}\ndescription: d").name == name

    @spec("C-SKILL-45")
    def test_a_description_is_kept_as_written_and_noted_when_long(self) -> None:
        notes: list[str] = []
        assert manifest("description: ' d '", notes).description == " d "
        assert not notes
        assert len(manifest("description: " + "d" * 1025, notes).description) == 1025
        assert notes == ["warning description: longer than 1024 characters"]

    @spec("C-SKILL-45")
    def test_license_and_compatibility_become_text_unless_null(self) -> None:
        found = manifest("description: d\nlicense: 2.0\ncompatibility: 2024-01-01")
        assert (found.license, found.compatibility) == ("2.0", "2024-01-01")
        found = manifest("description: d\nlicense:\ncompatibility: ~")
        assert (found.license, found.compatibility) == (UNSET, UNSET)

    @spec("C-SKILL-45")
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("allowed-tools: [Read, 2]", ("Read", "2")),
            ("allowed-tools: Read, Write", ("Read, Write",)),
            ("allowed_tools: [Read]", ("Read",)),
            ("allowed-tools: [A]\nallowed_tools: [B]", ("A",)),
            ("allowed-tools: ~\nallowed_tools: [B]", UNSET),
            ("allowed-tools: []", ()),
            ("x: 1", UNSET),
        ],
    )
    def test_allowed_tools_are_a_list_or_one_text_that_is_not_split(self, line: str, expected: Any) -> None:
        assert manifest(f"description: d\n{line}").allowed_tools == expected

    @spec("C-SKILL-45")
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("tags: [a, b]", ("a", "b")),
            ("tags: []", ()),
            ("tags:", UNSET),
            ("tags: a", UNSET),
            ("tags: [a, 1]", UNSET),
            ("tags: {a: 1}", UNSET),
        ],
    )
    def test_tags_are_a_list_of_text_or_left_out_and_never_cost_the_skill(self, line: str, expected: Any) -> None:
        assert manifest(f"description: d\n{line}").tags == expected

    @spec("C-SKILL-45")
    def test_metadata_passes_through_made_safe_for_json(self) -> None:
        notes: list[str] = []
        found = manifest(
            "description: d\nmetadata: {1: a, date: 2024-01-02, at: 2024-01-02T03:04:05Z, nan: .nan, inf: -.inf, "
            "bin: !!binary aGk=, deep: {list: [1, .nan, {x: 2024-01-02}]}, big: 123456789012345678901234567890}",
            notes,
        )
        at = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC).isoformat()
        assert found.metadata == {
            "1": "a",
            "date": "2024-01-02",
            "at": at,
            "deep": {"list": [1, {"x": "2024-01-02"}]},
            "big": "123456789012345678901234567890",
        }
        assert len(notes) == 4
        assert all(note.startswith("debug") for note in notes)

    @spec("C-SKILL-45")
    @pytest.mark.parametrize("value", ["text", "[1]", "1"])
    def test_metadata_that_is_no_mapping_is_left_out(self, value: str) -> None:
        assert manifest(f"description: d\nmetadata: {value}").metadata is UNSET

    @spec("C-SKILL-46")
    def test_a_version_and_unknown_keys_are_ignored(self) -> None:
        assert manifest("description: d\nversion: 3\nwhatever: x") == Manifest("d")


WORDS = st.sampled_from(["on", "Yes", "name", "description", "null", "true", "a-b", "n", "x1", "1x", "e1", "inf"])
ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
VALUES = st.one_of(
    WORDS, ASCII, st.builds("{} {}".format, WORDS, ASCII), st.just("a\tb"), st.just("é"), st.just("a\rb")
)


@spec("C-SKILL-44")
@given(st.lists(st.tuples(st.one_of(WORDS, ASCII), VALUES), min_size=1, max_size=4))
def test_what_is_read_without_a_yaml_parser_is_what_one_reads(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in lines)
    plain = plain_mapping(text)
    if plain is not None:
        assert plain == yaml.safe_load(text)


def test_a_common_header_needs_no_yaml_parser() -> None:
    text = 'name: tides\ndescription: Looks tides up (today\'s, mostly), for "any" port.\n'
    assert plain_mapping(text) == yaml.safe_load(text)
    assert plain_mapping("a: b\nc: &d e\nf: *d\n") is None
