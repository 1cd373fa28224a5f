"""HTTP servers that refuse calls: real MCP servers whose handshake succeeds; `tools/call` alone is turned away.

The Agent is told what to do at once, never with a secret, and the connection can be used again.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.doorman import Doorman, doorman
from support.peers import Peers
from support.stack import Stack, config, light, open_stack

pytestmark = pytest.mark.anyio

EVERYTHING = "smcp_runtime.fixtures.servers.sdk_everything"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="mcp", scope="files:write"'}
ACTIONS = {4006: "user_authorization_required", 4007: "token_refresh_required"}
transports = pytest.mark.parametrize("transport", ["streamable", "sse"])


@asynccontextmanager
async def guarded(peers: Peers, transport: str) -> AsyncIterator[tuple[Stack, Doorman]]:
    """A stack whose Computer reaches the server `vault` through a doorman, with a token of its own."""
    peer = peers.python("-m", EVERYTHING, "--transport", transport)
    async with doorman(peer.wait_line(r"ready url=(\S+)", timeout=30)[1]) as door:
        vault: dict[str, Any] = {
            "name": "The vault (display)",
            "bundle_id": "vault",
            "type": transport,
            "server_parameters": {"url": door.url, "headers": {"Authorization": "Bearer t0ken-s3cret"}},
            "default_tool_meta": {"auto_apply": True},
        }
        async with open_stack(config(vault, light("other"))) as stack:
            await stack.until_listed("vault__echo", "other__echo", timeout=30)
            assert await stack.text("vault__echo", text="before") == "before"
            assert "Bearer t0ken-s3cret" in door.credentials
            yield stack, door


@pytest.mark.spec("W-UP-1", "W-UP-2", "W-UP-3", "W-UP-4", "W-UP-6", "W-UP-7", "W-UP-8", "W-UP-10")
@pytest.mark.spec("R-FIX-4", "C-9", "U-2", "U-3", "W-ARCH-8", "T-PROJ-9")
@transports
@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [(403, {}, 4007), (401, {}, 4006), (401, CHALLENGE, 4006)],
    ids=["403", "401", "401 with a challenge"],
)
async def test_t_proj_9_a_refused_call_says_at_once_that_authorization_is_missing_and_nothing_more(
    peers: Peers, transport: str, status: int, headers: dict[str, str], code: int
) -> None:
    async with guarded(peers, transport) as (stack, door):
        door.refuse(status, headers)
        began = time.monotonic()
        result = await stack.call("vault__echo", timeout=30, text="x")
        assert time.monotonic() - began < 2
        assert (result.is_error, result.error_code, result.meta["mcp_server"]) == (True, code, "vault")
        assert result.meta["auth_hint"]["action"] == ACTIONS[code]
        assert result.text
        told = json.dumps(result.to_dict())
        assert not any(word in told for word in ("s3cret", "Bearer", "realm", "scope", "127.0.0.1"))
        assert door.refused == 1
        assert await stack.text("other__echo", text="x") == "x"
        door.admit()
        assert await stack.text("vault__echo", text="after") == "after"
        assert "s3cret" not in str(await stack.computer.diagnostics())


@pytest.mark.spec("W-UP-5", "W-UP-6", "R-FIX-4", "U-7", "C-6", "DEC-10")
@transports
@pytest.mark.parametrize("status", [500, 503])
async def test_a_server_that_fails_is_no_question_of_authorization(peers: Peers, transport: str, status: int) -> None:
    async with guarded(peers, transport) as (stack, door):
        door.refuse(status)
        began = time.monotonic()
        result = await stack.call("vault__echo", timeout=30, text="x")
        assert time.monotonic() - began < 2
        assert (result.error_code, result.meta["a2c_outcome"]) == (4003, "unknown")
        assert "auth_hint" not in result.meta
        door.admit()
        assert await stack.text("vault__echo", text="after") == "after"
