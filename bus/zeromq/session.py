"""What a hub keeps of each node that is connected, and what it shows of it."""

from __future__ import annotations

import msgspec

from ...wire.envelope import Address
from .link import Link

DISCONNECTED = "disconnected"
"""Why a node is lost whose connection ended without a farewell."""


class NodeStatus(msgspec.Struct, frozen=True):
    """What the hub knows of a node.

    Attributes:
        silent: Seconds since it was last heard.
        in_flight: Messages it holds unanswered.
        waiting: Messages that wait until it has answered others.
        credits: Free places of each of its addresses that has been used.
    """

    name: str
    addresses: tuple[Address, ...]
    silent: float
    in_flight: int
    waiting: int
    credits: dict[Address, int]


class Session:
    """A greeted node: its routing id, its link, and the subjects it was told to publish."""

    __slots__ = ("heard", "identity", "link", "told", "user")

    def __init__(self, identity: bytes, user: str, link: Link, heard: float) -> None:
        self.identity = identity
        self.user = user
        self.link = link
        self.heard = heard
        self.told: set[str] = set()

    @property
    def name(self) -> str:
        """Of the node."""
        return self.link.name

    def status(self, addresses: tuple[Address, ...], now: float) -> NodeStatus:
        """What is shown of it."""
        link = self.link
        return NodeStatus(link.name, addresses, now - self.heard, link.in_flight, link.waiting, link.credits())
