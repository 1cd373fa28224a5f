"""A network between a Computer and its external workers that can be cut: a namespace where permitted, else a relay.

In a namespace the link goes down, and packets of both sides are lost. The relay is stopped, so that nothing gets
through, but what either side says meanwhile arrives late.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from support.peers import Peer, Peers

RELAY = Path(__file__).with_name("relay.py")


class Network(Protocol):
    """Made by `network`.

    Attributes:
        how: What it is, for people.
        host: Where the Computer's side listens, and can be reached from the workers.
        inside: What starts a command on the workers' side.
    """

    how: str
    host: str
    inside: tuple[str, ...]

    async def way_to(self, port: int) -> int:
        """The port under which workers reach one of the Computer."""
        ...

    def cut(self) -> None:
        """Nothing gets through from now on."""

    def heal(self) -> None:
        """As before."""


class Namespace:
    """A namespace with one cable."""

    how = "network namespace"

    def __init__(self) -> None:
        self._name = f"smcp{os.getpid()}"
        self._cable = f"smcp{os.getpid()}"[:15]
        third, fourth = os.getpid() // 64 % 256, os.getpid() % 64 * 4
        self.host = f"198.18.{third}.{fourth + 1}"
        self._there = f"198.18.{third}.{fourth + 2}"
        self.inside = ("ip", "netns", "exec", self._name)

    def open(self) -> bool:
        """Lays the cable; `False` where that is not permitted."""
        try:
            self._lay()
        except subprocess.CalledProcessError:
            self.close()
            return False
        return True

    def _lay(self) -> None:
        _ip("netns", "add", self._name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        _ip("addr", "add", f"{self.host}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        _ip("-n", self._name, "addr", "add", f"{self._there}/30", "dev", "eth0")
        _ip("-n", self._name, "link", "set", "eth0", "up")
        _ip("-n", self._name, "link", "set", "lo", "up")

    def close(self) -> None:
        """Takes everything away; the cable goes with the namespace, but not at once."""
        for words in (("link", "del", self._cable), ("netns", "del", self._name)):
            subprocess.run(("ip", *words), check=False, capture_output=True)

    async def way_to(self, port: int) -> int:
        return port

    def cut(self) -> None:
        _ip("link", "set", self._cable, "down")

    def heal(self) -> None:
        _ip("link", "set", self._cable, "up")


class Relay:
    """A process in between."""

    how = "a relay that is stopped, since no network namespace may be made here"
    host = "127.0.0.1"
    inside = ()

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._relays: list[Peer] = []

    async def way_to(self, port: int) -> int:
        relay = self._peers.start([sys.executable, RELAY, str(port)])
        self._relays.append(relay)
        return int((await relay.line(r"^ready (\d+)"))[1])

    def cut(self) -> None:
        for relay in self._relays:
            relay.signal(signal.SIGSTOP)

    def heal(self) -> None:
        for relay in self._relays:
            relay.signal(signal.SIGCONT)


@contextmanager
def network(peers: Peers, *, namespace: bool = True) -> Iterator[Network]:
    """A network that can be cut. `namespace=False` for the relay in any case."""
    made = Namespace()
    if not namespace or shutil.which("ip") is None or not made.open():
        yield Relay(peers)
        return
    try:
        yield made
    finally:
        made.close()


def free_port(host: str) -> int:
    """A port nobody listens on."""
    with socket.create_server((host, 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)
