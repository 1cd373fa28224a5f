"""Which era a server is spoken to in, whatever it makes of questions it does not know."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from smcp_runtime.wire.messages.mcp import LaunchPlan, ReconnectPolicy, StartServer

from .conftest import Host

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

MODULE = "smcp_runtime.fixtures.servers.eras_stdio"


def plan(*flags: str) -> LaunchPlan:
    never = ReconnectPolicy(enabled=False)
    return LaunchPlan(
        "eras", "eras (display)", "stdio", command=sys.executable, args=("-m", MODULE, *flags), reconnect=never
    )


@spec("F-52", "R-MCP-24")
@pytest.mark.parametrize(
    ("flags", "protocol"),
    [
        (("--speaks", "older"), "2025-06-18"),
        (("--speaks", "newer"), "2026-07-28"),
        (("--speaks", "both"), "2026-07-28"),
        (("--speaks", "older", "--unknown", "mute"), "2025-06-18"),
        (("--speaks", "older", "--unknown", "exit"), "2025-06-18"),
        (("--speaks", "both", "--start-delay", "0.5"), "2026-07-28"),
        (("--speaks", "newer", "--start-delay", "0.5"), "2026-07-28"),
        (("--speaks", "older", "--unknown", "mute", "--start-delay", "0.5"), "2025-06-18"),
    ],
)
async def test_the_newest_era_that_the_server_speaks_is_settled_within_a_moment(
    host: Host, flags: tuple[str, ...], protocol: str
) -> None:
    began = time.monotonic()
    await host.start(plan(*flags))
    assert time.monotonic() - began < 2.5
    assert (await host.status("eras")).protocol == protocol
    assert host.tools("eras") == ["era"]
    assert (await host.call("eras", "era")).ended == "answered"


async def test_a_server_that_ends_at_an_unknown_question_is_asked_the_older_way_from_then_on(
    host: Host, tmp_path: Path
) -> None:
    log = tmp_path / "methods"
    address = await host.start(plan("--unknown", "exit", "--log", str(log)))
    await host.stop("eras")
    log.write_text("")
    await host.bus.ask(address, StartServer())
    await host.until("eras", phase="ready")
    assert log.read_text().splitlines()[0] == "initialize"


async def test_a_server_that_agrees_to_neither_way_is_refused_with_its_words(host: Host) -> None:
    script = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        error = {"code": -32603, "message": "no licence"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""
    never = ReconnectPolicy(enabled=False)
    refusing = LaunchPlan(
        "eras", "eras (display)", "stdio", command=sys.executable, args=("-c", script), reconnect=never
    )
    await host.bus.ask(await host.add(refusing), StartServer())
    status = await host.until("eras", phase="parked")
    assert (status.code, status.reason) == ("refused", "the server refused the handshake: no licence")


async def test_a_malformed_handshake_is_named_as_such(host: Host) -> None:
    script = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"capabilities": 7}}), flush=True)
"""
    never = ReconnectPolicy(enabled=False)
    odd = LaunchPlan("eras", "eras (display)", "stdio", command=sys.executable, args=("-c", script), reconnect=never)
    await host.bus.ask(await host.add(odd), StartServer())
    status = await host.until("eras", phase="parked")
    assert status.code == "malformed_handshake"
