"""A real server that crashes and tells its secret on the way: nothing of ours repeats it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from smcp_runtime.actors.mcp.actor import McpSupervisor
from smcp_runtime.actors.mcp.transports.opener import Opener
from smcp_runtime.actors.reconcile.running.keeper import InlineServers

from .conftest import QUICK, World

pytestmark = pytest.mark.anyio
TOKEN = "tok-5f1e9c7a"
CRASH = "import os, sys; print('failed with', os.environ['T'], sys.argv[1], file=sys.stderr); sys.exit(3)"


@pytest.mark.spec("T-START-4", "R-INPUT-23", "R-SEC-1", "W-CMP-6")
async def test_t_start_4_no_diagnostic_of_a_crashing_server_contains_its_token(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    opener = Opener()
    world.keeper = InlineServers(world.supervisor, lambda bundle_id: McpSupervisor(bundle_id, opener), policy=QUICK)
    server = {
        "command": sys.executable,
        "args": ["-c", CRASH, "${input:api_token}"],
        "env": {"T": "${input:api_token}"},
    }
    secret = {"id": "api_token", "description": "d", "type": "promptString", "password": True}
    with caplog.at_level("DEBUG"):
        await world.start(
            {"secretive": server}, [secret], env={"A2C_SMCP_api_token": TOKEN}, project_root=str(tmp_path)
        )
        shown: Any = None
        with anyio.fail_after(20):
            while not (shown and shown.degradations and shown.servers[0].stderr_tail):
                shown = await world.status()
                await anyio.sleep(0.02)
        await world.halt()
    text = f"{msgspec.to_builtins(shown)} {await world.servers()} {caplog.text}"
    assert "failed with" in text
    assert TOKEN not in text
