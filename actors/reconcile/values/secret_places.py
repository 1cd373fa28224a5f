"""Other places for secrets than the keyring: the memory of a run, and a file only its owner can read.

The file is for machines without a keyring where somebody has decided that the permissions of
a file are enough; it is never chosen by default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from ....wire.errors import ConfigValidationError
from ..config.json_text import load
from ..files.atomic import read_file, replace_file
from ..files.jsonc import dump
from ..files.lock import locked
from .secret_store import SecretStore


class MemorySecrets:
    """Secrets of one run.

    Args:
        kept: Held by whoever outlives the actors.
    """

    def __init__(self, kept: dict[str, str]) -> None:
        self._kept = kept

    async def get(self, key: str) -> str | None:
        """See `SecretStore`."""
        return self._kept.get(key)

    async def put(self, key: str, secret: str) -> bool:
        """See `SecretStore`."""
        self._kept[key] = secret
        return True

    async def remove(self, key: str) -> bool:
        """See `SecretStore`."""
        return self._kept.pop(key, None) is not None


class FirstThatKeeps:
    """One store, and another for what the first cannot keep."""

    def __init__(self, first: SecretStore, other: SecretStore) -> None:
        self._stores = (first, other)

    async def get(self, key: str) -> str | None:
        """See `SecretStore`."""
        for store in reversed(self._stores):
            found = await store.get(key)
            if found is not None:
                return found
        return None

    async def put(self, key: str, secret: str) -> bool:
        """See `SecretStore`."""
        first, other = self._stores
        if await first.put(key, secret):
            await other.remove(key)
            return True
        return await other.put(key, secret)

    async def remove(self, key: str) -> bool:
        """See `SecretStore`."""
        return any([await store.remove(key) for store in self._stores])


class SecretFile:
    """A JSON object in a file of mode 0600, in a directory of mode 0700."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self, key: str) -> str | None:
        """See `SecretStore`."""
        return (await anyio.to_thread.run_sync(self._read)).get(key)

    async def put(self, key: str, secret: str) -> bool:
        """See `SecretStore`."""
        await anyio.to_thread.run_sync(self._change, lambda kept: {**kept, key: secret})
        return True

    async def remove(self, key: str) -> bool:
        """See `SecretStore`."""
        return await anyio.to_thread.run_sync(
            self._change, lambda kept: {name: secret for name, secret in kept.items() if name != key}
        )

    def _change(self, decide: Callable[[dict[str, str]], dict[str, str]]) -> bool:
        with locked(self._path):
            kept = self._read()
            wanted = decide(kept)
            if wanted != kept:
                replace_file(self._path, (dump(wanted) + "\n").encode(), mode=0o600)
            return wanted != kept

    def _read(self) -> dict[str, str]:
        try:
            data = read_file(self._path)
            tree = {} if data is None else load(data, self._path.name)
        except ConfigValidationError:
            return {}
        return {key: text for key, text in tree.items() if isinstance(text, str)} if isinstance(tree, dict) else {}
