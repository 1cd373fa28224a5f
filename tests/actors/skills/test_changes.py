"""Changes: what is staged again, what an Agent is told of, and how often."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.wire.messages.channels import SliceChanged

from .conftest import Bench, resource, skill_md, write_skill

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

QUIET = 0.3
"""Seconds in which an announcement that is due would have come: `announce_after` is 0.01 here."""


async def nothing_told(bench: Bench) -> bool:
    """Whether nothing is announced while there would be time for it."""
    before = bench.told()
    await bench.idle()
    with anyio.move_on_after(QUIET):
        await bench.until_told(before + 1)
        return False
    return True


def listing(*names: str, **meta: Any) -> list[dict[str, Any]]:
    """Skills in resources mode with one file each; metadata for all roots."""
    roots = [resource(f"skill://h/{name}", source="resources", **meta) for name in names]
    return [*roots, *(resource(f"skill://h/{name}/SKILL.md") for name in names)]


@pytest.fixture
async def served(bench: Bench) -> Bench:
    """Skills `a` and `b` of one server."""
    await bench.start()
    server = await bench.serve("srv")
    server.files.update({f"skill://h/{name}/SKILL.md": skill_md(name) for name in "abc"})
    await bench.serve("srv", *listing("a", "b"))
    await bench.until_names("mcp:srv:a", "mcp:srv:b")
    await bench.idle()
    await nothing_told(bench)
    server.reads.clear()
    return bench


class TestServers:
    @spec("C-SKILL-75", "R-PROJ-3")
    async def test_staged_skills_are_announced_with_the_state_of_the_list(self, bench: Bench) -> None:
        await bench.start()
        server = await bench.serve("srv")
        server.files["skill://h/a/SKILL.md"] = skill_md("a")
        await bench.serve("srv", *listing("a"))
        await bench.until_told(1)
        (fact,) = [fact for fact in bench.facts if isinstance(fact, SliceChanged)]
        assert fact.slice == "skills"
        assert await bench.names() == ["mcp:srv:a"]
        assert fact.signature == (await bench.commit()).signature

    @spec("C-SKILL-75", "C-SKILL-20", "R-PROJ-5")
    async def test_an_equal_listing_stages_and_tells_nothing(self, served: Bench) -> None:
        await served.serve("srv", *reversed(listing("a", "b")), resource("note://new"))
        assert await nothing_told(served)
        assert served.servers["srv"].reads == []

    @spec("C-SKILL-20", "C-SKILL-75")
    async def test_after_a_list_change_only_what_changed_is_staged(self, served: Bench) -> None:
        await served.serve("srv", *listing("a", "b", "c"))
        await served.until_names("mcp:srv:a", "mcp:srv:b", "mcp:srv:c")
        await served.idle()
        assert served.servers["srv"].reads == ["skill://h/c/SKILL.md"]

    @spec("C-SKILL-20", "C-SKILL-75", "R-PROJ-3")
    async def test_an_update_stages_that_root_alone_and_is_told_even_if_nothing_differs(self, served: Bench) -> None:
        told = served.told()
        served.announce("srv", "skill://h/a/SKILL.md")
        await served.until_told(told + 1)
        assert served.servers["srv"].reads == ["skill://h/a/SKILL.md"]
        served.announce("srv", "skill://h/b")
        await served.until_told(told + 2)
        assert served.servers["srv"].reads[1:] == ["skill://h/b/SKILL.md"]

    @spec("C-SKILL-75")
    async def test_updates_of_other_resources_servers_and_schemes_are_nothing(self, served: Bench) -> None:
        for bundle_id, uri in (("srv", "skill://h/none"), ("srv", "window://h/a"), ("other", "skill://h/a")):
            served.announce(bundle_id, uri)
        assert await nothing_told(served)
        assert served.servers["srv"].reads == []

    @spec("C-SKILL-75", "R-PROJ-3")
    async def test_when_an_agent_is_told_it_finds_the_new_state(self, served: Bench) -> None:
        told = served.told()
        served.servers["srv"].files["skill://h/a/SKILL.md"] = skill_md("a", "new", body="new body")
        served.announce("srv", "skill://h/a")
        await served.until_told(told + 1)
        assert (await served.skills())[0]["description"] == "new"
        assert await served.body("mcp:srv:a") == "new body"

    @spec("C-SKILL-19", "C-SKILL-56", "C-SKILL-75")
    async def test_a_skill_that_is_gone_or_fails_becomes_an_orphan_and_that_is_told(self, served: Bench) -> None:
        told = served.told()
        await served.serve("srv", *listing("a"))
        await served.until_told(told + 1)
        assert await served.names() == ["mcp:srv:a"]
        served.servers["srv"].files["skill://h/a/SKILL.md"] = "no header any more"
        served.announce("srv", "skill://h/a")
        await served.until_told(told + 2)
        assert await served.names() == []
        assert [state.orphan for state in (await served.status()).skills] == [True, True]

    @spec("C-GEN-12", "C-SKILL-20")
    async def test_a_storm_of_updates_is_one_more_run_and_none_is_lost(self, served: Bench) -> None:
        server = served.servers["srv"]
        server.hold()
        served.announce("srv", "skill://h/a")
        with anyio.fail_after(5):
            await server.reading.wait()
        for _ in range(200):
            served.announce("srv", "skill://h/a")
            served.announce("srv", "skill://h/b")
        await served.names()
        server.files["skill://h/a/SKILL.md"] = skill_md("a", "last")
        server.release.set()
        await served.eventually(lambda: _described(served, "last"))
        await served.idle()
        assert sorted(server.reads) == ["skill://h/a/SKILL.md"] * 2 + ["skill://h/b/SKILL.md"]

    @spec("C-SKILL-20", "R-PROJ-5")
    async def test_a_new_session_that_brings_the_same_tells_nothing(self, served: Bench) -> None:
        await served.serve("srv", *listing("a", "b"), session=2)
        assert await nothing_told(served)
        assert len(served.servers["srv"].reads) == 2
        assert await served.names() == ["mcp:srv:a", "mcp:srv:b"]

    @spec("C-SKILL-56", "C-GEN-12")
    async def test_a_server_that_is_lost_while_it_is_staged_leaves_nothing_visible(self, served: Bench) -> None:
        server = served.servers["srv"]
        server.hold()
        await served.serve("srv", *listing("a", "b", "c"), session=2)
        with anyio.fail_after(5):
            await server.reading.wait()
        applied = await served.change("srv", connected=False)
        assert applied.changed
        server.release.set()
        assert await nothing_told(served)
        assert await served.names() == []
        await served.change("srv", connected=True, session=3)
        await served.until_names("mcp:srv:a", "mcp:srv:b", "mcp:srv:c")

    @spec("R-PROJ-5", "DEC-27")
    async def test_a_commit_says_whether_the_list_differs_and_does_not_tell_it_twice(self, served: Bench) -> None:
        applied = await served.change("srv", connected=False)
        assert (applied.changed, applied.signature) == (True, "")
        assert await nothing_told(served)
        assert not (await served.commit()).changed


class TestDropIns:
    @pytest.fixture
    async def watched(self, bench: Bench) -> Bench:
        write_skill(bench.user, "a", {"docs/x.md": "x"})
        await bench.start(watch=True, settle=0.05, settle_longest=2.0, poll_interval=0.1)
        await bench.commit()
        await bench.eventually(lambda: _watching(bench))
        await nothing_told(bench)
        return bench

    @spec("C-SKILL-75", "C-SKILL-76", "C-SKILL-56")
    async def test_a_skill_that_is_dropped_in_changed_or_taken_away_is_told(self, watched: Bench) -> None:
        write_skill(watched.user, "b")
        await watched.until_names("a", "b")
        await watched.until_told(1)
        write_skill(watched.user, "b", description="new")
        await watched.eventually(lambda: _described(watched, "does things", "new"))
        shutil.rmtree(watched.user / "b")
        await watched.until_names("a")
        (watched.user / "a").rename(watched.user / "c")
        await watched.until_names("c")

    @spec("C-SKILL-76", "R-PROJ-3")
    async def test_any_readable_file_of_a_skill_counts(self, watched: Bench) -> None:
        (watched.user / "a" / "docs" / "x.md").write_text("changed")
        await watched.until_told(1)
        assert await watched.body("a", "docs/x.md") == "changed"
        (watched.user / "a" / "docs" / "y.md").write_text("new")
        await watched.until_told(2)

    @spec("C-SKILL-76", "R-PROJ-5")
    async def test_forbidden_files_and_what_belongs_to_no_skill_are_not_told(self, watched: Bench) -> None:
        (watched.user / "a" / ".skillenv").write_text("KEY=canary")
        (watched.user / "notes.txt").write_text("x")
        (watched.user / "folder").mkdir()
        (watched.user / "folder" / "x").write_text("x")
        assert await nothing_told(watched)

    @spec("C-SKILL-76")
    async def test_a_root_that_appears_later_is_picked_up(self, watched: Bench, tmp_path: Path) -> None:
        watched.roots = (*watched.roots, str(tmp_path / "later"))
        await watched.commit()
        write_skill(tmp_path / "later", "z")
        await watched.until_names("a", "z")

    @spec("C-SKILL-76")
    async def test_what_the_runtime_writes_itself_is_ignored(self, watched: Bench) -> None:
        watched.roots = (str(watched.home), str(watched.user))
        await watched.commit()
        await watched.eventually(lambda: _watching(watched))
        await nothing_told(watched)
        await watched.serve_files("srv", "skill://h/s", {"SKILL.md": skill_md("s")})
        await watched.until_names("a", "mcp:srv:s")
        await watched.until_told(1)
        assert await nothing_told(watched)

    @spec("C-SKILL-76", "C-GEN-13")
    async def test_a_storm_of_ten_thousand_changes_ends_in_one_announcement(
        self, bench: Bench, quick_disk: Path
    ) -> None:
        write_skill(quick_disk, "a")
        bench.roots = (str(quick_disk),)
        await bench.start(watch=True, settle=0.5, settle_longest=60.0, poll_interval=0.1)
        await bench.commit()
        await bench.eventually(lambda: _watching(bench))
        storm = (
            "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(10_000): os.close(os.open(f'{n}.md', os.O_CREAT))"
        )
        await anyio.run_process([sys.executable, "-c", storm, str(quick_disk / "a")])
        await bench.until_told(1)
        assert await nothing_told(bench)
        assert bench.told() == 1
        assert await bench.body("a", "9999.md") == ""

    @spec("C-SKILL-76")
    async def test_without_the_watcher_only_a_rescan_finds_changes(self, bench: Bench) -> None:
        write_skill(bench.user, "a")
        await bench.start(watch=False)
        await bench.commit()
        write_skill(bench.user, "b")
        assert await nothing_told(bench)
        assert not (await bench.status()).watching
        assert await bench.names() == ["a"]
        await bench.rescan()
        assert await bench.names() == ["a", "b"]
        await bench.until_told(1)
        (bench.user / "b" / ".skillenv").write_text("KEY=canary")
        await bench.rescan()
        assert await nothing_told(bench)
        (bench.user / "b" / "x.md").write_text("x")
        await bench.rescan()
        await bench.until_told(2)


async def _described(bench: Bench, *texts: str) -> bool:
    found = [skill["description"] for skill in await bench.skills()]
    return found[: len(texts)] == list(texts)


async def _watching(bench: Bench) -> bool:
    return (await bench.status()).watching
