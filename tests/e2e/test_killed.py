"""A Computer that is killed hard in the middle of its work: who is told, who is gone, and what the next one finds."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import anyio
import pytest

from smcp_runtime import fixtures
from smcp_runtime.agent import AsyncAgent
from smcp_runtime.server.app import serve
from smcp_runtime.wire.errors import PeerError
from support.alive import alive
from support.peers import Peer, Peers
from support.servers import open_options
from support.stack import OFFICE, QUICK
from support.waiting import until

pytestmark = pytest.mark.anyio

STUBBORN = ("--ignore-eof", "--ignore-term", "--grandchild", "--tools", "sleep,echo")
SERVERS = ("one", "two", "three")


def computer(peers: Peers, url: str, config: Path) -> Peer:
    """`smcp computer run` in the office."""
    words = ("computer", "run", "--name", "desk", "--mcp-config", config, "--url", url, "--office", OFFICE)
    return peers.start([sys.executable, "-m", "smcp_runtime.cli.main", *words])


@pytest.mark.spec("DEC-8", "R-MCP-26", "T-STOP-5", "W-ERR-30", "C-12", "F-57")
async def test_a_killed_computer_leaves_nobody_and_its_callers_are_told_at_once(peers: Peers, tmp_path: Path) -> None:
    command, *arguments = fixtures.light_stdio(*STUBBORN)
    one = {"command": command, "args": arguments, "default_tool_meta": {"auto_apply": True}}
    declared = tmp_path / "servers.json"
    declared.write_text(json.dumps({"servers": dict.fromkeys(SERVERS, one)}), "utf-8")
    async with (
        serve(options=open_options()) as server,
        AsyncAgent(server.url, name="planner", office=OFFICE, backoff=QUICK) as agent,
    ):
        run = computer(peers, server.url, declared)
        await run.line(r"^ready", timeout=20)

        def usable() -> bool:
            return {f"{name}__sleep" for name in SERVERS} <= {tool.name for tool in agent.tools.of("desk")}

        await until(usable, 20)
        calls = [
            asyncio.create_task(agent.tool_call("desk", f"{name}__sleep", {"seconds": 60}, timeout=60))
            for name in SERVERS
        ]
        await agent.tool_call("desk", "one__echo", {"text": "behind them"}, timeout=10)
        family = run.descendants()
        assert len(family) >= 2 * len(SERVERS)
        run.signal(signal.SIGKILL)
        with anyio.fail_after(3):
            for call in calls:
                with pytest.raises(PeerError) as lost:
                    await call
                assert lost.value.wire_code == 404
                assert lost.value.details["a2c_outcome"] == "unknown"
        await until(lambda: not alive(family), 5)

        again = computer(peers, server.url, declared)
        await again.line(r"^ready", timeout=20)
        await until(usable, 20)
        assert (await agent.tool_call("desk", "two__echo", {"text": "back"}, timeout=10)).text == "back"
        family = again.descendants()
        again.signal(signal.SIGTERM)
        assert await again.exit(timeout=15) == 0
        assert not alive(family)
