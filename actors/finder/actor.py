"""FinderActor: the catalogue of `dpe://` documents, and access to them through a registered resolver.

Contents never travel inline: `client:get_dpe` answers with what the resolver made of
them, or with an error (C-DOC-19).
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from pathlib import PurePath
from typing import Literal

import anyio
import msgspec

from ...wire.codec import Attachment
from ...wire.dpe_uri import DpeUri, InvalidDpeUri, parse_dpe_uri
from ...wire.envelope import Address
from ...wire.errors import DeadlineExceeded, InvalidPayload, SmcpError
from ...wire.messages.blobs import KeepFile, SpoolBytes
from ...wire.messages.channels import RELIST_EVERY, ResourceSlice, ResourcesRead, SliceChanged
from ...wire.messages.finder import (
    ApplyFinder,
    CompleteDocument,
    DocumentLevel,
    DocumentPage,
    ListDocuments,
    OpenDocument,
    ReadDocument,
    ResolvedDocument,
)
from ...wire.messages.mcp import (
    CompleteArgument,
    Completions,
    ReadResource,
    RelistResources,
    ResourceUpdated,
    WatchResources,
)
from ...wire.messages.tools import Applied, CallFinished
from ...wire.payload import (
    ErrorPayload,
    document_not_found,
    element_not_found,
    invalid_dpe_uri,
    invalid_finder_uri,
    page_out_of_range,
    resolution_failed,
    resolver_missing,
)
from ...wire.protocol import ACK_BUDGET, DPE_TIMEOUT_MAX, FINDER_PAGE, FINDER_PAGE_MAX
from ...wire.resources import list_digest
from ...wire.server_order import server_order
from ..kernel import Actor, handler, observer
from ..kernel.news import say_new
from .catalogue import Catalogue, Document, build_catalogue
from .level import parse_level, unknown_categories
from .query import query
from .reference import ReferenceResolver
from .resolver import Hint, ResolutionFailed, Resolver, blocks_of, resolve

logger = logging.getLogger(__name__)

CHANNEL = "finder"
BLOBS = Address("blobs")
ENVELOPE_ROOM = 2048


class FinderSettings(msgspec.Struct, frozen=True):
    """Limits, times in seconds (02 §F: D-7, D-9, D-11, D-40…43, D-47).

    `reference` switches the built-in resolver on, in the form named. `relist_wait` bounds how long an unknown document
    is looked for in lists that are out of date (C-DOC-20).
    """

    read_timeout: float = 30.0
    rebuild_wait: float = 5.0
    relist_wait: float = 5.0
    history: int = 10
    page: int = FINDER_PAGE
    page_max: int = FINDER_PAGE_MAX
    timeout_max: float = DPE_TIMEOUT_MAX
    document_cap: int = 100 * 1024 * 1024
    reference: Literal["blob", "file"] | None = None
    budget: int = ACK_BUDGET - ENVELOPE_ROOM


class FinderActor(Actor):
    """Owner of the document catalogue.

    Args:
        registered: The application's resolver now; `None` answers 4011 unless the settings name the reference one.
    """

    def __init__(
        self, registered: Callable[[], Resolver | None] = lambda: None, settings: FinderSettings | None = None
    ) -> None:
        self._settings = settings or FinderSettings()
        self._catalogue = Catalogue()
        self._history: deque[str] = deque(maxlen=self._settings.history)
        self._listings: dict[str, tuple[int, bytes]] = {}
        self._ready = anyio.Event()
        self._applied = anyio.Event()
        self._cue_at = -math.inf
        self._registered = registered
        self._reference: Resolver | None = None
        if self._settings.reference is not None:
            self._reference = ReferenceResolver(self._store, self._settings.reference, self._settings.document_cap)

    @handler
    def apply(self, message: ApplyFinder) -> Applied:
        """Takes the documents of a commit over and renews subscriptions where a listing changed."""
        before, self._catalogue = self._catalogue, build_catalogue(message.servers)
        say_new(logger, self._catalogue.notes, frozenset(before.notes))
        listings: dict[str, tuple[int, bytes]] = {}
        for server in message.servers:
            if server.connected and server.subscribe:
                listings[server.bundle_id] = (server.session, server.resources.data)
                if self._listings.get(server.bundle_id) != listings[server.bundle_id]:
                    self.tasks.start_soon(self._watch, server)
        self._listings = listings
        self._ready.set()
        applied, self._applied = self._applied, anyio.Event()
        applied.set()
        changed = before.signature() != self._catalogue.signature()
        return Applied(changed, self._catalogue.notes, self._catalogue.digest())

    @handler(concurrent=256)
    async def find(self, message: ListDocuments) -> DocumentPage:
        """One page of the committed catalogue; only an actor that has not applied any commit yet waits for one."""
        await self._first_commit()
        if self.now() >= self._cue_at:
            self._cue_at = self.now() + RELIST_EVERY
            self.publish(ResourcesRead())
        present = {document.summary.mcp_server for document in self._catalogue.documents}
        page = query(
            self._catalogue.documents,
            server_order(present, self._history),
            tags=message.tags,
            file_type=message.file_type,
            offset=message.offset,
            limit=min(self._settings.page if message.limit is None else message.limit, self._settings.page_max),
            budget=self._settings.budget,
        )
        for bundle_id in page.shortened:
            logger.error("%s: a document that fills an answer by itself was shortened", bundle_id)
        return DocumentPage(Attachment(page.documents), page.total_count)

    @handler(concurrent=32)
    async def open(self, message: OpenDocument) -> ResolvedDocument:
        """Resolves one URI. The order of the checks is that of C-DOC-18…23."""
        uri = _parse(message.uri, invalid_dpe_uri)
        resolver = self._registered() or self._reference
        if resolver is None:
            raise resolver_missing(message.uri).to_error()
        limit = min(message.timeout, self._settings.timeout_max)
        with anyio.move_on_after(limit):
            document = await self._find(uri, message.uri)
            contents = await self._read(document, uri, message.uri, limit)
            blocks = blocks_of(contents)
            hint = Hint(document.summary.mcp_server, blocks[0].mime_type if blocks else None)
            try:
                return await resolve(resolver, message.uri, blocks, hint)
            except ResolutionFailed as failure:
                raise resolution_failed(message.uri, failure.reason).to_error() from None
        raise resolution_failed(message.uri, "timeout").to_error()

    @handler(concurrent=32)
    async def read(self, message: ReadDocument) -> DocumentLevel:
        """The Level JSON behind a URI, for the Computer's own use (C-DOC-26)."""
        uri = _parse(message.uri, invalid_finder_uri)
        document = await self._find(uri, message.uri)
        contents = await self._read(document, uri, message.uri, message.timeout)
        texts = [block.text for block in blocks_of(contents) if block.text is not None]
        try:
            level = parse_level(uri.level, texts[0] if texts else "")
        except InvalidPayload:
            raise resolution_failed(message.uri, "upstream read failed").to_error() from None
        for category in unknown_categories(level):
            logger.warning("%s: unknown element category %.32s", document.summary.mcp_server, category)
        return DocumentLevel(Attachment(msgspec.json.encode(level)))

    @handler(concurrent=32)
    async def complete(self, message: CompleteDocument) -> Completions:
        """Passes a completion through to its server (C-DOC-29)."""
        ask = CompleteArgument(message.template, message.argument, message.value, message.known)
        return await self.ask(_mcp(message.bundle_id), ask)

    @observer
    def on_update(self, fact: ResourceUpdated) -> None:
        """A document changed: the Agent is told at once (C-DOC-30)."""
        if fact.bundle_id not in self._listings:
            return
        try:
            parse_dpe_uri(fact.uri)
        except InvalidDpeUri:
            return
        self.publish(SliceChanged("finder"))

    @observer
    def on_call(self, fact: CallFinished) -> None:
        """Servers called lately come first (C-DOC-14)."""
        self._history.append(fact.record.bundle_id)

    # -- inside ---------------------------------------------------------------------

    async def _first_commit(self) -> None:
        if not self._ready.is_set():
            with anyio.move_on_after(self._settings.rebuild_wait):
                await self._ready.wait()

    async def _find(self, uri: DpeUri, raw: str) -> Document:
        await self._first_commit()
        document = self._catalogue.find(uri)
        if document is None:
            await self._refresh(uri)
            document = self._catalogue.find(uri)
        if document is None:
            raise document_not_found(raw, uri.doc_ref).to_error()
        if uri.page is not None and uri.page >= document.summary.page_count:
            raise page_out_of_range(raw, uri.doc_ref, uri.page, document.summary.page_count).to_error()
        return document

    async def _refresh(self, uri: DpeUri) -> None:
        """Waits for lists that are out of date where the document may be: its owner's, or everybody's (C-DOC-20)."""
        owner = self._catalogue.owners.get(uri.host.lower())
        with anyio.move_on_after(self._settings.relist_wait):
            async with anyio.create_task_group() as tasks:
                for bundle_id in list(self._listings) if owner is None else [owner]:
                    tasks.start_soon(self._relist, bundle_id)

    async def _relist(self, bundle_id: str) -> None:
        """Waits until a commit holds what the server lists now."""
        try:
            relisted = await self.ask(_mcp(bundle_id), RelistResources(), timeout=self._settings.relist_wait)
        except SmcpError as error:
            logger.info("%s: its documents could not be listed anew: %s", bundle_id, error.code)
            return
        while relisted.digest and bundle_id in self._listings:
            if list_digest(self._listings[bundle_id][1]) == relisted.digest:
                return
            await self._applied.wait()

    async def _read(self, document: Document, uri: DpeUri, raw: str, limit: float) -> object:
        within = min(limit, self._settings.read_timeout)
        try:
            reply = await self.ask(_mcp(document.summary.mcp_server), ReadResource(raw, within), timeout=within + 1.0)
        except SmcpError as error:
            raise _read_failure(error, uri, raw).to_error() from None
        contents: object = msgspec.json.decode(reply.contents.data)
        return contents

    async def _watch(self, server: ResourceSlice) -> None:
        own = [d.summary.uri for d in self._catalogue.documents if d.summary.mcp_server == server.bundle_id]
        try:
            await self.ask(_mcp(server.bundle_id), WatchResources(CHANNEL, tuple(own)))
        except SmcpError as error:
            logger.warning("%s: documents are not subscribed to: %s", server.bundle_id, error.code)

    async def _store(self, data: bytes, mime_type: str, form: Literal["blob", "file"]) -> str:
        try:
            if form == "file":
                kept = await self.ask(BLOBS, KeepFile(Attachment(data)))
                return PurePath(kept.path).as_uri()
            ticket = await self.ask(BLOBS, SpoolBytes(Attachment(data), mime_type, "d"))
            return f"a2c-blob:{ticket.handle}"
        except SmcpError:
            raise ResolutionFailed("resolver failed") from None


def _parse(uri: str, refusal: Callable[[str, str], ErrorPayload]) -> DpeUri:
    try:
        return parse_dpe_uri(uri)
    except InvalidDpeUri as error:
        raise refusal(uri, error.reason).to_error() from None


def _read_failure(error: SmcpError, uri: DpeUri, raw: str) -> ErrorPayload:
    """What a failed read means at the level that was asked for. Spec: C-DOC-22."""
    if error.code == "resource_not_found":
        if uri.level == 1:
            return document_not_found(raw, uri.doc_ref)
        if uri.element_id is not None:
            return element_not_found(raw, uri.doc_ref, uri.element_id)
    if error.code == "timeout" or isinstance(error, DeadlineExceeded):
        return resolution_failed(raw, "timeout")
    reached = error.code in ("upstream_error", "resource_not_found")
    return resolution_failed(raw, "upstream read failed" if reached else "upstream MCP Server unreachable")


def _mcp(bundle_id: str) -> Address:
    return Address(f"mcp/{bundle_id}")
