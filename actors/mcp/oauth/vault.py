"""Where grants are kept: the keyring, memory, or a file only its owner can read, whichever this Computer uses.

Everything that is read or written is registered as a secret while it is in use.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

import msgspec

from .grant import Grant

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Grant).decode


class Store(Protocol):
    """Keeps texts by key."""

    async def get(self, key: str) -> str | None:
        """The text under a key, `None` for none."""
        ...

    async def put(self, key: str, secret: str) -> bool:
        """Keeps a text; `False` when this store cannot."""
        ...

    async def remove(self, key: str) -> bool:
        """Forgets a text; `False` when there was none."""
        ...


class Register(Protocol):
    """Where secrets in use are known."""

    def use(self, owner: str, secrets: Collection[str]) -> None:
        """Takes what an owner uses now."""
        ...


class Grants(Protocol):
    """Grants by key, as whoever uses one sees them."""

    async def load(self, key: str) -> Grant | None:
        """The grant under a key."""
        ...

    async def save(self, key: str, grant: Grant) -> None:
        """Keeps a grant."""
        ...


class Vault:
    """The grants of one Computer. What its store cannot keep lives as long as this does."""

    def __init__(self, store: Store, register: Register) -> None:
        self._store = store
        self._register = register
        self._kept: dict[str, Grant | None] = {}

    async def load(self, key: str) -> Grant | None:
        """The grant under a key; the store is asked once."""
        if key not in self._kept:
            text = await self._store.get(key)
            self._remember(key, read_grant(text))
        return self._kept[key]

    async def save(self, key: str, grant: Grant) -> None:
        """Keeps a grant."""
        self._remember(key, grant)
        if not await self._store.put(key, sealed(grant)):
            logger.info("an authorization is kept for this run only")

    async def forget(self, key: str) -> bool:
        """Forgets a grant; `False` when there was none."""
        had = await self.load(key) is not None
        self._remember(key, None)
        return await self._store.remove(key) or had

    def _remember(self, key: str, grant: Grant | None) -> None:
        self._kept[key] = grant
        self._register.use(key, grant.secrets if grant is not None else ())


def sealed(grant: Grant) -> str:
    """A grant as text."""
    return _encode(grant).decode()


def read_grant(text: str | None) -> Grant | None:
    """The grant in a text; `None` for none, or for what is none."""
    try:
        return None if text is None else _decode(text.encode())
    except msgspec.DecodeError:
        return None
