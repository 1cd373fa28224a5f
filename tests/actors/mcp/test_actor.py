"""A server actor over real processes: what users see when servers behave, and when they do not."""

from __future__ import annotations

import json

import pytest

from smcp_runtime.wire.messages.mcp import ReconnectPolicy

from .conftest import Host, light

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

QUICK = ReconnectPolicy(initial_delay=0.05, max_delay=0.2)


class TestServing:
    @spec("R-MCP-24", "R-LIFE-23")
    async def test_a_started_server_is_connected_and_lists_its_tools_in_its_own_order(self, host: Host) -> None:
        await host.start(light("files", "--tools", "echo,add"))
        status = await host.status("files")
        assert (status.activation, status.connection, status.phase) == ("started", "connected", "ready")
        assert (status.protocol, status.server_name) == ("2025-11-25", "light")
        assert host.tools("files") == ["echo", "add"]

    @spec("W-CALL-8", "W-CALL-18")
    async def test_a_call_returns_the_servers_own_bytes(self, host: Host) -> None:
        await host.start(light("files"))
        outcome = await host.call("files", "echo", {"text": "hello"})
        assert (outcome.ended, outcome.executed, outcome.attempts) == ("answered", "yes", 1)
        assert outcome.result is not None
        assert json.loads(outcome.result.data)["content"] == [{"type": "text", "text": "hello"}]
