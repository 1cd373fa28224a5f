"""Who owns which address, and who wants which facts, by node name.

The first owner of an address keeps it until it withdraws or is lost; a second claim is
refused and stays the business of whoever reports it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...wire.envelope import Address


class Routes:
    """Routing table of a hub."""

    def __init__(self) -> None:
        self._owner: dict[Address, str] = {}
        self._observers: dict[str, set[str]] = {}

    def owner(self, address: Address) -> str | None:
        """The node that owns an address."""
        return self._owner.get(address)

    def claim(self, address: Address, node: str) -> bool:
        """Gives an address to a node; `False` when another has it."""
        return self._owner.setdefault(address, node) == node

    def release(self, address: Address, node: str) -> bool:
        """Takes an address from a node; `False` when it was not its own."""
        if self._owner.get(address) != node:
            return False
        del self._owner[address]
        return True

    def of(self, node: str) -> tuple[Address, ...]:
        """The addresses of a node."""
        return tuple(address for address, owner in self._owner.items() if owner == node)

    def elsewhere(self, node: str) -> tuple[Address, ...]:
        """The addresses of all other nodes."""
        return tuple(address for address, owner in self._owner.items() if owner != node)

    def observe(self, subject: str, node: str) -> None:
        """A node wants these facts."""
        self._observers.setdefault(subject, set()).add(node)

    def unobserve(self, subject: str, node: str) -> None:
        """A node does not want them any more."""
        nodes = self._observers.get(subject)
        if nodes is not None:
            nodes.discard(node)
            if not nodes:
                del self._observers[subject]

    def observers(self, subject: str) -> Iterable[str]:
        """The nodes that want these facts."""
        return tuple(self._observers.get(subject, ()))

    def is_wanted_elsewhere(self, subject: str, node: str) -> bool:
        """Whether some other node wants these facts."""
        nodes = self._observers.get(subject)
        return nodes is not None and (len(nodes) > 1 or node not in nodes)

    def wanted_elsewhere(self, node: str) -> set[str]:
        """Subjects some other node wants."""
        return {subject for subject, nodes in self._observers.items() if nodes - {node}}

    def forget(self, node: str) -> tuple[Address, ...]:
        """Takes everything from a node; the addresses it had."""
        lost = self.of(node)
        for address in lost:
            del self._owner[address]
        for subject in tuple(self._observers):
            self.unobserve(subject, node)
        return lost
