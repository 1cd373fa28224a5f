"""Which rules of docs/spec have a test, and which have none.

Rules are read from the text of docs/spec, citations from `pytest.mark.spec(...)` in the
test sources, without importing anything. Run from the root of the repository:

    python -m tests.spec_rules --step 1
    python -m tests.spec_rules --chapter W-ROOM --chapter W-HS

The exit status is 1 when a rule lacks a test or a test cites a rule that does not exist.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

TESTS = Path(__file__).parent
SPEC = TESTS.parent / "docs" / "spec"
INDEX = "00-index.md"

ID = r"(?:[WCRT]-[A-Z]+|W-D|DEC|[CDEHUV])-[0-9]+[a-z]?"
_LISTED = re.compile(rf"^\s*(?:[-*]|[0-9]+\.) \*\*({ID})\b")
_ROW = re.compile(rf"^\| *\*{{0,2}}({ID}(?:(?:, |…)(?:{ID}|[0-9]+))*)\*{{0,2}} *(?:\||[^|]*\|)")
_SPAN = re.compile(rf"(?P<rule>{ID})(?:…(?P<last>[0-9]+))?")
_PARTS = re.compile(r"(?P<prefix>.+)-(?P<number>[0-9]+)[a-z]?")
_TOKEN = re.compile(r"(?P<prefix>[A-Z](?:-?[A-Z]+)*)(?:-(?P<low>[0-9]+)(?:\.\.(?P<high>[0-9]+))?)?")
_STEP = re.compile(r"^\| *(?P<number>[0-9]+) (?P<rest>.*)\|$")
_FIELD_CASE = re.compile(r"F-[0-9]+")
_FIELD_CASE_NUMBERS = (
    1, 3, 4, 8, 9, 10, 11, 14, 16, 18, 19, 22, 25, 28, 29, 30, 33, 35, 36, 39,
    40, 41, 44, 46, 48, 50, 52, 53, 54, 56, 57, 59, 61, 64, 66, 68, 72, 74, 76, 78,
    82, 83, 84, 86, 89, 91, 92, 95, 97, 100, 101, 104, 105, 107, 109, 111, 112, 114, 117, 119,
    120, 122,
)  # fmt: skip
FIELD_CASES = frozenset(f"F-{number:02}" for number in _FIELD_CASE_NUMBERS)
"""Field cases that exist: their numbering has gaps, and the page that tells them is not part of the project."""

UNTESTED = ("W-D", "V", "C-DIFF")
"""Chapters of knowledge about others; nothing of ours can prove them."""


@dataclass(frozen=True)
class Place:
    """Where something is written."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"


def prefix_of(rule: str) -> str:
    """Chapter of a rule: `W-ROOM` of `W-ROOM-3`, `C-SKILL` of `C-SKILL-66a`."""
    return _split(rule)[0]


def whole_of(rule: str) -> str:
    """The rule a lettered part belongs to; any other rule itself."""
    return rule.rstrip(ascii_lowercase)


def _split(rule: str) -> tuple[str, int]:
    found = _PARTS.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule!r} is no rule id")
    return found["prefix"], int(found["number"])


def order(rule: str) -> tuple[str, int, str]:
    """Sorts rules by chapter, then by number."""
    prefix, number = _split(rule)
    return prefix, number, rule


def definitions(texts: Mapping[Path, str]) -> dict[str, Place]:
    """Where each rule is defined: it opens a list item, or stands in the first cell of a table row."""
    found: dict[str, Place] = {}
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), start=1):
            listed = _LISTED.match(line)
            row = _ROW.match(line)
            opened = listed.group(1) if listed else row.group(1) if row else ""
            for rule in _opened(opened):
                found.setdefault(rule, Place(path, number))
    return found


def _opened(text: str) -> Iterator[str]:
    """The rules a cell or list item opens with; `T-ORIG-1…6` opens six."""
    for found in _SPAN.finditer(text):
        first = found["rule"]
        yield first
        if found["last"]:
            prefix, low = _split(first)
            yield from (f"{prefix}-{number}" for number in range(low + 1, int(found["last"]) + 1))


@dataclass(frozen=True)
class Steps:
    """The step table: who must prove what.

    A single id or a range beats the prefix it falls under, whatever row the prefix stands in.
    """

    prefixes: Mapping[str, int]
    singles: Mapping[tuple[str, int], frozenset[int]]
    field_cases: Mapping[int, frozenset[str]]

    def of(self, rule: str) -> frozenset[int]:
        """Steps whose tests must cite a rule; empty when none must."""
        prefix, number = _split(rule)
        step = self.prefixes.get(prefix)
        return self.singles.get((prefix, number), frozenset() if step is None else frozenset({step}))


