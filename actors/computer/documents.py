"""Documents of one Computer's servers, for who embeds it: a resolver of its own, and reading by `dpe://` URI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...wire.errors import ConflictError
from ...wire.messages.finder import CompleteDocument, ReadDocument
from ...wire.messages.mcp import Completions
from ..finder import Resolver
from .channels import FINDER
from .conduct import Conduct

COMPLETION_LIMIT = 12.0
"""Seconds for a completion; its server has 10."""


class Documents(Conduct):
    """What a Computer offers about documents."""

    _resolver: Resolver | None = None

    def register_resolver(self, resolver: Resolver | None) -> None:
        """Has `resolver` turn documents into access URIs from now on (C-DOC-17); `None` takes it back.

        Raises:
            ConflictError: There is one already (`resolver_registered`).
        """
        if resolver is not None and self._resolver is not None:
            raise ConflictError("a document resolver is registered already", code="resolver_registered")
        self._resolver = resolver

    async def read_document(self, uri: str, *, timeout: float = 30.0) -> dict[str, Any]:
        """The Level JSON of a document, page or element of one of the servers (C-DOC-26, C-DOC-27).

        Args:
            uri: A `dpe://` URI.
            timeout: Seconds.
        Raises:
            ConflictError: It is not running (`lifecycle`).
            PeerError: 4204, 4201 to 4203, or 4013 when the server cannot be read.
        """
        self._admit("manage")
        read = await self._ask(FINDER, ReadDocument(uri, timeout), timeout + 1.0)
        level: dict[str, Any] = msgspec.json.decode(read.level.data)
        return level

    async def complete_document(
        self, bundle_id: str, template: str, argument: str, value: str, known: Mapping[str, str] | None = None
    ) -> Completions:
        """What a server proposes for an argument of its document templates; nothing where it proposes none (C-DOC-29).

        Args:
            argument: `doc_ref`, `page_index` or `element_id`; `value` is what there is of it.
            known: Arguments that are settled.
        Raises:
            ConflictError: The Computer is not running (`lifecycle`).
            NetworkError: The server is not connected or did not answer.
        """
        self._admit("manage")
        return await self._ask(
            FINDER, CompleteDocument(bundle_id, template, argument, value, dict(known or {})), COMPLETION_LIMIT
        )
