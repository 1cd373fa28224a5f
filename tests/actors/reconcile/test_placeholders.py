"""One placeholder grammar for every field, and what takes the place of each token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.reconcile.config.placeholders import (
    Surroundings,
    Token,
    TooDeep,
    environment_references,
    references,
    render,
    scan,
)

spec = pytest.mark.spec
AROUND = Surroundings({"NAME": "value", "EMPTY": ""}, "/home/me", "/")
LITERAL = [
    "${workspaceFolder}",
    "${env:NAME:-default}",
    "${input:a:-b}",
    "${input:${env:NAME}}",
    "${env:A:-${env:NAME}}",
    "$${env:NAME}",
    "\\${env:NAME}",
    "${NAME}",
    "$NAME",
    "${",
    "${input:}",
    "${input:a",
    "{env:NAME}",
    "${ENV:NAME}",
]


def rendered(tree: Any, **values: Any) -> Any:
    return render(tree, values, AROUND).value


@spec("F-107", "R-INPUT-5", "R-MCP-1")
@pytest.mark.parametrize("text", LITERAL)
def test_what_is_outside_the_grammar_stays_as_written(text: str) -> None:
    assert rendered(text, a="x") == text
    assert rendered(f"before {text}", a="x") == f"before {text}"


@spec("R-INPUT-5", "F-107")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${input:a}", "x"),
        ("${env:NAME}", "value"),
        ("${userHome}", "/home/me"),
        ("${pathSeparator}", "/"),
        ("<${input:a}|${env:NAME}>", "<x|value>"),
        ("${input:a}${input:a}", "xx"),
        ("${ ${env:NAME}", "${ value"),
        ("${unknown}${env:NAME}", "${unknown}value"),
    ],
)
def test_each_token_is_replaced_wherever_it_stands(text: str, expected: str) -> None:
    assert rendered(text, a="x") == expected


@spec("R-INPUT-5", "F-107")
@pytest.mark.parametrize("path", ["command", "args", "env", "url", "headers", "cwd", "envFile"])
@pytest.mark.parametrize("token", ["${input:a}", "${env:NAME}", "${userHome}", "${pathSeparator}"])
def test_every_field_honours_every_token(path: str, token: str) -> None:
    tree = {path: {"deep": [f"-{token}-"]}}
    assert "${" not in str(rendered(tree, a="x"))


@spec("R-INPUT-5")
def test_map_keys_are_never_rendered() -> None:
    assert rendered({"${input:a}": "${input:a}"}, a="x") == {"${input:a}": "x"}


@spec("R-INPUT-5")
def test_a_value_that_looks_like_a_placeholder_is_not_scanned_again() -> None:
    assert rendered("-${input:a}", a="${env:NAME}") == "-${env:NAME}"


@spec("R-INPUT-5")
def test_trees_deeper_than_ten_levels_are_refused() -> None:
    tree: Any = "x"
    for _ in range(11):
        tree = [tree]
    with pytest.raises(TooDeep):
        references(tree)


@spec("R-INPUT-6", "T-INP-6")
@pytest.mark.parametrize("value", [7, True, "s"])
def test_a_pure_placeholder_keeps_the_type_of_its_value(value: object) -> None:
    assert rendered("${input:a}", a=value) is value


@spec("R-INPUT-6", "T-INP-6")
@pytest.mark.parametrize(("value", "text"), [(7, "n=7"), (True, "n=true"), (False, "n=false")])
def test_an_embedded_placeholder_becomes_text(value: object, text: str) -> None:
    assert rendered("n=${input:a}", a=value) == text


@spec("R-INPUT-7", "T-RERES-5")
def test_each_referenced_id_is_collected_once_in_order_of_appearance() -> None:
    tree = {"args": ["${input:b}", "${input:a} ${input:b}"], "env": {"K": "${input:p@m/c}"}}
    assert references(tree) == ("b", "a", "p@m/c")


def test_environment_names_are_collected_too() -> None:
    assert environment_references(["${env:A}${env:B}", "${env:A}"]) == ("A", "B")


@spec("F-107")
def test_an_undefined_variable_is_empty_and_reported_while_an_empty_one_is_not() -> None:
    result = render(["<${env:NOPE}>", "<${env:EMPTY}>"], {}, AROUND)
    assert (result.value, result.undefined) == (["<>", "<>"], ("NOPE",))


def test_where_the_separator_is_a_backslash_it_does_not_escape() -> None:
    around = Surroundings({"NAME": "me"}, "C:\\Users", "\\")
    assert render("C:\\${env:NAME}", {}, around).value == "C:\\me"


@given(st.text(alphabet="${}:inputevAB\\ ", max_size=30))
def test_scanning_never_loses_or_adds_a_character(text: str) -> None:
    assert "".join(part.text if isinstance(part, Token) else part for part in scan(text)) == text