def steps_of(index: str) -> Steps:
    """The table at the end of the index page."""
    prefixes: dict[str, int] = {}
    singles: dict[tuple[str, int], set[int]] = defaultdict(set)
    field_cases: dict[int, set[str]] = defaultdict(set)
    for line in index.splitlines():
        row = _STEP.match(line)
        if row is None:
            continue
        step = int(row["number"])
        for token in re.split(r"[,|;]", row["rest"]):
            found = _TOKEN.fullmatch(token.strip())
            if found is None:
                continue
            if found["low"] is None:
                prefixes[found["prefix"]] = step
                continue
            numbers = range(int(found["low"]), int(found["high"] or found["low"]) + 1)
            if found["prefix"] == "F":
                width = len(found["low"])
                field_cases[step].update(FIELD_CASES & {f"F-{number:0{width}}" for number in numbers})
                continue
            for number in numbers:
                singles[found["prefix"], number].add(step)
    return Steps(
        prefixes,
        {key: frozenset(value) for key, value in singles.items()},
        {step: frozenset(cases) for step, cases in field_cases.items()},
    )


def citations(texts: Mapping[Path, str]) -> dict[str, list[Place]]:
    """Where each rule is cited by a `spec` mark: on a function, a class, a module or a parameter.

    Raises:
        ValueError: A mark cites something that is no plain string.
    """
    found: dict[str, list[Place]] = defaultdict(list)
    for path, text in texts.items():
        for call in _marks(ast.parse(text, str(path))):
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(f"{path}:{call.lineno}: a spec mark takes rule ids as strings")
                found[argument.value].append(Place(path, call.lineno))
    return dict(found)


def _marks(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            mark = node.func
            if isinstance(mark, ast.Name) and mark.id == "spec":
                yield node
            elif isinstance(mark, ast.Attribute) and mark.attr == "spec":
                owner = mark.value
                if isinstance(owner, ast.Attribute) and owner.attr == "mark":
                    yield node


@dataclass(frozen=True)
class Coverage:
    """The spec beside the tests.

    Where a rule is written in lettered parts only, such as `C-DOC-3a` to `C-DOC-3i`, a test of all of them may cite
    the number alone.
    """

    defined: Mapping[str, Place]
    cited: Mapping[str, Sequence[Place]]
    steps: Steps

    def _is_defined(self, rule: str) -> bool:
        return rule in self.defined or any(whole_of(part) == rule for part in self.defined)

    def unknown(self) -> list[str]:
        """Cited ids that the spec does not define. Field cases are inputs from outside and pass."""
        return sorted(rule for rule in self.cited if not (self._is_defined(rule) or _FIELD_CASE.fullmatch(rule)))

    def of_chapter(self, chapter: str) -> list[str]:
        """The rules of a chapter such as `W-ROOM`, in order."""
        return sorted((rule for rule in self.defined if prefix_of(rule) == chapter), key=order)

    def of_step(self, step: int) -> list[str]:
        """The rules and field cases a step must prove, in order."""
        rules = {rule for rule in self.defined if step in self.steps.of(rule)}
        return sorted(rules | self.steps.field_cases.get(step, frozenset()), key=order)

    def untested(self, rules: Iterable[str]) -> list[str]:
        """Those of the rules that no test cites."""
        return [rule for rule in rules if rule not in self.cited and whole_of(rule) not in self.cited]


def load() -> Coverage:
    """The spec and the tests of this repository."""
    spec = {path: path.read_text(encoding="utf-8") for path in sorted(SPEC.glob("[0-9][0-9]-*.md"))}
    tests = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    return Coverage(definitions(spec), citations(tests), steps_of(spec[SPEC / INDEX]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rules that lack a test; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.spec_rules", description="Rules of docs/spec without a test."
    )
    parser.add_argument("--chapter", action="append", default=[], metavar="PREFIX", help="such as W-ROOM; repeatable")
    parser.add_argument("--step", action="append", default=[], type=int, metavar="N", help="a row of the step table")
    chosen = parser.parse_args(arguments)
    coverage = load()
    chapters = chosen.chapter or ([] if chosen.step else sorted({prefix_of(rule) for rule in coverage.defined}))
    groups = {f"step {step}": coverage.of_step(step) for step in chosen.step}
    groups |= {chapter: coverage.of_chapter(chapter) for chapter in chapters if chapter not in UNTESTED}
    status = 0
    for title, rules in groups.items():
        missing = coverage.untested(rules)
        print(f"{title}: {len(rules) - len(missing)} of {len(rules)} tested")
        for rule in missing:
            status = 1
            print(f"  {rule:<14} {coverage.defined.get(rule, 'field case')}")
    for rule in coverage.unknown():
        status = 1
        print(f"cited but not in the spec: {rule} ({', '.join(map(str, coverage.cited[rule]))})")
    return status


if __name__ == "__main__":
    sys.exit(main())
