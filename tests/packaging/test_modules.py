"""What every module keeps to: its size, and what a folder's `__init__` may be."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from support.tree import PACKAGE, ROOT, dotted, modules

LONGER_THAN_400_LINES: dict[str, str] = {}
"""Modules that may be longer, each with its reason."""

INITS = [module for module in modules() if module.name == "__init__.py"]


def test_no_module_is_longer_than_400_lines() -> None:
    long = {str(module) for module in modules() if len((ROOT / module).read_text("utf-8").splitlines()) > 400}
    assert long == set(LONGER_THAN_400_LINES)


def test_every_module_says_what_it_is() -> None:
    silent = [str(module) for module in modules() if not ast.get_docstring(ast.parse((ROOT / module).read_bytes()))]
    assert silent == []


def constants_classes_functions(name: str) -> tuple[int, str]:
    """The order in which the linter, too, wants `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("init", INITS, ids=[dotted(init) or PACKAGE for init in INITS])
def test_an_init_only_re_exports_through_a_sorted_all(init: Path) -> None:
    body = ast.parse((ROOT / init).read_bytes()).body
    statements = body[1:]  # after the docstring
    others = [node for node in statements if not isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)]
    assigned = [target.id for node in statements if isinstance(node, ast.Assign) for target in node.targets]  # type: ignore[attr-defined]
    assert others == [], f"line {others[0].lineno} does something"
    assert set(assigned) <= {"__all__", "__version__"}

    module = importlib.import_module(".".join(filter(None, (PACKAGE, dotted(init)))))
    names = getattr(module, "__all__", [])
    assert list(names) == sorted(names, key=constants_classes_functions)
    assert [name for name in names if not hasattr(module, name)] == []
    imported = [
        alias.asname or alias.name
        for node in statements
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    ]
    assert sorted(imported) == sorted(set(names) - {"__version__"})
