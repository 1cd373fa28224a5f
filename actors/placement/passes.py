"""Passes: the keys that let nodes in. Each spawned worker gets a pair of its own, good for its life only.

Such a pair is made here, kept in memory, and handed to the worker over an inherited socket: never
in a file, an argument or a variable. External workers come with keys from a directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...bus.zeromq import AllowList, KeyPair, NodeKeys, fresh, load
from ...wire.errors import ConfigValidationError

HUB = "hub"


class Passes:
    """Who may come in.

    Args:
        folder: Holds the hub's own pair and the public keys of external workers; `None` for a hub of spawned ones.

    Attributes:
        hub: The hub's key pair.
    """

    def __init__(self, folder: Path | None) -> None:
        self.hub: KeyPair = fresh(HUB) if folder is None else _load_hub(folder)
        self._allowed = AllowList(folder) if folder is not None else None
        self._issued: dict[bytes, str] = {}

    @contextmanager
    def issue(self, node: str) -> Iterator[NodeKeys]:
        """A pair for one node, good until the end of the block."""
        own = fresh(node)
        self._issued[own.public] = node
        try:
            yield NodeKeys(own, self.hub.public)
        finally:
            del self._issued[own.public]

    def name_of(self, public: bytes) -> str | None:
        """The node a key belongs to, `None` for a stranger's. The hub itself is no node."""
        issued = self._issued.get(public)
        if issued is not None or self._allowed is None:
            return issued
        name = self._allowed.name_of(public)
        return None if name == HUB else name


def _load_hub(folder: Path) -> KeyPair:
    try:
        return load(folder, HUB)
    except ConfigValidationError as error:
        text = f"{error.message}; `smcp bus keygen hub --keys {folder}` makes a pair"
        raise ConfigValidationError(text, field="bus_keys", code=error.code) from None
