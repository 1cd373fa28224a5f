"""The skill server of the fixtures, as a real process behind a real server actor: all three modes, and its changes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from smcp_runtime.actors.kernel import ChildSpec
from smcp_runtime.actors.mcp.actor import McpSupervisor
from smcp_runtime.actors.mcp.transports.opener import Opener
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.bus import Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.channels import ResourceSlice
from smcp_runtime.wire.messages.mcp import CallTool, LaunchPlan, ResourcesListed, StartServer

from ..mcp.conftest import Reconcile
from .conftest import Bench

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

SERVER = "smcp_runtime.fixtures.servers.skills_server"
MCP = Address("mcp/tea")


async def forward(bench: Bench, observer: Observer) -> None:
    """Commits every listing of the server, as `reconcile` does."""
    async for fact in observer:
        assert isinstance(fact, ResourcesListed)
        bench.slices["tea"] = ResourceSlice(
            "tea",
            "Tea",
            fact.resources,
            fact.declared,
            fact.subscribe,
            connected=True,
            session=fact.session,
            local=True,
        )
        await bench.commit()


@pytest.fixture
async def tea(bench: Bench, tmp_path: Path) -> AsyncIterator[Bench]:
    """A started server with its skills staged."""
    await bench.start()
    reconcile = Reconcile()
    reconcile.plans["tea"] = LaunchPlan("tea", "Tea", "stdio", command=sys.executable, args=("-m", SERVER))
    opener = Opener(records=ProcessRecords(tmp_path / "processes"), log_folder=tmp_path / "logs")
    await bench.supervisor.start_child(ChildSpec(Address("reconcile"), lambda: reconcile))
    await bench.supervisor.start_child(ChildSpec(MCP, lambda: McpSupervisor("tea", opener), stop_timeout=12.0))
    async with anyio.create_task_group() as group:
        group.start_soon(forward, bench, Observer(bench.bus, ResourcesListed))
        await bench.bus.ask(MCP, StartServer())
        with anyio.fail_after(30):
            while len(await bench.names()) < 3:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        await bench.idle()
        yield bench
        await bench.supervisor.stop_child(MCP)
        group.cancel_scope.cancel()


async def call(bench: Bench, tool: str, arguments: bytes) -> None:
    outcome = await bench.bus.ask(MCP, CallTool(tool, Attachment(arguments), 10.0), timeout=15)
    assert outcome.ended == "answered"


@spec("C-SKILL-26", "C-SKILL-31", "C-SKILL-39", "C-SKILL-57")
async def test_a_server_can_offer_skills_in_all_three_ways(tea: Bench) -> None:
    assert await tea.names() == ["mcp:tea:lint", "mcp:tea:brew", "mcp:tea:greet"]
    assert await tea.notes("error") == []
    assert "${TFROBOT_SKILL_DIR}" in await tea.body("mcp:tea:lint")
    assert (await tea.body("mcp:tea:brew", "docs/times.md")).startswith("green")
    assert await tea.body("mcp:tea:greet", "words.json") == '{"en": "hello", "fr": "bonjour"}\n'


@spec("C-SKILL-14", "C-SKILL-20", "C-SKILL-75")
async def test_an_announced_update_and_a_changed_list_arrive(tea: Bench) -> None:
    # An update that comes before the subscription stands is heard by nobody, so it is announced until it arrives.
    await tea.eventually(lambda: _revised(tea))
    await call(tea, "add_note", b'{"text": "Be kind."}')
    await tea.eventually(lambda: _reads(tea, "note.md", "Be kind."))


async def _revised(bench: Bench) -> bool:
    await call(bench, "revise", b'{"word": "tere"}')
    await bench.idle()
    return await _reads(bench, "words.json", '{"new": "tere"}\n')


async def _reads(bench: Bench, name: str, text: str) -> bool:
    path = bench.home / "mcp" / "tea" / "greet" / name
    return path.exists() and await bench.body("mcp:tea:greet", name) == text
