"""What a bus announces about the other processes it is connected to."""

from __future__ import annotations

from ..message import Fact


class NodeUp(Fact):
    """A node was greeted and its addresses can be asked. The hub announces workers; a worker announces its hub."""

    node: str
    addresses: tuple[str, ...] = ()

    def coalesce_key(self) -> str:
        return self.node


class NodeDown(Fact):
    """A node left or was lost; asks it had in work ended as `ActorLost`. `reason` is for people."""

    node: str
    reason: str
    addresses: tuple[str, ...] = ()

    def coalesce_key(self) -> str:
        return self.node
