"""Where skills come from, and their life: user roots, plugins, MCP servers that come and go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.config import directories
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.wire.messages.skills import PluginSkills

from .conftest import Bench, refused, resource, skill_md, write_skill

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


def plugin(root: Path, name: str = "audit", **more: str) -> PluginSkills:
    return PluginSkills(name, "acme", str(root), ("skills",), **more)


class TestList:
    @spec("C-SKILL-7", "C-SKILL-57", "T-PROJ-5")
    async def test_t_proj_5_references_carry_what_is_known_and_nothing_else(self, bench: Bench) -> None:
        fields = {"license": "MIT", "allowed_tools": "[Read]", "tags": "[x, y]", "metadata": "{k: [1]}"}
        folder = write_skill(bench.user, "full", **fields)
        write_skill(bench.user, "plain")
        await bench.start()
        applied = await bench.commit()
        full, plain = await bench.skills()
        assert full == {
            "name": "full",
            "source": "user",
            "path": str(folder),
            "description": "does things",
            "license": "MIT",
            "allowed_tools": ["Read"],
            "tags": ["x", "y"],
            "skill_metadata": {"k": [1]},
        }
        assert set(plain) == {"name", "source", "path", "description"}
        assert applied.changed
        assert applied.signature

    @spec("C-SKILL-57", "DEC-5", "C-SKILL-6")
    async def test_the_order_is_roots_then_plugins_then_servers_whatever_came_first(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        await bench.start()
        for bundle_id in ("zeta", "alpha"):
            root = f"skill://{bundle_id}/s"
            await bench.serve_files(bundle_id, root, {"SKILL.md": skill_md("s")})
            await bench.eventually(lambda name=f"mcp:{bundle_id}:s": _listed(bench, name))
        write_skill(bench.user, "b")
        write_skill(bench.user, "a")
        write_skill(tmp_path / "first" / "skills", "one")
        write_skill(tmp_path / "second" / "skills", "two")
        bench.plugins = (plugin(tmp_path / "second", "second"), plugin(tmp_path / "first", "first"))
        bench.roots = (str(tmp_path / "empty"), str(bench.user))
        await bench.commit()
        assert await bench.names() == ["a", "b", "second:two", "first:one", "mcp:alpha:s", "mcp:zeta:s"]

    @spec("C-SKILL-57", "DEC-4", "C-GEN-10")
    async def test_a_server_that_does_not_answer_never_delays_the_list(self, bench: Bench) -> None:
        write_skill(bench.user, "a")
        await bench.start()
        await bench.serve("slow")
        bench.servers["slow"].hold()
        await bench.serve_files("slow", "skill://h/s", {"SKILL.md": skill_md("s")})
        await bench.servers["slow"].reading.wait()
        assert await bench.names() == ["a"]
        assert (await bench.status()).staging == ("slow",)

    @spec("C-SKILL-58", "C-SEC-3", "C-GEN-7")
    async def test_a_list_above_the_budget_is_cut_and_says_so_in_a_diagnostic(self, bench: Bench) -> None:
        for n in range(20):
            write_skill(bench.user, f"s{n:02}", description="d" * 900)
        await bench.start(list_budget=10_000)
        await bench.commit()
        found = await bench.names()
        assert found == [f"s{n:02}" for n in range(len(found))]
        assert 5 < len(found) < 20
        await bench.eventually(lambda: _noted(bench, "error", "left out"))

    @spec("C-GEN-15", "C-SKILL-56")
    async def test_before_the_first_commit_a_list_waits_a_little_and_is_then_empty(self, bench: Bench) -> None:
        write_skill(bench.user, "a")
        await bench.start(rebuild_wait=0.05)
        assert await bench.names() == []


class TestRoots:
    @spec("C-SKILL-54", "C-SEC-10", "C-SKILL-11", "R-FILE-1")
    async def test_only_the_registry_says_where_a_package_lies(self, bench: Bench, tmp_path: Path) -> None:
        home = directories.resolve(RuntimeOptions(env={"A2C_SKILL_HOME": str(bench.home)})).home
        assert home == bench.home
        write_skill(tmp_path / "real", "somewhere", body="real")
        (tmp_path / "root").mkdir()
        (tmp_path / "root" / "a").symlink_to(tmp_path / "real" / "somewhere")
        for decoy in (
            bench.user / "a",
            bench.home / "a",
            bench.home / "mcp" / "srv" / "s",
            bench.home / "marketplace" / "p" / "s",
        ):
            write_skill(decoy.parent, decoy.name, body="decoy")
        bench.roots = (str(tmp_path / "root"),)
        await bench.start()
        await bench.serve("srv")
        assert await bench.body("a") == "real"
        for name in ("mcp:srv:s", "p:s", "s"):
            assert await refused(bench.file(name)) == (4014, {"name": name})
            assert await refused(bench.slice(name, "SKILL.md")) == (4018, {"reason": "gone"})

    @spec("C-SKILL-50", "C-SKILL-56", "R-FILE-2")
    async def test_a_rescan_registers_updates_and_orphans(self, bench: Bench) -> None:
        write_skill(bench.user, "a")
        write_skill(bench.user, "b")
        await bench.start()
        await bench.commit()
        await bench.rescan()
        assert await bench.names() == ["a", "b"]
        shutil.rmtree(bench.user / "b")
        write_skill(bench.user, "a", description="new")
        write_skill(bench.user, "c")
        await bench.rescan()
        assert [(skill["name"], skill["description"]) for skill in await bench.skills()] == [
            ("a", "new"),
            ("c", "does things"),
        ]
        states = {state.name: state.orphan for state in (await bench.status()).skills}
        assert states == {"a": False, "b": True, "c": False}
        write_skill(bench.user, "b")
        await bench.rescan()
        assert await bench.names() == ["a", "b", "c"]

    @spec("C-SKILL-48", "T-SYNC-4", "C-SEC-19")
    async def test_only_the_roots_of_the_commit_count_and_changing_them_changes_the_list(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        write_skill(bench.user, "a")
        write_skill(tmp_path / "other", "b")
        await bench.start()
        assert (await bench.commit()).changed
        assert not (await bench.commit()).changed
        bench.roots = (str(tmp_path / "other"),)
        assert (await bench.commit()).changed
        assert await bench.names() == ["b"]
        bench.roots = ()
        applied = await bench.commit()
        assert (applied.changed, applied.signature, await bench.names()) == (True, "", [])

    @spec("F-120")
    async def test_what_is_wrong_with_a_skill_is_in_the_status_in_the_commit_and_told_as_a_fact(
        self, bench: Bench
    ) -> None:
        folder = write_skill(bench.user, "broken", description="use when: always")
        await bench.start()
        applied = await bench.commit()
        (note,) = applied.notes
        assert str(folder / "SKILL.md") in note
        assert "line 3" in note
        assert [found for found in await bench.notes("error") if "line 3" in found]
        await bench.eventually(lambda: _told_of_notes(bench, "line 3"))
        write_skill(bench.user, "broken")
        await bench.rescan()
        assert await bench.notes() == []
        await bench.eventually(lambda: _told_of_notes(bench, None))


class TestPlugins:
    @spec("C-SKILL-51", "C-SKILL-52", "R-PLUGIN-20")
    async def test_skills_of_a_plugin_appear_and_disappear_with_the_commit_that_names_it(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        write_skill(tmp_path / "p" / "skills", "check")
        await bench.start()
        await bench.commit()
        bench.plugins = (plugin(tmp_path / "p", version="2.0"),)
        assert (await bench.commit()).changed
        (found,) = await bench.skills()
        assert (found["name"], found["source"], found["version"]) == ("audit:check", "marketplace:acme", "2.0")
        assert await bench.body("audit:check") == "# Body\n"
        bench.plugins = ()
        assert (await bench.commit()).changed
        assert await refused(bench.file("audit:check")) == (4014, {"name": "audit:check"})
        assert await refused(bench.slice("audit:check", "SKILL.md")) == (4018, {"reason": "gone"})

    @spec("C-SKILL-75", "C-SKILL-56")
    async def test_a_plugin_is_scanned_again_when_its_tree_is_another_one_or_on_request(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        write_skill(tmp_path / "v1" / "skills", "check", description="one")
        write_skill(tmp_path / "v2" / "skills", "check", description="two")
        await bench.start()
        bench.plugins = (plugin(tmp_path / "v1"),)
        await bench.commit()
        bench.plugins = (plugin(tmp_path / "v2"),)
        await bench.commit()
        assert [skill["description"] for skill in await bench.skills()] == ["two"]
        await bench.rescan("audit")
        told = bench.told()
        (tmp_path / "v2" / "skills" / "check" / "notes.md").write_text("new")
        await bench.rescan("audit")
        await bench.until_told(told + 1)
        write_skill(tmp_path / "v2" / "skills", "more")
        await bench.commit()
        assert await bench.names() == ["audit:check"]
        await bench.rescan("audit")
        assert await bench.names() == ["audit:check", "audit:more"]
        await bench.rescan("unknown")

    @spec("C-SKILL-55", "C-SKILL-6")
    async def test_of_two_plugins_with_one_name_the_first_counts(self, bench: Bench, tmp_path: Path) -> None:
        write_skill(tmp_path / "one" / "skills", "check", description="one")
        write_skill(tmp_path / "two" / "skills", "check", description="two")
        await bench.start()
        bench.plugins = (plugin(tmp_path / "one"), plugin(tmp_path / "two"))
        await bench.commit()
        assert [skill["description"] for skill in await bench.skills()] == ["one"]


class TestServers:
    @pytest.fixture
    async def served(self, bench: Bench) -> Bench:
        await bench.start()
        await bench.serve_files(
            "srv", "skill://h/s", {"SKILL.md": skill_md("s"), "big.bin": bytes(50_000)}, version="7"
        )
        await bench.until_names("mcp:srv:s")
        await bench.until_told(1)
        return bench

    @spec("C-SKILL-6", "C-SKILL-7", "C-SKILL-12", "C-SKILL-15")
    async def test_a_connected_server_with_resources_has_its_skills_staged(self, served: Bench) -> None:
        (found,) = await served.skills()
        assert found == {
            "name": "mcp:srv:s",
            "source": "mcp:srv",
            "path": str(served.home / "mcp" / "srv" / "s"),
            "description": "does things",
            "uri": "skill://h/s",
            "version": "7",
        }

    @spec("C-SKILL-14")
    @pytest.mark.parametrize("state", [{"declared": False}, {"connected": False}])
    async def test_a_server_without_resources_or_connection_takes_no_part_in_silence(
        self, bench: Bench, state: dict[str, bool]
    ) -> None:
        await bench.start()
        server = await bench.serve("srv", resource("skill://h/s", source="mounted", mount_dir="/etc"), **state)
        assert (await bench.names(), await bench.notes(), server.reads) == ([], [], [])

    @spec("R-PROJ-10", "C-SKILL-56", "C-SKILL-19", "C-BLOB-16")
    async def test_skills_of_a_lost_server_are_orphans_with_their_files_until_it_returns(self, served: Bench) -> None:
        applied = await served.change("srv", connected=False)
        assert (applied.changed, await served.names()) == (True, [])
        assert await refused(served.file("mcp:srv:s")) == (4014, {"name": "mcp:srv:s"})
        assert await refused(served.slice("mcp:srv:s", "big.bin")) == (4018, {"reason": "forbidden"})
        assert (served.home / "mcp" / "srv" / "s" / "SKILL.md").exists()
        await served.change("srv", connected=True, session=2)
        await served.until_names("mcp:srv:s")
        assert len((await served.slice("mcp:srv:s", "big.bin")).data.data) == 50_000

    @spec("C-SKILL-56", "R-MCP-17")
    async def test_a_disabled_server_is_orphaned_and_a_removed_one_unregistered_its_files_stay(
        self, served: Bench
    ) -> None:
        served.known = {"srv"}
        await served.remove("srv")
        assert await served.names() == []
        assert [state.orphan for state in (await served.status()).skills] == [True]
        served.known = set()
        await served.commit()
        assert (await served.status()).skills == ()
        assert await refused(served.slice("mcp:srv:s", "big.bin")) == (4018, {"reason": "gone"})
        assert (served.home / "mcp" / "srv" / "s" / "SKILL.md").exists()

    @spec("C-SKILL-56")
    async def test_cleaning_up_is_a_users_word_and_spares_what_is_visible(self, served: Bench) -> None:
        await served.serve_files("gone", "skill://h/t", {"SKILL.md": skill_md("t")})
        await served.until_names("mcp:gone:t", "mcp:srv:s")
        await served.remove("gone")
        assert (served.home / "mcp" / "gone" / "t").exists()
        assert await served.clean_up() == (str(served.home / "mcp" / "gone" / "t"),)
        assert not (served.home / "mcp" / "gone").exists()
        assert await served.body("mcp:srv:s") == "# Body\n"

    @spec("C-SKILL-56")
    async def test_what_an_earlier_run_staged_is_not_visible_until_its_source_is(self, bench: Bench) -> None:
        write_skill(bench.home / "mcp" / "srv", "s")
        await bench.start()
        await bench.commit()
        assert await bench.names() == []
        assert (await bench.status()).skills == ()

    @spec("C-SKILL-19", "C-GEN-10")
    async def test_a_listing_that_cannot_be_read_orphans_nothing(self, served: Bench) -> None:
        broken = served.slices["srv"].__class__(
            "srv", "x", served.slices["srv"].resources.__class__(b"not json"), declared=True, connected=True, session=1
        )
        served.slices["srv"] = broken
        assert not (await served.commit()).changed
        assert await served.names() == ["mcp:srv:s"]
        assert await served.notes("error")


async def _listed(bench: Bench, name: str) -> bool:
    return name in await bench.names()


async def _noted(bench: Bench, level: str, text: str) -> bool:
    return any(text in note for note in await bench.notes(level))


async def _told_of_notes(bench: Bench, text: str | None) -> bool:
    """Whether the newest fact about notes holds one with this text, or none at all."""
    noted = bench.noted()
    if not noted:
        return False
    return not noted[-1].notes if text is None else any(text in note.text for note in noted[-1].notes)
