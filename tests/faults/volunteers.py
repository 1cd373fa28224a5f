"""External workers, each `smcp worker` for one server, on the other side of a network that can be cut."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio.to_thread

from smcp_runtime.bus.zeromq import generate
from support.peers import Peer, Peers

from .partition import Network, free_port


class Volunteers:
    """Context manager; `start` them once they shall look for a Computer.

    Attributes:
        options: Of a Computer that takes them in.
    """

    def __init__(self, peers: Peers, between: Network) -> None:
        self._peers, self._between = peers, between
        self._workers: dict[str, Peer] = {}
        self._way = 0
        self.options: dict[str, Any] = {}
        self._ends = ExitStack()

    def __enter__(self) -> Volunteers:
        self._folder = Path(self._ends.enter_context(tempfile.TemporaryDirectory(prefix="smcp-keys-")))
        self._keys = self._folder / "keys"
        generate(self._keys, "hub")
        self._port = free_port(self._between.host)
        self.options = {"bus": f"tcp://{self._between.host}:{self._port}", "bus_keys": str(self._keys)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    async def start(self, servers: Iterable[str]) -> None:
        """Starts a worker for each of these servers."""
        self._way = await self._between.way_to(self._port)
        for server in servers:
            generate(self._keys, server)
            self._start(server)

    async def kill(self, server: str) -> None:
        """SIGKILL, and another one as its own supervisor would start it."""
        worker = self._workers.pop(server)
        worker.signal(signal.SIGKILL)
        await worker.exit()
        await anyio.to_thread.run_sync(self._peers.end, worker)
        self._start(server)

    def _start(self, server: str) -> None:
        command = [*self._between.inside, sys.executable, "-m", "smcp_runtime.cli.main", "worker"]
        words = ["--hub", f"tcp://{self._between.host}:{self._way}", "--server", server, "--keys", str(self._keys)]
        state = {**os.environ, "XDG_STATE_HOME": str(self._folder / server)}
        self._workers[server] = self._peers.start([*command, *words], env=state)
