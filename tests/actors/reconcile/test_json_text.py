"""JSON that says where it is broken, and keys that stand there twice."""

from __future__ import annotations

import time

import pytest

from smcp_runtime.actors.reconcile.config.json_text import RepeatedKeys, load, repeated_keys
from smcp_runtime.wire.errors import ConfigValidationError

spec = pytest.mark.spec


@spec("R-CFG-2")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"a": 1,\n  "b": }', "line 2 column 8"),
        (b"", "line 1 column 1"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "byte 7: not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_broken_text_is_refused_with_its_label_and_place(text: bytes, place: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        load(text, "conf.json")
    assert caught.value.code == "bad_json"
    assert caught.value.message.startswith("conf.json: ")
    assert place in caught.value.message


@spec("R-CFG-2")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"a": ["\\ud83d"]}', "a[0] holds half a character"),
        (b'{"\\uDE00": 1}', "$ holds half a character"),
        (b'{"a": 1e999}', "what no computer can count"),
        (b'{"a": -1e999}', "what no computer can count"),
    ],
)
def test_what_no_text_and_no_number_can_hold_is_refused(text: bytes, place: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        load(text, "desk.json")
    assert caught.value.message.startswith("desk.json: ")
    assert place in caught.value.message


def test_a_whole_character_in_two_escapes_is_one() -> None:
    assert load(b'{"a": "\\ud83d\\ude00"}', "desk.json") == {"a": "\N{GRINNING FACE}"}


def test_a_byte_order_mark_is_no_fault() -> None:
    assert load(b'\xef\xbb\xbf{"a": 1}', "x") == {"a": 1}


@spec("R-MCP-7")
def test_a_repeated_key_is_remembered_with_its_path() -> None:
    tree = load('{"servers": {"a": 1, "b": [{"c": 1, "c": 2}], "a": 2}}', "x")
    assert isinstance(tree["servers"], RepeatedKeys)
    assert list(repeated_keys(tree)) == [("servers", "a"), ("servers.b[0]", "c")]


@pytest.mark.parametrize(
    "text",
    [
        "/*  " * 100_000,
        '"' + '\\"' * 200_000,
        '{"a": 1} /* ' + '" ' * 200_000,
        "//" * 200_000,
        '{"a": "' + "/*" * 200_000,
    ],
    ids=["comments", "escaped quotes", "quotes in a comment", "slashes", "comments in a text"],
)
def test_beginnings_without_an_end_are_refused_as_quickly_as_anything_else(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigValidationError):
        load(text, "desk.json")
    assert time.process_time() - began < 2.0


@spec("R-CFG-2", "R-SCOPE-13")
@pytest.mark.parametrize("text", ["[" * 65 + "]" * 65, '{"a":' * 70 + "1" + "}" * 70, "[" * 900 + "]" * 900])
def test_what_is_nested_deeper_than_anybody_declares_is_refused(text: str) -> None:
    with pytest.raises(ConfigValidationError, match="nested too deep"):
        load(text, "desk.json")


def test_as_deep_as_anybody_declares_is_read() -> None:
    assert load("[" * 64 + "]" * 64, "desk.json")
