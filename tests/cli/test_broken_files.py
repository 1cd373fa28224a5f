"""Broken files on the command line: one clear message with file and place, status 2, and nothing happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime import fixtures
from support.command import Ran, smcp

spec = pytest.mark.spec
FAMILIES = ("servers", "inputs", "settings", "marketplaces", "plugins")
"""Families that a file may hold; the others are parts of a configuration object alone."""
SPELLED = {
    "marketplaces": "extraKnownMarketplaces",
    "trusted_marketplaces": "trustedMarketplaces",
    "blocked_marketplaces": "blockedMarketplaces",
    "strict_known_marketplaces": "strictKnownMarketplaces",
}
PICK = {"type": "promptString", "id": "t", "description": "d"}


class Desk:
    """A user who gives files to a command."""

    def __init__(self, root: Path) -> None:
        self.root, self.file = root, root / "given.json"
        (root / "home").mkdir()
        self.environ = {"HOME": str(root / "home"), "PATH": "/usr/bin:/bin"}

    def run(self, *words: str) -> Ran:
        return smcp(*words, environ=self.environ, cwd=self.root)

    def check(self, content: Any, option: str = "--mcp-config") -> Ran:
        self.file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return self.run("computer", "check", "--name", "desk", option, str(self.file))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def cases(family: str) -> Iterator[tuple[str, Any, str, str]]:
    """Name, content of a file, option and place of each broken configuration that a file can hold."""
    broken = json.loads((fixtures.FOLDER / "broken" / f"{family}.json").read_text("utf-8"))
    for name, case in broken.items():
        fields = {key: value for key, value in case["config"].items() if key != "name"}
        if family in ("servers", "inputs"):
            yield name, fields, "--mcp-config", case["field"]
        elif family == "settings":
            yield name, fields["settings_policy"], "--settings", case["field"].removeprefix("settings_policy.")
        elif "installed_plugins" not in fields:
            head, rest = case["field"][: len(next(iter(fields)))], case["field"][len(next(iter(fields))) :]
            spelled = {SPELLED.get(key, key): value for key, value in fields.items()}
            yield name, spelled, "--settings", SPELLED.get(head, head) + rest


@spec("R-SCOPE-3", "R-CLI-1", "R-CFG-2")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_broken_file_of_a_family_ends_with_status_2_naming_file_and_place_once(desk: Desk, family: str) -> None:
    count = 0
    for name, content, option, field in cases(family):
        ran = desk.check(content, option)
        place = "must be an object" if field == "settings_policy" else field
        told = "\n".join(ran.errors)
        assert (ran.status, ran.lines) == (2, []), (name, ran)
        assert told.count("error ") == 1, (name, told)
        assert str(desk.file) in told, (name, told)
        assert place in told, (name, told)
        count += 1
    assert count >= 10


@spec("R-SCOPE-3", "R-CLI-1")
@pytest.mark.parametrize("option", ["--mcp-config", "--settings"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b"{oops", "line 1 column 2"),
        (b"", "line 1 column 1"),
        (b"[" * 100_000, "nested too deep"),
        (b"[]", "must be an object"),
        (b'{"a": 1e999}', "no computer can count"),
        (b"\0" * 64, "line 1 column 1"),
    ],
    ids=["not UTF-8", "no JSON", "empty", "deep", "list", "number without end", "zeros"],
)
def test_a_file_that_is_no_declaration_at_all_does_so_too(desk: Desk, option: str, content: bytes, said: str) -> None:
    ran = desk.check(content, option)
    told = "\n".join(ran.errors)
    assert (ran.status, ran.lines, told.count("error ")) == (2, [], 1)
    assert str(desk.file) in told
    assert said in told


@spec("R-SCOPE-3", "R-CLI-1")
@pytest.mark.parametrize("option", ["--mcp-config", "--settings"])
def test_a_file_of_fifty_megabytes_or_one_that_is_none_does_so_too(desk: Desk, option: str) -> None:
    with desk.file.open("wb") as sparse:
        sparse.truncate(50 * 1024 * 1024)
    for path, said in ((desk.file, "larger than 16 MiB"), (desk.root, "directory"), (desk.root / "none", "no such")):
        ran = desk.run("computer", "check", "--name", "desk", option, str(path))
        assert (ran.status, str(path) in ran.errors[0], said in "\n".join(ran.errors)) == (2, True, True), ran


@spec("R-INPUT-11", "R-CLI-1")
@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"servers": {"a": {"command": "x", "args": ["${input:ghost}"]}}}, "servers.a.server_parameters.args[0]"),
        ({"servers": {}, "inputs": [{**PICK, "default": "${input:t}"}]}, "inputs.t.default"),
        (
            {
                "servers": {},
                "inputs": [{**PICK, "default": "${input:u}"}, {**PICK, "id": "u", "default": "${input:t}"}],
            },
            "inputs.t.default",
        ),
    ],
    ids=["unknown", "itself", "in a circle"],
)
def test_a_placeholder_that_leads_nowhere_is_named_with_file_and_place(desk: Desk, content: Any, place: str) -> None:
    ran = desk.check(content)
    assert ran.status == 2
    assert ran.errors[0].startswith(f"{desk.file}: {place}: ")


@spec("R-SCOPE-3", "R-LIFE-8")
def test_no_command_does_anything_with_a_broken_file(desk: Desk) -> None:
    desk.file.write_text('{"servers": {"a": 5}}')
    before = sorted(desk.root.rglob("*"))
    for words in (("computer", "run", "--name", "desk"), ("input", "list"), ("input", "set", "t", "--value", "x")):
        ran = desk.run(*words, "--mcp-config", str(desk.file))
        assert (ran.status, ran.lines) == (2, [])
        assert all(part in "\n".join(ran.errors) for part in (str(desk.file), "servers.a"))
    assert sorted(desk.root.rglob("*")) == before
