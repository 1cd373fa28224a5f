"""The package as it lies in the repository: which files are its modules, and what each imports.

``python tests/support/tree.py`` writes the list of packages in pyproject.toml anew, after a folder came or went.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = "smcp_runtime"
FOLDERS = ("actors", "agent", "bus", "cli", "fixtures", "server", "wire")
"""Top-level folders of the package. Everything else in the repository stays out of the wheel."""


def pyproject() -> dict[str, Any]:
    """The project file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def modules() -> list[Path]:
    """Every module of the package, relative to the root of the repository, sorted."""
    found = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    return sorted(path.relative_to(ROOT) for path in found)


def dotted(module: Path) -> str:
    """Name of a module inside the package: `bus/link.py` is `bus.link`, an `__init__.py` is its folder."""
    parts = module.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(module: Path) -> Iterator[tuple[str, int]]:
    """Absolute names of all that a module imports, wherever in it, with the line.

    Names of our own start with `smcp_runtime.`; ``from .x import y`` in `bus/` gives `smcp_runtime.bus.x.y`.
    """
    package = [PACKAGE, *module.parent.parts]
    for node in ast.walk(ast.parse((ROOT / module).read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{origin}.{alias.name}", node.lineno


def packages() -> list[str]:
    """Every folder of the package by its import name, sorted."""
    folders = {dotted(module) for module in modules() if module.name == "__init__.py"}
    return [".".join(filter(None, (PACKAGE, folder))) for folder in sorted(folders)]


def main() -> None:
    """Writes `packages` into the project file."""
    lines = "".join(f'    "{name}",\n' for name in packages())
    path = ROOT / "pyproject.toml"
    text = path.read_text("utf-8")
    path.write_text(re.sub(r"(\npackages = \[\n)[^\]]*(\]\n)", rf"\g<1>{lines}\g<2>", text), "utf-8")


if __name__ == "__main__":
    main()
