"""Desktop, skills and blobs between the official SDK and us, both ways, in offices of either Server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.runtime import Computer
from smcp_runtime.server.app import serve
from smcp_runtime.wire.errors import MalformedReplyError, PeerError
from support.official import Official, OfficialError, OfficialPeer
from support.servers import open_options
from support.shelf import pattern, shelf, skill, user_skill, window
from support.stack import config, options
from support.waiting import until

pytestmark = pytest.mark.anyio

BIG = 900_000
NOTES = "long text, mit Umlauten: äöü\r\n" * 3_000
STAGED = "mcp:shelf_display:brew"


@pytest.fixture(params=["our Server", "official Server"])
async def url(request: pytest.FixtureRequest, official: Official) -> AsyncIterator[str]:
    if request.param == "our Server":
        async with serve(options=open_options()) as running:
            yield running.url
    else:
        yield (await official.server()).facts["url"]


def shelf_entry(folder: Path) -> dict[str, Any]:
    """A server with three windows and a staged skill."""
    resources = [
        window("window://lab/low", "low", annotations={"priority": 0.1}),
        window("window://lab/high", "high", annotations={"priority": 0.9}),
        window("window://lab/middle", "middle", annotations={"priority": 0.5}),
        *skill("lab", "brew", {"docs/times.md": "green: 2 minutes\n", "data.bin": BIG}),
    ]
    return shelf(folder, "shelf", resources)


def fill(home: Path) -> None:
    """The skills of the user that both Computers find below their home."""
    files: dict[str, str | bytes] = {"notes.md": NOTES, "photo.png": pattern(BIG), "small.json": '{"a": 1}\n'}
    user_skill(home, "mine", files)
    (home / "user" / "mine" / ".skillenv").write_text("TOKEN=canary")


class TestOurComputer:
    """An official Agent works with our Computer."""

    @pytest.fixture
    async def desk(self, url: str, tmp_path: Path) -> AsyncIterator[Computer]:
        home = tmp_path / "home"
        fill(home)
        configuration = config(shelf_entry(tmp_path), settings={"landingRoot": str(tmp_path / "landing")})
        places = {name: str(tmp_path / name) for name in ("state_dir", "blob_cache_root", "user_config_dir")}
        computer = Computer.from_config(configuration, options(home=str(home), **places))
        async with computer:
            await computer.connect(url, office="lab")
            yield computer

    @pytest.fixture
    async def planner(self, official: Official, url: str, desk: Computer) -> OfficialPeer:
        planner = await official.agent(url, "lab")
        await until(lambda: self.staged(planner), 20)
        return planner

    @staticmethod
    async def staged(planner: OfficialPeer) -> bool:
        listed = await planner.do("skills", computer="desk")
        return STAGED in [found["name"] for found in listed["skills"]]

    @pytest.mark.spec("E-4", "C-DESK-12", "W-REL-1")
    async def test_the_agent_sees_the_desktop_whole_cut_and_filtered(self, planner: OfficialPeer) -> None:
        shown = [f"window://lab/{name}\n\n{name}" for name in ("high", "middle", "low")]
        assert (await planner.do("desktop", computer="desk"))["desktops"] == shown
        assert (await planner.do("desktop", computer="desk", size=1))["desktops"] == shown[:1]
        found = await planner.do("desktop", computer="desk", window="window://lab/low")
        assert found["desktops"] == shown[2:]

    @pytest.mark.spec("E-6", "E-7", "C-SKILL-7", "C-SKILL-64", "C-DIFF-11", "C-DIFF-15")
    async def test_the_agent_reads_skills_inline_and_by_handle(self, planner: OfficialPeer) -> None:
        listed = (await planner.do("skills", computer="desk"))["skills"]
        assert [found["name"] for found in listed] == ["mine", STAGED]
        assert all({"name", "source", "path", "description"} <= set(found) for found in listed)
        entry = await planner.do("skill", computer="desk", name="mine")
        assert (entry["rel_path"], entry["body"]) == ("SKILL.md", "# mine\n")
        times = await planner.do("skill", computer="desk", name=STAGED, rel_path="docs/times.md")
        assert times["body"] == "green: 2 minutes\n"
        notes = await planner.do("skill", computer="desk", name="mine", rel_path="notes.md")
        assert notes["body"] == NOTES

    @pytest.mark.spec("E-8", "C-BLOB-11", "C-BLOB-1", "C-GEN-18", "C-DIFF-15")
    @pytest.mark.parametrize("at_once", [1, 4])
    async def test_the_agent_fetches_blobs_in_a_row_and_side_by_side(self, planner: OfficialPeer, at_once: int) -> None:
        digest = hashlib.sha256(pattern(BIG)).hexdigest()
        for name, path, mime_type in (
            ("mine", "photo.png", "image/png"),
            (STAGED, "data.bin", "application/octet-stream"),
        ):
            file = await planner.do("skill", computer="desk", name=name, rel_path=path)
            assert (file["total_size"], file["sha256"], file["mime_type"]) == (BIG, digest, mime_type)
            fetched = await planner.do("fetch", computer="desk", handle=file["blob_handle"], at_once=at_once)
            assert fetched == {"size": BIG, "sha256": digest, "mime_type": mime_type}

    @pytest.mark.spec("E-9", "C-UP-3", "C-UP-23")
    async def test_the_agent_uploads_to_us(self, planner: OfficialPeer, tmp_path: Path) -> None:
        file = tmp_path / "source"
        file.write_bytes(pattern(BIG))
        done = await planner.do("put", computer="desk", path=str(file), name_hint="../a b.bin")
        landed = tmp_path / "landing" / Path(done["landing_path"]).name
        assert landed.read_bytes() == pattern(BIG)
        assert done["landing_path"] == str(landed)
        assert landed.name.endswith("_a_b.bin")
        assert done["sha256"] == hashlib.sha256(pattern(BIG)).hexdigest()

    @pytest.mark.spec("C-GEN-3", "C-GEN-17", "C-DIFF-21", "W-REL-3", "W-ERR-3")
    async def test_refusals_reach_the_agent_with_their_codes(self, planner: OfficialPeer) -> None:
        for words, code in (
            ({"name": "nobody"}, 4014),
            ({"name": "../x"}, 4016),
            ({"name": "mine", "rel_path": "../x"}, 4017),
            ({"name": "mine", "rel_path": ".skillenv"}, 4017),
        ):
            with pytest.raises(OfficialError) as refused:
                await planner.do("skill", computer="desk", **words)
            assert refused.value.code == code, words
        answer = await planner.do(
            "raw",
            event="client:get_blob",
            data={"agent": "official-agent", "req_id": "r", "computer": "desk", "blob_handle": "made-up"},
        )
        assert (answer["code"], answer["details"]) == (4018, {"reason": "invalid_handle"})

    @pytest.mark.spec("E-16", "E-17", "E-24", "E-25", "C-SKILL-78")
    async def test_the_agent_hears_of_changes_and_asks_for_them_by_itself(
        self, planner: OfficialPeer, tmp_path: Path
    ) -> None:
        before = len(planner.events("skills_received"))
        user_skill(tmp_path / "home", "fresh")
        await until(lambda: len(planner.events("skills_received")) > before, 15)
        assert "fresh" in planner.events("skills_received")[-1]["skills"]
        entry = window("window://lab/high", "changed")
        await planner.do("call", computer="desk", tool_name="shelf_display__put", params={"entry": entry}, timeout=10)
        await until(lambda: self.changed(planner), 10)

    @staticmethod
    async def changed(planner: OfficialPeer) -> bool:
        return "window://lab/high\n\nchanged" in (await planner.do("desktop", computer="desk"))["desktops"]


class TestOurAgent:
    """Our Agent works with an official Computer."""

    @pytest.fixture
    async def agent(self, official: Official, url: str, tmp_path: Path) -> AsyncIterator[AsyncAgent]:
        home = tmp_path / "official"
        fill(home / "skills")
        (home / "a2c").mkdir()
        (home / "a2c" / "settings.json").write_text(json.dumps({"landingRoot": str(tmp_path / "landing")}))
        entry = {"disabled": False, "forbidden_tools": [], "tool_meta": {}, **shelf_entry(tmp_path)}
        await official.computer(url, "lab", "desk", servers=[entry], home=home)
        async with AsyncAgent(url, name="planner", office="lab") as agent:
            yield agent

    @pytest.mark.spec("E-4", "C-DIFF-3")
    async def test_it_sees_the_desktop(self, agent: AsyncAgent) -> None:
        shown = await agent.desktop("desk")
        assert list(shown) == [f"window://lab/{name}\n\n{name}" for name in ("high", "middle", "low")]
        assert await agent.desktop("desk", size=1) == shown[:1]
        assert await agent.desktop("desk", window="window://lab/low") == shown[2:]

    @pytest.mark.spec("E-6", "E-7", "E-8", "C-SKILL-77", "C-BLOB-37", "C-DIFF-15")
    async def test_it_reads_skills_inline_and_by_handle(self, agent: AsyncAgent, tmp_path: Path) -> None:
        # A server mounted after the start is staged by the official Computer once it announces a change of its list.
        versioned = {"uri": "skill://lab/brew", "_meta": {"source": "resources", "version": "2"}}
        await agent.tool_call("desk", "shelf_display__put", {"entry": versioned})
        await until(lambda: self.listed(agent), 15)
        assert (await agent.skill("desk", "mine")).text == "# mine\n"
        assert (await agent.skill("desk", "mine", "small.json")).text == '{"a": 1}\n'
        assert (await agent.skill("desk", "mine", "notes.md")).text == NOTES
        for name, path in (("mine", "photo.png"), (STAGED, "data.bin")):
            file = await agent.skill("desk", name, path)
            blob = await agent.read_blob("desk", str(file.blob_handle), parallel=4)
            assert (blob.data, blob.sha256) == (pattern(BIG), file.sha256)
        streamed = b"".join([chunk async for chunk in agent.stream_blob("desk", str(file.blob_handle))])
        assert streamed == pattern(BIG)
        saved = await agent.save_blob("desk", str(file.blob_handle), tmp_path / "saved")
        assert saved.path.read_bytes() == pattern(BIG)

    @staticmethod
    async def listed(agent: AsyncAgent) -> bool:
        return {"mine", STAGED} <= {found.name for found in await agent.skills("desk")}

    @pytest.mark.spec("E-9", "C-UP-3", "C-UP-33")
    async def test_it_uploads_to_it(self, agent: AsyncAgent, tmp_path: Path) -> None:
        done = await agent.upload("desk", pattern(BIG), name_hint="photo.png")
        landed = tmp_path / "landing" / done.landing_path.rpartition("/")[2]
        assert landed.read_bytes() == pattern(BIG)
        assert str(landed) == done.landing_path

    @pytest.mark.spec("W-ERR-3", "C-GEN-4", "C-DIFF-12")
    async def test_refusals_are_raised_with_their_codes(self, agent: AsyncAgent) -> None:
        for words, code in (
            (("nobody",), 4014),
            (("../x",), 4016),
            (("mine", "../x"), 4017),
            (("mine", ".skillenv"), 4017),
        ):
            with pytest.raises(PeerError) as refused:
                await agent.skill("desk", *words)
            assert refused.value.wire_code == code
        with pytest.raises(PeerError) as refused:
            await agent.get_blob("desk", "made-up")
        assert refused.value.payload["details"]["reason"] == "invalid_handle"

    @pytest.mark.spec("C-DOC-1", "W-DOC-2", "C-DIFF-20", "W-EVT-3")
    async def test_it_says_that_there_is_no_document_channel(self, agent: AsyncAgent) -> None:
        for ask in (agent.documents("desk"), agent.open_document("desk", "dpe://h/d")):
            with pytest.raises(MalformedReplyError) as refused:
                await ask
            assert refused.value.code == "unsupported"
