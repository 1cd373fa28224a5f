"""Tool names a model provider accepts, and the way back to the tools they stand for (W-EXP-7). Pure.

A name that fits stays as it is; any other becomes a readable beginning and a digest of the
whole, never a mere truncation. A pair once given out is kept for the life of the table,
because the conversation with the model still speaks of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from ...wire.base import to_json

OPENAI_NAME_MAX = 64
ANTHROPIC_NAME_MAX = 128
DIGEST_MIN = 10

_FITTING = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]+", re.ASCII)


class ToolKey(msgspec.Struct, frozen=True):
    """A tool of the office: its Computer, and the exposed name that travels on the wire."""

    computer: str
    tool_name: str


class ToolNames:
    """A bijection between tools and names of at most `limit` characters of `[a-zA-Z0-9_-]`.

    Args:
        limit: Longest name the provider takes; not below 16.
    """

    def __init__(self, limit: int = OPENAI_NAME_MAX) -> None:
        if limit < 16:
            raise ValueError("a tool name needs at least 16 characters")
        self._limit = limit
        self._short: dict[ToolKey, str] = {}
        self._key: dict[str, ToolKey] = {}

    def assign(self, keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
        """A name for each tool: those given before, and new ones, whatever the order they are asked for in.

        Tools of one exposed name at several Computers are told apart by their digest.
        """
        wanted = sorted(set(keys), key=lambda key: (key.tool_name, key.computer))
        homes: dict[str, int] = {}
        for key in wanted:
            homes[key.tool_name] = homes.get(key.tool_name, 0) + 1
        new = [key for key in wanted if key not in self._short]
        plain = [key for key in new if homes[key.tool_name] == 1 and self._fits(key.tool_name)]
        # Names that can stay go first, so that no digest made for another tool can be in their way.
        for key in plain:
            self._keep(key, key.tool_name)
        for key in new:
            if key not in self._short:
                self._keep(key, self._digested(key))
        return {key: self._short[key] for key in wanted}

    def tool(self, name: str) -> ToolKey | None:
        """The tool a name stands for; `None` for one that was never given out."""
        return self._key.get(name)

    def _fits(self, name: str) -> bool:
        return len(name) <= self._limit and _FITTING.fullmatch(name) is not None and name not in self._key

    def _keep(self, key: ToolKey, name: str) -> None:
        self._short[key] = name
        self._key[name] = key

    def _digested(self, key: ToolKey) -> str:
        digest = hashlib.sha256(to_json([key.computer, key.tool_name])).hexdigest()
        readable = _FOREIGN.sub("_", key.tool_name).strip("_") or "tool"
        # Somebody's tool may really be called like a digested one; more of the digest settles that.
        for length in range(DIGEST_MIN, self._limit):
            kept = readable[: self._limit - length - 1].rstrip("_")
            name = f"{kept}_{digest[:length]}" if kept else digest[:length]
            if name not in self._key:
                return name
        raise ValueError(f"no free name for {key.tool_name!r}")
