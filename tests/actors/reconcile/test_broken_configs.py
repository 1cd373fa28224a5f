"""Broken configurations of every family: one clear message with the place each, and the last good state stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime import fixtures
from smcp_runtime.actors.reconcile.config.computer_config import canonical, parse_computer_config
from smcp_runtime.actors.reconcile.config.findings import findings_of
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.layers import read_flag_file
from smcp_runtime.actors.reconcile.management.preview import preview
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.messages.projection import SyncConfig

from .conftest import RECONCILE, World

spec = pytest.mark.spec
FAMILIES = sorted((fixtures.FOLDER / "broken").glob("*.json"))
CASES = [
    pytest.param(case["config"], case["field"], id=f"{path.stem}: {name}")
    for path in FAMILIES
    for name, case in json.loads(path.read_text("utf-8")).items()
]


@spec("R-CFG-2", "T-CFG-2", "T-CFG-3", "T-CFG-7", "T-PICK-4", "T-PICK-5", "T-PICK-7", "W-INP-1")
@pytest.mark.parametrize(("raw", "field"), CASES)
def test_each_broken_configuration_is_refused_once_at_its_place(raw: Any, field: str) -> None:
    with pytest.raises(SmcpError) as caught:
        parse_computer_config(raw, label="desk.json")
    assert [finding.field for finding in findings_of(caught.value)] == [field]
    assert caught.value.category in ("validation", "conflict", "policy")
    assert caught.value.message.startswith("desk.json is invalid:\n")
    assert field in caught.value.message


def test_every_family_has_ten() -> None:
    counts = {path.stem: len(json.loads(path.read_text("utf-8"))) for path in FAMILIES}
    assert set(counts) == {
        "connection", "identity", "inputs", "marketplaces", "plugins", "servers", "settings", "skills",
    }  # fmt: skip
    assert min(counts.values()) >= 10


@spec("T-SYNC-7", "R-LIFE-15", "R-LIFE-18", "F-66")
@pytest.mark.anyio
async def test_none_of_them_moves_a_computer_that_runs(world: World) -> None:
    await world.start(["a", "b"])
    await world.until_listed("a__echo", "b__echo")
    before = (world.held.commit, list(world.orders), world.held.config)
    for case in CASES:
        raw, _ = case.values
        with pytest.raises(SmcpError):
            await world.bus.ask(RECONCILE, SyncConfig(Attachment(json.dumps(raw).encode())))
    assert (world.held.commit, world.orders, world.held.config) == before
    assert await world.names() == ["a__echo", "b__echo"]


@spec("R-SCOPE-3", "R-CFG-2")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "byte 0: not UTF-8"),
        (b'{"servers": {', "line 1 column 14"),
        (b"", "line 1 column 1"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "'a' stands there more than once"),
        (b'{"servers": [], "inputs": NaN}', "NaN"),
        (b"5", "must be an object"),
    ],
)
def test_a_flag_file_that_is_no_declaration_is_refused_with_its_name(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "flag.json"
    path.write_bytes(content)
    with pytest.raises(SmcpError) as caught:
        read_flag_file(str(path))
    assert str(path) in caught.value.message
    assert said in caught.value.message


@spec("R-SCOPE-3")
def test_a_flag_file_of_fifty_megabytes_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "flag.json"
    with path.open("wb") as sparse:
        sparse.truncate(50 * 1024 * 1024)
    with pytest.raises(SmcpError) as caught:
        read_flag_file(str(path))
    assert caught.value.code == "too_large"
    assert str(path) in caught.value.message


@spec("R-INPUT-11", "F-107")
@pytest.mark.parametrize(
    ("args", "inputs", "problems"),
    [
        (["${input:ghost}"], [], ["servers.a.server_parameters.args[0]: input 'ghost' is not defined"]),
        (["${workspaceFolder}", "$${input:t}", "${input:t:-x}"], [], []),
        (
            ["${input:t}"],
            [{"type": "promptString", "id": "t", "description": "d", "default": "${input:t}"}],
            ["inputs.t.default: holds a placeholder, and values of inputs are never searched for placeholders"],
        ),
    ],
    ids=["unknown", "foreign", "cyclic"],
)
def test_a_preview_names_placeholders_that_lead_nowhere(
    tmp_path: Path, args: list[str], inputs: list[Any], problems: list[str]
) -> None:
    raw = {"name": "desk", "mcp_servers": [{"name": "a", "command": "x", "args": args}], "inputs": inputs}
    config = parse_computer_config(raw).config
    options = settle(RuntimeOptions(env={"HOME": str(tmp_path)}, project_root=str(tmp_path)), config)[0]
    found = preview(config, options).problems
    assert [f"{finding.field}: {finding.reason}" for finding in found] == problems


@spec("T-CFG-5", "R-CFG-7", "R-CFG-6")
def test_the_shared_configuration_with_every_family_reads_alike_in_both_spellings() -> None:
    full, aliases = (parse_computer_config(fixtures.config(name)).config for name in ("full", "full_aliases"))
    assert full == aliases
    assert parse_computer_config(canonical(full)).config == full
