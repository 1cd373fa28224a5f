"""The bare HTTP server as a process of somebody else's: it may be killed, and comes back at the same address."""

from __future__ import annotations

import signal
import sys
from typing import Literal

import anyio.to_thread

from .peers import Peer, Peers

LIGHT_HTTP = "smcp_runtime.fixtures.servers.light_http"


class Endpoint:
    """One server of `fixtures/servers/light_http.py`.

    Attributes:
        url: Where it listens, from the first start on.
        starts: How often it has been started.
    """

    def __init__(self, peers: Peers, transport: Literal["sse", "streamable"], *flags: str) -> None:
        self._peers = peers
        self._command = [sys.executable, "-m", LIGHT_HTTP, "--transport", transport, *flags]
        self._peer: Peer | None = None
        self.url = ""
        self.port = 0
        self.starts = 0

    async def start(self) -> None:
        """Listens when this returns."""
        self._peer = self._peers.start([*self._command, "--port", str(self.port)])
        self.url = (await self._peer.line(r"^ready url=(\S+)", timeout=20))[1]
        self.port = int(self.url.split(":")[2].partition("/")[0])
        self.starts += 1

    def signal(self, number: int) -> None:
        """Sends the process a signal."""
        assert self._peer is not None
        self._peer.signal(number)

    async def kill(self) -> None:
        """SIGKILL."""
        assert self._peer is not None
        self._peer.signal(signal.SIGKILL)
        await self._peer.exit()
        await anyio.to_thread.run_sync(self._peers.end, self._peer)

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._peer is not None
        return self._peer.pid
