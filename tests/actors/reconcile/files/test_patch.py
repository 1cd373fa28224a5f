"""A change leaves everything it does not name, comments and faulty entries included."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime.actors.reconcile.config.json_text import load
from smcp_runtime.actors.reconcile.files.jsonc import has_comments
from smcp_runtime.actors.reconcile.files.patch import patched, patched_text, replacing

spec = pytest.mark.spec

COMMENTED = """\
// servers of the lab
{
  "servers": {
    // this one is slow
    "a": {"command": "x"}, // do not touch

    /* broken on purpose */ "b": 5,
    "c": {
      "command": "y" // no args
    }
  },
  "mine": [1, /* two */ 2]
}
"""


def change(text: str, patch: dict[str, Any]) -> str:
    return patched_text(text, load(text, "t"), patch)


@spec("R-FILE-9")
def test_objects_recurse_arrays_are_replaced_and_null_deletes() -> None:
    tree = {"keep": 1, "map": {"a": 1, "b": {"x": 1}}, "list": [1, 2], "gone": True}
    patch = {"map": {"a": None, "b": {"y": 2}, "c": {"n": None}}, "list": [3], "gone": None, "never": None}
    assert patched(tree, patch) == {"keep": 1, "map": {"b": {"x": 1, "y": 2}, "c": {}}, "list": [3]}
    assert tree["map"] == {"a": 1, "b": {"x": 1}}


def test_a_replacing_change_turns_one_object_into_the_other_exactly() -> None:
    before = {"command": "x", "env": {"A": "1", "B": "2"}, "old": True}
    after = {"command": "y", "env": {"B": "2"}, "args": []}
    assert patched(before, replacing(before, after)) == after


@spec("R-FILE-5")
def test_plain_text_is_written_with_two_spaces_letters_and_a_last_newline() -> None:
    assert change('{"b":1,"a":"\\u4f60"}', {"c": {"d": []}}) == (
        '{\n  "b": 1,\n  "a": "你",\n  "c": {\n    "d": []\n  }\n}\n'
    )


@spec("R-FILE-9")
@pytest.mark.parametrize(
    ("patch", "gone", "stays"),
    [
        ({"servers": {"a": {"command": "z"}}}, ['"x"'], ["// this one is slow", "// do not touch", "/* broken"]),
        ({"servers": {"a": None}}, ["this one is slow", "do not touch", '"x"'], ["/* broken", "// no args"]),
        ({"servers": {"b": None}}, ["broken on purpose"], ["// do not touch", "// no args"]),
        ({"servers": {"c": None}}, ["// no args", '"y"'], ["/* broken", "/* two */"]),
        ({"servers": None}, ["slow", "broken"], ["// servers of the lab", "/* two */"]),
        ({"mine": None}, ["two"], ["// no args", "// servers of the lab"]),
        ({"new": {"x": 1}}, [], ["// servers of the lab", "/* two */", "// no args"]),
        ({"servers": {"c": {"args": ["-v"]}}}, [], ["// no args", "/* broken"]),
    ],
)
def test_comments_stay_unless_what_they_speak_of_goes(patch: dict[str, Any], gone: list[str], stays: list[str]) -> None:
    text = change(COMMENTED, patch)
    assert load(text, "t") == patched(load(COMMENTED, "t"), patch)
    assert [word for word in gone if word in text] == []
    assert [word for word in stays if word not in text] == []


@spec("R-FILE-9")
def test_a_repeated_key_elsewhere_survives_a_change() -> None:
    text = '{"servers": {"a": 1, "a": 2}, "inputs": []}'
    changed = change(text, {"servers": {"b": {"command": "x"}}})
    assert changed.count('"a"') == 2
    assert load(change(text, {"servers": {"a": None}}), "t") == {"servers": {}, "inputs": []}


@spec("R-FILE-9")
def test_numbers_and_faulty_values_of_a_commented_file_stay_as_they_were_typed() -> None:
    text = '{ // c\n "a": 1e3, "b": [1.50,2], "n": null, "x": 1}'
    changed = change(text, {"x": 2})
    assert '"a": 1e3, "b": [1.50,2], "n": null, "x": 2' in changed


def test_an_object_emptied_and_filled_again_is_still_json() -> None:
    text = '{\n  "m": { /* nothing */ }\n}\n'
    filled = change(text, {"m": {"a": 1}})
    assert load(filled, "t") == {"m": {"a": 1}}
    assert "/* nothing */" in filled
    assert load(change(filled, {"m": {"a": None}}), "t") == {"m": {}}


@spec("R-FILE-9")
@pytest.mark.parametrize(
    ("text", "patch", "after"),
    [
        ('{ // mine\n "a": 1, "b": 2\n}', {"a": None}, '{ // mine\n "b": 2\n}'),
        ('{\n "a": 1, // first\n "b": 2, "c": 3\n}', {"b": None}, '{\n "a": 1, // first\n "c": 3\n}'),
        ('{ // mine\n "a": 1 }', {"a": None}, "{ // mine\n }"),
        ('{\n "a": 1, // first\n "b": 2 }', {"b": None}, '{\n "a": 1 // first\n }'),
        ('{\n "a": 1, // first\n "b": 2 // second\n}', {"b": None}, '{\n "a": 1 // first\n}'),
        ('{\n "a": 1, /* of\n b */ "b": 2\n}', {"a": None}, '{\n /* of\n b */ "b": 2\n}'),
        ('{\n "a": 1, /* of\n b */ "b": 2\n}', {"b": None}, '{\n "a": 1\n}'),
        ('{\r\n "a": 1, // first\r\n "b": 2, "c": 3\r\n}', {"b": None}, '{\r\n "a": 1, // first\r\n "c": 3\r\n}'),
        ('{\n "a": 1 // first\n}', {"b": 2}, '{\n "a": 1, // first\n "b": 2\n}'),
    ],
)
def test_what_stands_beside_a_change_keeps_its_line_and_its_comment(text: str, patch: Any, after: str) -> None:
    changed = change(text, patch)
    assert changed.replace("\r", "") == after.replace("\r", "")
    assert load(changed, "t") == patched(load(text, "t"), patch)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)


@given(objects, objects, st.sampled_from(["//x\n", "/*y*/"]))
def test_a_commented_text_and_a_plain_value_change_alike(
    tree: dict[str, Any], patch: dict[str, Any], comment: str
) -> None:
    text = comment + json.dumps(tree, indent=1)
    changed = change(text, patch)
    assert load(changed, "t") == patched(tree, patch)
    assert has_comments(changed)


blanks = st.sampled_from(
    ["", " ", "\n", "\r\n", ' // c, } " x\n', "//\n", ' /* c, } " */ ', "/**/", " /* c\n c */\n", "\n  // line\n  "]
)
"""What may stand between two signs of a text."""


@st.composite
def written(draw: st.DrawFn, depth: int = 0) -> str:
    """An object as somebody may have written it, comments and repeated keys anywhere."""

    def value() -> str:
        if depth < 2 and draw(st.booleans()):
            return draw(written(depth + 1))
        return draw(st.sampled_from(["1", '"s // no"', "true", '"a\\"b"', "2.5", "null", "[1, /* [ */ 2]", "[ ]"]))

    def gap() -> str:
        return draw(blanks)

    members = [
        f'{gap()}"{draw(st.sampled_from("abcd"))}"{gap()}:{gap()}{value()}{gap()}'
        for _ in range(draw(st.integers(0, 4)))
    ]
    return f"{{{gap()}{','.join(members)}{gap()}}}"


patches = st.recursive(
    st.none() | st.sampled_from([1, "x", [1, 2]]),
    lambda inner: st.dictionaries(st.sampled_from("abcde"), inner, max_size=3),
    max_leaves=6,
).filter(lambda patch: isinstance(patch, dict))


@spec("R-FILE-9")
@settings(max_examples=400)
@given(blanks, written(), blanks, patches)
def test_a_text_says_after_a_change_what_the_changed_tree_says_whatever_comments_are_in_it(
    before: str, text: str, behind: str, patch: dict[str, Any]
) -> None:
    whole = before + text + behind
    assert load(change(whole, patch), "t") == patched(load(whole, "t"), patch)
