"""The reference resolver, off by default: contents go to the spool, the URI is a handle or a file (C-DOC-31…33)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from ...wire.messages.finder import ResolvedDocument
from .resolver import Block, Hint, ResolutionFailed

Store = Callable[[bytes, str, Literal["blob", "file"]], Awaitable[str]]
"""Keeps bytes of a MIME type and returns the access URI of that form."""

OCTETS = "application/octet-stream"


class ReferenceResolver:
    """A resolver over a store.

    Args:
        form: `blob` for Agents anywhere, `file` for those that share the filesystem.
        cap: Most bytes of a document (D-11).
    """

    def __init__(self, store: Store, form: Literal["blob", "file"], cap: int) -> None:
        self._store = store
        self._form = form
        self._cap = cap

    async def __call__(self, uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
        block = _chosen(uri, blocks)
        content = block.content
        if len(content) > self._cap:
            raise ResolutionFailed("content too large")
        mime_type = block.mime_type or OCTETS
        return ResolvedDocument(await self._store(content, mime_type, self._form), mime_type, len(content))


def _chosen(uri: str, blocks: Sequence[Block]) -> Block:
    """The block of the requested URI, else the only one. Spec: C-DOC-32."""
    exact = [block for block in blocks if block.uri == uri]
    if exact:
        return exact[0]
    if len(blocks) != 1:
        raise ResolutionFailed("resolver failed")
    return blocks[0]
