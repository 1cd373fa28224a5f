"""Stacks whose servers run somewhere: inline, in processes of their own, or at external workers of this test."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psutil

from .peers import Peer, Peers
from .stack import Stack, config, open_stack, options

PLACEMENTS = ("inline", "process", "external")


class Placed:
    """A stack, and what stands outside it.

    Attributes:
        endpoint: Of its bus, `""` while all servers are inline.
        workers: External workers by the server they are for, the last one started.
    """

    def __init__(self, stack: Stack, placement: str, endpoint: str, peers: Peers) -> None:
        self.stack, self.placement, self.endpoint = stack, placement, endpoint
        self.workers: dict[str, Peer] = {}
        self._peers = peers

    def volunteer(self, bundle_id: str, *more: str) -> Peer:
        """Starts an external worker."""
        peer = worker(self._peers, self.endpoint, bundle_id, *more)
        self.workers[bundle_id] = peer
        return peer

    async def pid(self, bundle_id: str) -> int:
        """Pid of the MCP server."""
        known = (await self.stack.computer.diagnostics()).servers
        return next(server.pid or 0 for server in known if server.bundle_id == bundle_id)

    async def worker(self, bundle_id: str) -> psutil.Process:
        """The process that hosts a server: above it is its launcher, and above that its host."""
        launcher = psutil.Process(await self.pid(bundle_id)).parent()
        assert launcher is not None
        host = launcher.parent()
        assert host is not None
        return host


def worker(peers: Peers, endpoint: str, bundle_id: str, *more: str) -> Peer:
    """Starts `smcp worker`."""
    words = ("worker", "--hub", endpoint, "--server", bundle_id, *more)
    return peers.start([sys.executable, "-m", "smcp_runtime.cli.main", *words])


@asynccontextmanager
async def open_placed(
    placement: str,
    peers: Peers,
    *servers: Mapping[str, Any],
    inputs: Sequence[Any] = (),
    volunteers: bool = True,
    **changes: Any,
) -> AsyncIterator[Placed]:
    """A stack with its servers placed; external ones get a worker each, if there are `volunteers`.

    `changes` are options.
    """
    with tempfile.TemporaryDirectory(prefix="bus-") as directory:
        endpoint = f"ipc://{directory}/hub" if placement == "external" else ""
        runtime = options(**{"placement": placement, "bus": endpoint or None, "start_wait_s": 0.0, **changes})
        async with open_stack(config(*servers, inputs=list(inputs)), runtime=runtime) as stack:
            placed = Placed(stack, placement, endpoint, peers)
            if placement == "external" and volunteers:
                for server in servers:
                    placed.volunteer(str(server["name"]))
            yield placed
