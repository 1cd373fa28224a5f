"""The resolver hook: the embedding application turns document contents into an access URI (C-DOC-17, C-DOC-23)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

import anyio.to_thread
import msgspec

from ...wire.base64_text import from_base64
from ...wire.messages.finder import ResolvedDocument

LONGEST_URI = 8192

_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):[^\s\x00-\x1f\x7f-\x9f]+")


class Block(msgspec.Struct, frozen=True):
    """One content block as the MCP server sent it: text, or bytes."""

    uri: str
    mime_type: str | None
    text: str | None = None
    data: bytes | None = None

    @property
    def content(self) -> bytes:
        """The bytes either way, text as UTF-8."""
        return self.data if self.data is not None else (self.text or "").encode()


class Hint(msgspec.Struct, frozen=True):
    """Where the contents came from: bundle_id, and the MIME type of the first block if it has one."""

    mcp_server: str
    mime_type: str | None


class Resolver(Protocol):
    """Registered by the application, at most one. May be a plain function: it then runs in a thread."""

    def __call__(
        self, uri: str, blocks: Sequence[Block], hint: Hint
    ) -> ResolvedDocument | Awaitable[ResolvedDocument]: ...


class ResolutionFailed(Exception):
    """Resolving failed; `reason` is one of C-DOC-24 and says nothing of the resolver's insides."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def resolve(resolver: Resolver, uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
    """Asks the resolver and checks what it says.

    Raises:
        ResolutionFailed: It raised, or its result is invalid. The cause is not chained: its text may hold secrets.
    """
    try:
        result: Any
        if _is_async(resolver):
            result = resolver(uri, blocks, hint)
        else:
            result = await anyio.to_thread.run_sync(resolver, uri, blocks, hint, abandon_on_cancel=True)
        if inspect.isawaitable(result):
            result = await result
    except ResolutionFailed:
        raise
    except Exception:
        raise ResolutionFailed("resolver failed") from None
    return _checked(result)


def _is_async(resolver: Resolver) -> bool:
    """Whether calling it only makes a coroutine; an object may have an `async` call method."""
    return inspect.iscoroutinefunction(resolver) or inspect.iscoroutinefunction(type(resolver).__call__)


def blocks_of(contents: object) -> list[Block]:
    """The content blocks of a `resources/read` answer; malformed ones are left out."""
    found = []
    for block in contents if isinstance(contents, list) else []:
        if not isinstance(block, dict) or not isinstance(block.get("uri"), str):
            continue
        mime = block.get("mimeType")
        mime_type = mime if isinstance(mime, str) else None
        if isinstance(block.get("text"), str):
            found.append(Block(block["uri"], mime_type, text=block["text"]))
        elif isinstance(block.get("blob"), str):
            try:
                found.append(Block(block["uri"], mime_type, data=from_base64(block["blob"])))
            except ValueError:
                continue
    return found


def _checked(result: Any) -> ResolvedDocument:
    uri, mime_type, size = (getattr(result, name, None) for name in ("uri", "mime_type", "size"))
    absolute = _ABSOLUTE.fullmatch(uri) if isinstance(uri, str) and len(uri) <= LONGEST_URI else None
    if absolute is None or absolute[1].lower() in ("dpe", "data"):
        raise ResolutionFailed("resolver returned an invalid URI")
    if (
        not isinstance(mime_type, str)
        or not mime_type
        or not isinstance(size, int)
        or isinstance(size, bool)
        or size < 0
    ):
        raise ResolutionFailed("resolver failed")
    assert isinstance(uri, str)
    return ResolvedDocument(uri, mime_type, size)
