"""Exposed names: how they are built, and by which names a tool can be forbidden."""

from __future__ import annotations

import pytest

from smcp_runtime.wire import exposed_name
from smcp_runtime.wire.names import is_forbidden


@pytest.mark.spec("W-EXP-1", "R-MCP-15")
@pytest.mark.parametrize(
    ("bundle_id", "original", "alias", "exposed"),
    [
        ("git", "log", None, "git__log"),
        ("git", "log", "history", "git__history"),
        ("b", "foo__bar", None, "b__foo__bar"),
        ("a_", "x", None, "a___x"),
        ("a", "_x", None, "a___x"),
        ("git", "log", "", "git__log"),
        ("g", "工具", None, "g__工具"),
    ],
)
def test_exposed_names_always_carry_the_prefix(bundle_id: str, original: str, alias: str | None, exposed: str) -> None:
    assert exposed_name(bundle_id, original, alias) == exposed


@pytest.mark.spec("W-CALL-6", "R-MCP-18")
@pytest.mark.parametrize("entry", ["log", "history", "git__history"])
def test_a_tool_is_forbidden_by_original_name_alias_or_exposed_name(entry: str) -> None:
    assert is_forbidden(frozenset({entry}), "git", "log", "history")


@pytest.mark.spec("W-CALL-6", "R-MCP-18")
@pytest.mark.parametrize("entry", ["lo", "LOG", "git__log", "svn__history", "log ", "git", "__history", ""])
def test_no_other_name_forbids_it(entry: str) -> None:
    assert not is_forbidden(frozenset({entry}), "git", "log", "history")


def test_without_an_alias_the_exposed_name_is_that_of_the_original() -> None:
    assert is_forbidden(frozenset({"git__log"}), "git", "log")
    assert not is_forbidden(frozenset(), "git", "log")
