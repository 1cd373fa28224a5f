"""The validator: every fault in one pass, each with code and place, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from smcp_runtime.actors.plugins.validate import validate
from support.marketplaces import HARBOUR, catalog, plugin, stdio, write

spec = pytest.mark.spec


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@spec("F-18")
def test_five_different_faults_of_one_marketplace_are_all_reported_in_one_pass(tmp_path: Path) -> None:
    files = {
        ".tfrobot-plugin/marketplace.json": {
            "name": "acme",
            "owner": {},
            "plugins": [
                {"name": "Bad Name", "source": "x"},
                {"name": "away", "source": "../../etc"},
                {"name": "kind", "source": {"source": "npm"}},
                {"name": "skills", "source": "skills", "skills": ["/etc"]},
                {"name": "absent"},
            ],
        }
    }
    write(tmp_path, files)
    before = tree(tmp_path)
    verdict = validate(tmp_path)
    assert not verdict.valid
    assert {(issue.code, issue.location) for issue in verdict.errors} == {
        ("missing", "owner.name"),
        ("bad_name", "plugins[0].name"),
        ("path_outside", "plugins[1].source"),
        ("bad_choice", "plugins[2].source.source"),
        ("path_outside", "plugins[3].skills[0]"),
        ("wrong_type", "plugins[4].source"),
    }
    assert {issue.file for issue in verdict.errors} == {".tfrobot-plugin/marketplace.json"}
    assert tree(tmp_path) == before


@spec("F-18")
def test_faults_inside_plugins_name_their_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            **catalog("acme", "audit", "absent"),
            **plugin("audit", stdio("a", bundle_id="x"), stdio("b", bundle_id="x")),
            "plugins/audit/mcp-servers/broken.json": "{",
            "plugins/audit/mcp-servers/inputs.json": [{"type": "nonsense", "id": "i", "description": "d"}],
            "plugins/audit/skills/work/SKILL.md": "no head",
            "plugins/audit/skills/Bad_Name/SKILL.md": "---\ndescription: d\n---\n",
        },
    )
    verdict = validate(tmp_path)
    assert {(issue.code, issue.file) for issue in verdict.errors} == {
        ("missing_tree", ".tfrobot-plugin/marketplace.json"),
        ("bad_json", "plugins/audit/mcp-servers/broken.json"),
        ("duplicate_bundle_id", "plugins/audit/mcp-servers/b.json"),
        ("bad_choice", "plugins/audit/mcp-servers/inputs.json"),
        ("skill", "plugins/audit/skills/work/SKILL.md"),
        ("skill", "plugins/audit/skills/Bad_Name"),
    }


def test_the_fixture_in_the_published_layout_is_valid() -> None:
    verdict = validate(HARBOUR)
    assert verdict.errors == ()
    assert verdict.mode == "marketplace"
    assert verdict.checked_files >= 8


def test_a_plugin_alone_can_be_validated_and_an_empty_directory_is_nothing(tmp_path: Path) -> None:
    verdict = validate(HARBOUR / "plugins/audit")
    assert (verdict.mode, verdict.valid) == ("plugin", True)
    assert [issue.code for issue in validate(tmp_path).errors] == ["nothing_to_check"]
