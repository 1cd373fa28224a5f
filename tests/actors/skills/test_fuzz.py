"""A hundred thousand paths against random trees with links: no escape, no crash, no forbidden byte."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.actors.skills.package_file import open_package_file
from smcp_runtime.actors.skills.rel_path import Refused

TREES, PATHS = 200, 500
NAMES = ["a", "b", "c", "d.md", "SKILL.md", ".skillenv", ".git", "x y", "é"]
TARGETS = [
    *NAMES,
    "..",
    "../a",
    "../../a",
    "../out",
    "../out/a",
    "../package",
    "../package/a",
    ".",
    "a/..",
    "/etc/passwd",
    ".git/a",
]
STEPS = [
    *NAMES,
    *NAMES,
    "..",
    ".",
    "",
    ".SKILLENV",
    ".skillenv.",
    "．skillenv",
    ".GIT",
    "\0",
    "a\\b",
    "c:",
    "x" * 300,
    "out",
    "\ud800",
]
FORBIDDEN = ForbiddenNames()


def grow(root: Path, dice: random.Random) -> None:
    """Fills a package: what may be read says so."""
    for _ in range(dice.randint(1, 25)):
        place = root.joinpath(*dice.choices(NAMES, k=dice.randint(1, 4)))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            real = place.parent.resolve() / place.name
            if not real.is_relative_to(root) or os.path.lexists(place):
                continue
            if dice.random() < 0.5:
                target = dice.choice(TARGETS)
                place.symlink_to(root / target if dice.random() < 0.2 else target)
            else:
                hidden = any(part in FORBIDDEN for part in real.relative_to(root).parts)
                place.write_text("forbidden" if hidden else "inside")
        except OSError:
            continue


@pytest.mark.spec("C-SEC-11", "C-SEC-12", "C-SKILL-66", "C-SKILL-67", "R-SEC-10")
def test_a_hundred_thousand_paths_never_show_anything_but_permitted_files(quick_disk: Path) -> None:
    dice = random.Random(20_261_130)
    ends: dict[str, int] = {}
    for tree in range(TREES):
        top = quick_disk.resolve() / str(tree)
        root = top / "package"
        root.mkdir(parents=True)
        (top / "out").mkdir()
        for name in ("a", "b", "out/a", "out/b"):
            (top / name).write_text("outside")
        grow(root, dice)
        there = [str(path.relative_to(root)) for path in root.rglob("*")] or ["a"]
        for _ in range(PATHS):
            path = dice.choice(there) if dice.random() < 0.4 else "/".join(dice.choices(STEPS, k=dice.randint(1, 5)))
            path = path + "/" + dice.choice(STEPS) if dice.random() < 0.2 else path
            try:
                with open_package_file(str(root), path, FORBIDDEN, 100) as file:
                    end = os.read(file.found.fd, 100).decode()
            except Refused as refused:
                end = refused.reason
            ends[end] = ends.get(end, 0) + 1
    assert set(ends) == {"inside", "traversal", "forbidden", "not_found"}
    assert ends["inside"] > 1_000
    assert sum(ends.values()) == TREES * PATHS == 100_000
