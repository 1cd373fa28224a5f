"""One suite against a server made with the MCP package: every transport, both eras (F-52)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from smcp_runtime.actors.mcp import life
from smcp_runtime.wire.messages.mcp import (
    LaunchPlan,
    ReadResource,
    ResourcesListed,
    ResourceUpdated,
    ToolOutcome,
    WatchResources,
)
from support.peers import Peers

from .conftest import Host

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
spec = pytest.mark.spec

MODULE = "smcp_runtime.fixtures.servers.sdk_everything"
CLOCK = "window://everything/clock"


def text_of(outcome: ToolOutcome) -> str:
    assert outcome.result is not None, outcome
    return str(json.loads(outcome.result.data)["content"][0]["text"])


class Everything:
    """The server under test: its plan, started if it is one that listens by itself."""

    def __init__(self, plan: LaunchPlan, era: str) -> None:
        self.plan, self.era = plan, era


@pytest.fixture(params=["stdio newer", "stdio older", "streamable newer", "streamable older", "sse older"])
async def everything(request: pytest.FixtureRequest, peers: Peers, monkeypatch: pytest.MonkeyPatch) -> Everything:
    transport, era = str(request.param).split()
    given: dict[str, Any] = {"command": sys.executable, "args": ("-m", MODULE)}
    if transport != "stdio":
        peer = peers.start([sys.executable, "-m", MODULE, "--transport", transport])
        given = {"url": (await peer.line(r"ready url=(\S+)", timeout=30.0)).group(1)}
    if era == "older":
        # what the server makes of a client that knows nothing newer
        known = life.Life.__init__

        def older(self: life.Life, *arguments: Any, **named: Any) -> None:
            known(self, *arguments, **{**named, "older_only": True})

        monkeypatch.setattr(life.Life, "__init__", older)
    return Everything(LaunchPlan("every", "Everything (display)", transport, **given), era)  # type: ignore[arg-type]


@spec("F-52", "R-MCP-24", "R-MCP-26")
async def test_a_server_serves_in_the_newest_era_that_both_sides_speak_until_it_is_stopped(
    host: Host, everything: Everything
) -> None:
    address = await host.start(everything.plan)
    status = await host.status("every")
    assert status.protocol == {"newer": "2026-07-28", "older": "2025-11-25"}[everything.era]
    assert status.server_name == "Everything (display)"
    assert host.tools("every") == ["echo", "grow", "open_window", "set_clock"]
    assert text_of(await host.call("every", "echo", {"text": "hello"})) == "hello"
    read = await host.bus.ask(address, ReadResource(CLOCK, timeout=5.0))
    assert json.loads(read.contents.data)[0]["text"] == "twelve"
    (listed,) = await host.eventually(lambda: host.seen(ResourcesListed, "every"))
    assert [item["uri"] for item in json.loads(listed.resources.data)] == [CLOCK]
    assert listed.subscribe == (everything.era == "newer")
    assert (await host.stop("every")).phase == "stopped"


@spec("F-52", "DEC-4", "C-DESK-8")
async def test_changes_of_the_lists_and_of_a_watched_resource_are_seen(host: Host, everything: Everything) -> None:
    address = await host.start(everything.plan)
    await host.eventually(lambda: host.seen(ResourcesListed, "every"))
    assert text_of(await host.call("every", "grow", {"name": "fresh"})) == "grew fresh"
    await host.eventually(lambda: "fresh" in host.tools("every"))
    await host.call("every", "open_window", {"name": "door"})
    await host.eventually(lambda: b"door" in host.seen(ResourcesListed, "every")[-1].resources.data)
    if everything.era == "newer":
        watched = await host.bus.ask(address, WatchResources("desktop", (CLOCK,)))
        assert watched.uris == (CLOCK,)
        await host.call("every", "set_clock", {"time": "noon"})
        await host.eventually(lambda: host.seen(ResourceUpdated, "every"))
    else:
        assert (await host.bus.ask(address, WatchResources("desktop", (CLOCK,)))).uris == ()
