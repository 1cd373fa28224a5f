"""What the two sides of a session have agreed on."""

from __future__ import annotations

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What a server declared that matters to us. `*_changed` says that it announces changes of that list."""

    tools: bool = False
    tools_changed: bool = False
    resources: bool = False
    resources_changed: bool = False
    subscribe: bool = False
    prompts: bool = False
    completions: bool = False


class Negotiated(msgspec.Struct, frozen=True):
    """The outcome of a handshake.

    Attributes:
        modern: Whether the server speaks the era of 2026-07-28, which has no session and stamps every request.
        stamp: Members of `_meta` that each request carries, each with a comma behind it; empty unless `modern`.
    """

    protocol: str = ""
    modern: bool = False
    server_name: str | None = None
    capabilities: Capabilities = Capabilities()
    stamp: bytes = b""
