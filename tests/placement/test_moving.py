"""Which server runs where is configuration: a change of it moves the servers it names, and no others."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ConfigValidationError
from support.peers import Peers
from support.placed import open_placed
from support.stack import config, light
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def placed_at(**where: str) -> dict[str, Any]:
    """Settings that place these servers."""
    layers = {bundle_id: {"limits": {"placement": placement}} for bundle_id, placement in where.items()}
    return {"mcpServerRuntime": {"servers": layers}}


@pytest.mark.spec("R-LIFE-15", "R-LIFE-18", "R-MCP-9")
async def test_a_changed_placement_moves_exactly_that_server(peers: Peers) -> None:
    servers = (light("one", tools="echo,pid"), light("two", tools="echo,pid"))
    async with open_placed("inline", peers, *servers) as placed:
        stack = placed.stack
        await stack.until_connected("one", "two")
        before = {name: await placed.pid(name) for name in ("one", "two")}
        this = psutil.Process()
        assert await placed.worker("one") == this

        changed = await stack.computer.sync_config(config(*servers, settings=placed_at(one="process")))
        assert (changed.restarted, changed.stopped, changed.started) == (("one",), (), ())
        await until(lambda: not psutil.pid_exists(before["one"]))
        await stack.until_connected("one")
        host = await placed.worker("one")
        assert host != this
        assert host.parent() == this
        assert await placed.pid("two") == before["two"]
        assert await stack.text("one__echo", text="moved") == "moved"
        assert "one__echo" in await stack.names()

        again = await stack.computer.sync_config(config(*servers, settings=placed_at(one="process", two="inline")))
        assert not again.restarted
        await stack.computer.sync_config(config(*servers))
        await until(lambda: not host.is_running())
        await stack.until_connected("one")
        assert await placed.worker("one") == this
        assert await placed.pid("two") == before["two"]


@pytest.mark.spec("R-CFG-2")
async def test_an_external_placement_without_an_endpoint_is_refused_at_the_start_and_at_a_sync(peers: Peers) -> None:
    wanted = config(light("one"), settings=placed_at(one="external"))
    with pytest.raises(ConfigValidationError) as refused:
        Computer.from_config(wanted)
    assert [finding.code for finding in refused.value.findings] == ["no_bus"]
    async with open_placed("inline", peers, light("one")) as placed:
        await placed.stack.until_connected("one")
        with pytest.raises(ConfigValidationError) as late:
            await placed.stack.computer.sync_config(wanted)
        assert [finding.field for finding in late.value.findings] == ["mcpServerRuntime.servers.one.placement"]
        assert await placed.stack.text("one__echo", text="as before") == "as before"
