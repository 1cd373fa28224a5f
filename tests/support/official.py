"""Peers of the official SDK, each a process in the SDK's own environment, steered line by line."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.peers import Peer, Peers

SCRIPTS = Path(__file__).parents[1] / "interop" / "official"


class OfficialError(AssertionError):
    """The official peer raised; holds what, and its `code` if it was a protocol error."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


class OfficialPeer:
    """One official peer that has joined (or, the Server, listens).

    Attributes:
        facts: What its ready line said: `pid`, and `url` of a Server or `tools` of a Computer.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.facts: dict[str, Any] = {}
        self._ids = itertools.count(1)

    async def ready(self) -> OfficialPeer:
        """Waits until it is ready."""
        self.facts = await self.event("ready", timeout=20)
        return self

    async def do(self, command: str, /, **words: Any) -> Any:
        """Carries out a command of its script and returns the result.

        Raises:
            OfficialError: It raised.
        """
        number = self.order(command, **words)
        return await self.outcome(number)

    def order(self, command: str, /, **words: Any) -> int:
        """Gives a command without waiting; `outcome` takes the number."""
        number = next(self._ids)
        self.peer.send(json.dumps({"id": number, "do": command, "with": words}))
        return number

    async def outcome(self, number: int, *, timeout: float = 20.0) -> Any:
        """The result of an order."""
        found = await self.peer.line(rf'^\{{"id": {number}, ', timeout=timeout)
        answer = json.loads(found.string)
        if "error" in answer:
            raise OfficialError(answer["error"], answer.get("code"))
        return answer["result"]

    async def event(self, name: str, *, timeout: float = 10.0) -> dict[str, Any]:
        """The first report of this name."""
        found = await self.peer.line(rf'^\{{"event": "{name}"', timeout=timeout)
        report: dict[str, Any] = json.loads(found.string)
        return report

    def events(self, name: str) -> list[dict[str, Any]]:
        """All reports of this name so far."""
        said = [json.loads(line) for line in self.peer.lines if line.startswith('{"event": ')]
        return [report for report in said if report["event"] == name]

    async def stop(self) -> int:
        """Ends it in its own way, by ending its input; its exit status."""
        self.peer.close_stdin()
        return await self.peer.exit(timeout=15)


class Official:
    """Starts official peers; used through the `official` fixture of tests/interop.

    Args:
        scratch: Where they keep temporary files, which a peer that is killed leaves behind.
    """

    def __init__(self, python: Path, peers: Peers, scratch: Path) -> None:
        self._python, self._peers, self._scratch = python, peers, scratch

    async def server(self, port: int = 0) -> OfficialPeer:
        """A Server on this port, or on a free one; its URL is `facts["url"]`."""
        return await self._start("server.py", str(port))

    async def computer(
        self,
        url: str,
        office: str,
        name: str = "official-computer",
        *,
        servers: Sequence[dict[str, Any]] = (),
        home: Path | None = None,
    ) -> OfficialPeer:
        """A Computer that has joined and serves these servers (objects as in `mcp_servers`).

        Args:
            home: Its user's places: `a2c/settings.json`, and skills in `skills/user`. A fresh directory by default.
        """
        place = () if home is None else (str(home),)
        return await self._start("computer.py", url, office, name, json.dumps(list(servers)), *place)

    async def agent(self, url: str, office: str, name: str = "official-agent") -> OfficialPeer:
        """An Agent that has joined; `do` takes tools, call, config, resources, desktop, skills, skill, fetch, put, …"""
        return await self._start("agent.py", url, office, name)

    async def _start(self, script: str, *words: str) -> OfficialPeer:
        # Its log would go to stdout, which carries the answers.
        env = {**os.environ, "A2C_SMCP_LOG_SILENT": "1", "TMPDIR": str(self._scratch)}
        return await OfficialPeer(self._peers.start([self._python, SCRIPTS / script, *words], env=env)).ready()
