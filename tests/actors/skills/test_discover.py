"""Finding skills on disk: in drop-in roots and in plugins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.skills.discover import Finds, scan_plugin, scan_roots
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.wire.messages.skills import PluginSkills

from .conftest import write_skill

spec = pytest.mark.spec
FORBIDDEN = ForbiddenNames()


def names(finds: Finds) -> list[str]:
    return [found.ref.name for found in finds.skills]


def said(finds: Finds, level: str) -> list[str]:
    """Places of the notes of a level, by their last part."""
    notes = [note for lines in finds.notes.values() for note in lines]
    return [os.path.basename(note.place) for note in notes if note.level == level]


def scan(*roots: Path) -> Finds:
    return scan_roots([str(root) for root in roots], FORBIDDEN)


class TestRoots:
    @spec("C-SKILL-48", "C-SKILL-6", "C-SKILL-7")
    def test_a_skill_is_a_directory_with_a_skill_md_one_level_below_a_root(self, tmp_path: Path) -> None:
        folder = write_skill(tmp_path, "b-skill", license="MIT", tags="[x]", version="9")
        write_skill(tmp_path, "a-skill")
        first, second = scan(tmp_path).skills
        assert (first.ref.name, second.ref.name) == ("a-skill", "b-skill")
        ref = second.ref
        assert (ref.source, ref.path, ref.description) == ("user", str(folder), "does things")
        assert (ref.license, ref.tags) == ("MIT", ("x",))
        assert not any(isinstance(value, str) for value in (ref.version, ref.uri))

    @spec("C-SKILL-48")
    def test_of_equal_names_that_of_the_earlier_root_wins_with_a_warning(self, tmp_path: Path) -> None:
        write_skill(tmp_path / "one", "a", description="first")
        write_skill(tmp_path / "two", "a", description="second")
        write_skill(tmp_path / "two", "b")
        finds = scan(tmp_path / "one", tmp_path / "two")
        assert [(found.ref.name, found.ref.description) for found in finds.skills] == [
            ("a", "first"),
            ("b", "does things"),
        ]
        assert said(finds, "warning") == ["a"]

    @spec("C-SKILL-49")
    @pytest.mark.parametrize("name", ["My-Skill", "my_skill", "-a", "a--b", "a b", "é", "x" * 65])
    def test_a_directory_whose_name_is_not_kebab_is_skipped_with_an_error(self, tmp_path: Path, name: str) -> None:
        write_skill(tmp_path, name)
        write_skill(tmp_path, "good")
        finds = scan(tmp_path)
        assert (names(finds), said(finds, "error")) == (["good"], [name])

    @spec("C-SKILL-49")
    def test_hidden_directories_are_skipped_silently_and_skill_files_elsewhere_with_a_debug_note(
        self, tmp_path: Path
    ) -> None:
        write_skill(tmp_path, ".hidden")
        write_skill(tmp_path / "group", "deep")
        (tmp_path / "SKILL.md").write_text("---\ndescription: d\n---\n")
        (tmp_path / "notes.txt").write_text("x")
        finds = scan(tmp_path)
        assert names(finds) == []
        assert sorted(said(finds, "debug")) == ["SKILL.md", "group"]
        assert said(finds, "error") + said(finds, "warning") == []

    @spec("C-SKILL-49")
    def test_a_skill_directory_may_be_a_link_and_its_real_path_counts(self, tmp_path: Path) -> None:
        real = write_skill(tmp_path / "elsewhere", "real-name")
        (tmp_path / "root").mkdir()
        (tmp_path / "root" / "alias").symlink_to(real)
        (found,) = scan(tmp_path / "root").skills
        assert (found.ref.name, found.ref.path) == ("alias", str(real))

    @spec("C-SKILL-49", "R-SEC-10", "F-120")
    def test_a_skill_md_that_is_a_link_out_of_its_directory_is_an_error(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("---\ndescription: canary\n---\n")
        (tmp_path / "root" / "a").mkdir(parents=True)
        (tmp_path / "root" / "a" / "SKILL.md").symlink_to(secret)
        finds = scan(tmp_path / "root")
        assert (names(finds), said(finds, "error")) == ([], ["SKILL.md"])

    @spec("F-120", "C-SKILL-44", "C-SKILL-45")
    def test_a_header_that_cannot_be_used_is_reported_with_file_line_and_reason(self, tmp_path: Path) -> None:
        folder = write_skill(tmp_path, "broken", description="use when: always")
        finds = scan(tmp_path)
        assert names(finds) == []
        (notes,) = finds.notes.values()
        assert (notes[0].level, notes[0].place) == ("error", str(folder / "SKILL.md"))
        assert "line 3" in notes[0].text

    @spec("F-120")
    def test_a_wrongly_spelled_skill_md_is_pointed_out(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "skill.md").write_text("---\ndescription: d\n---\n")
        finds = scan(tmp_path)
        assert (names(finds), said(finds, "warning")) == ([], ["skill.md"])

    @spec("C-SKILL-45")
    @pytest.mark.parametrize("name", ["other", "[a]", "7"])
    def test_the_directory_name_rules_and_another_name_in_the_header_is_only_a_debug_note(
        self, tmp_path: Path, name: str
    ) -> None:
        folder = write_skill(tmp_path, "a")
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
        finds = scan(tmp_path)
        assert (names(finds), said(finds, "debug"), said(finds, "error")) == (["a"], ["SKILL.md"], [])

    @spec("C-SKILL-48", "C-SKILL-76")
    def test_a_root_that_does_not_exist_or_is_a_file_has_no_skills(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        write_skill(tmp_path / "good", "a")
        assert names(scan(tmp_path / "none", tmp_path / "file", tmp_path / "good")) == ["a"]

    @spec("C-SKILL-45", "C-SKILL-44")
    def test_only_the_head_of_a_skill_md_is_read(self, tmp_path: Path) -> None:
        folder = write_skill(tmp_path, "a")
        with (folder / "SKILL.md").open("ab") as file:
            file.truncate(10_000_000_000)
        assert names(scan(tmp_path)) == ["a"]


def plugin(root: Path, *containers: str, **more: Any) -> PluginSkills:
    return PluginSkills(more.pop("plugin", "acme-audit"), "acme", str(root), containers or ("skills",), **more)


class TestPlugins:
    @spec("C-SKILL-6", "C-SKILL-7", "C-SKILL-52")
    def test_skills_of_a_plugin_carry_its_name_its_marketplace_and_its_version(self, tmp_path: Path) -> None:
        folder = write_skill(tmp_path / "skills", "audit")
        (found,) = scan_plugin(plugin(tmp_path, version="1.2"), 0, FORBIDDEN).skills
        ref = found.ref
        assert (ref.name, ref.source, ref.path) == ("acme-audit:audit", "marketplace:acme", str(folder))
        assert ref.version == "1.2"

    @spec("C-SKILL-52")
    def test_containers_are_scanned_in_order_each_once_and_only_inside_the_plugin(self, tmp_path: Path) -> None:
        root = tmp_path / "plugin"
        write_skill(root / "skills", "b")
        write_skill(root / "skills", "a")
        write_skill(root / "more", "c")
        write_skill(tmp_path / "outside", "x")
        (root / "alias").symlink_to("skills")
        (root / "away").symlink_to("../outside")
        containers = (
            "skills",
            "./skills/",
            "alias",
            "../outside",
            "away",
            str(tmp_path / "outside"),
            "none",
            str(root / "more"),
        )
        finds = scan_plugin(plugin(root, *containers), 0, FORBIDDEN)
        ranked = sorted(finds.skills, key=lambda found: found.rank)
        assert [found.ref.name for found in ranked] == ["acme-audit:a", "acme-audit:b", "acme-audit:c"]
        assert said(finds, "error") == ["outside", "away", "outside"]

    @spec("C-SKILL-52", "R-SEC-10")
    def test_a_skill_directory_that_is_a_link_out_of_the_plugin_is_an_error(self, tmp_path: Path) -> None:
        write_skill(tmp_path / "outside", "x")
        (tmp_path / "plugin" / "skills").mkdir(parents=True)
        (tmp_path / "plugin" / "skills" / "x").symlink_to(tmp_path / "outside" / "x")
        finds = scan_plugin(plugin(tmp_path / "plugin"), 0, FORBIDDEN)
        assert (names(finds), said(finds, "error")) == ([], ["x"])

    @spec("C-SKILL-53")
    def test_a_bad_skill_is_skipped_with_an_error_and_the_others_stay(self, tmp_path: Path) -> None:
        write_skill(tmp_path / "skills", "good")
        write_skill(tmp_path / "skills", "Bad_Name")
        write_skill(tmp_path / "skills", "empty", description="''")
        write_skill(tmp_path / "more", "good", description="second")
        finds = scan_plugin(plugin(tmp_path, "skills", "more"), 0, FORBIDDEN)
        assert [(found.ref.name, found.ref.description) for found in finds.skills] == [
            ("acme-audit:good", "does things")
        ]
        assert sorted(said(finds, "error")) == ["Bad_Name", "SKILL.md", "good"]

    @spec("C-SKILL-4")
    def test_a_plugin_called_mcp_works_with_a_warning(self, tmp_path: Path) -> None:
        write_skill(tmp_path / "skills", "skill")
        finds = scan_plugin(plugin(tmp_path, plugin="mcp"), 0, FORBIDDEN)
        assert names(finds) == ["mcp:skill"]
        assert len(said(finds, "warning")) == 1
