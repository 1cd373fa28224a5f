"""Windows, skills and documents of a server wherever it is placed, and what only a server of this machine may do."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.peers import Peers
from support.placed import PLACEMENTS, open_placed
from support.shelf import document, pattern, shelf, skill, window
from support.stack import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
everywhere = pytest.mark.parametrize("placement", PLACEMENTS)


@everywhere
@pytest.mark.spec("C-DESK-27", "C-SKILL-75", "C-DOC-22", "C-BLOB-12")
async def test_channels_work_alike_wherever_a_server_runs(
    placement: str, peers: Peers, tmp_path: Path, own_places: Path
) -> None:
    resources = [window("window://w/1", "first"), *skill("h", "tea", {"x.bin": 300_000}), document("dpe://d/report")]
    server = shelf(tmp_path, "one", resources, name="one")
    async with open_placed(placement, peers, server, reference_resolver="blob") as placed:
        stack, agent = placed.stack, placed.stack.agent
        await until_shown(stack, "window://w/1\n\nfirst")
        await until_skills(stack, "mcp:one:tea")
        content = await agent.skill("desk", "mcp:one:tea", "x.bin")
        assert (await agent.read_blob("desk", content.blob_handle)).data == pattern(300_000)
        assert [found.doc_ref for found in await agent.documents("desk")] == ["report"]
        assert b"A document" in ((await agent.open_document("desk", "dpe://d/report")).data or b"")

        await stack.call("one__put", entry=window("window://w/1", "second"))
        await until_shown(stack, "window://w/1\n\nsecond")
        for added in skill("h", "rice"):
            await stack.call("one__put", entry=added)
        await until_skills(stack, "mcp:one:rice", "mcp:one:tea")
        await stack.call("one__drop", uri="window://w/1")
        await until_shown(stack)


@everywhere
@pytest.mark.spec("DEC-4", "C-DOC-20", "F-41")
async def test_what_a_server_does_not_announce_is_found_once_it_is_asked_for(
    placement: str, peers: Peers, tmp_path: Path, own_places: Path
) -> None:
    server = shelf(tmp_path, "one", [document("dpe://d/old")], "--no-list-changed", name="one")
    async with open_placed(placement, peers, server, reference_resolver="blob") as placed:
        stack = placed.stack
        await stack.until(lambda: catalogued(stack, "old"), timeout=30)
        await stack.call("one__put", entry=document("dpe://d/new"))
        assert (await stack.agent.open_document("desk", "dpe://d/new")).data
        await stack.call("one__put", entry=document("dpe://d/newer"))
        await stack.until(lambda: catalogued(stack, "new", "newer", "old"), timeout=30)


@everywhere
@pytest.mark.spec("C-SKILL-27", "C-SEC-15")
async def test_only_a_server_of_this_machine_may_mount_a_directory_of_it(
    placement: str, peers: Peers, tmp_path: Path, own_places: Path
) -> None:
    package = tmp_path / "tea"
    package.mkdir()
    (package / "SKILL.md").write_text("---\nname: tea\ndescription: t\n---\nhot\n")
    mounted = {"uri": "skill://m/tea", "_meta": {"source": "mounted", "mount_dir": str(package)}}
    server = shelf(tmp_path, "one", [mounted, *skill("h", "rice")], name="one")
    async with open_placed(placement, peers, server) as placed:
        stack = placed.stack
        expected = ["mcp:one:rice"] if placement == "external" else ["mcp:one:rice", "mcp:one:tea"]
        await until_skills(stack, *expected)
        if placement == "external":
            await stack.until(lambda: refused(stack), timeout=30)
            await until_skills(stack, *expected)


async def until_shown(stack: Stack, *entries: str) -> None:
    async def shown() -> bool:
        return await stack.agent.desktop("desk") == entries

    await stack.until(shown, timeout=30)


async def until_skills(stack: Stack, *names: str) -> None:
    async def listed() -> bool:
        return sorted(found.name for found in await stack.agent.skills("desk")) == sorted(names)

    await stack.until(listed, timeout=30)


async def catalogued(stack: Stack, *doc_refs: str) -> bool:
    return sorted(found.doc_ref for found in await stack.agent.documents("desk")) == sorted(doc_refs)


async def refused(stack: Stack) -> bool:
    return "the server is remote" in str(await stack.computer.diagnostics())
