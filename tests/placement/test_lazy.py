"""Lazy servers wherever they run (F-68)."""

from __future__ import annotations

from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import read_entry
from smcp_runtime.actors.reconcile.lazy import shelf
from support.peers import Peers
from support.placed import PLACEMENTS, Placed, open_placed
from support.stack import light
from support.waiting import until

pytestmark = pytest.mark.anyio
LIMIT = 30


@pytest.mark.spec("F-68")
@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_lazy_server_is_started_by_a_call_and_idles_wherever_it_runs(
    placement: str, peers: Peers, tmp_path: Path
) -> None:
    server = light("s", tools="echo")
    entry = read_entry(server, "e", Findings())
    assert entry is not None
    shelf.keep_all(tmp_path, {shelf.key_of(entry): b'[{"name":"echo","inputSchema":{"type":"object"}}]'})
    limits = {"lazy": True, "idle_stop_secs": 0.3}
    async with open_placed(placement, peers, server, server_limits=limits, state_dir=str(tmp_path)) as placed:
        await until(lambda: idles(placed), LIMIT)
        assert has_actor(await addresses(placed)) == (placement == "external")
        for word in ("first", "second"):
            assert await placed.stack.text("s__echo", LIMIT, text=word) == word
            await until(lambda: idles(placed), LIMIT)
            assert await placed.pid("s") == 0
        assert has_actor(await addresses(placed))


async def addresses(placed: Placed) -> set[str]:
    return {actor.address for actor in (await placed.stack.computer.diagnostics()).actors}


def has_actor(addresses: set[str]) -> bool:
    return "mcp/s" in addresses or "worker/s" in addresses


async def idles(placed: Placed) -> bool:
    (status,) = (await placed.stack.computer.diagnostics()).servers
    return (status.activation, status.connection, status.reason) == ("started", "disconnected", "idle")
