"""Keeps the skills of one MCP server staged: what its plan calls for, root by root, into the registry.

One run at a time; what changes during a run makes one more. A failure costs the skill it
happened to and nothing else (C-SKILL-17…21).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec

from ...wire.envelope import Address
from ...wire.errors import SmcpError
from ...wire.message import Ask
from ...wire.messages.channels import ResourceSlice
from ...wire.messages.mcp import ReadResource, WatchResources
from ...wire.messages.skills import SkillNote
from ...wire.skill_name import skill_kind
from .discover import make_ref
from .limits import PackageLimits, StagingFailed
from .manifest import Level, Manifest
from .materialise import Materialiser, Package
from .notes import NoteBook
from .plan import Copy, Due, StagingPlan
from .publish import discard, publish, tree_signature
from .registry import Registry
from .roots import Root, Unreadable, select_roots
from .rounds import Rounds, Starter
from .workspace import Workspace

R = TypeVar("R")

logger = logging.getLogger(__name__)

CHANNEL = "skills"
"""Name under which this channel wishes for updates of resources."""
_SUBSCRIPTIONS = "subscriptions"
"""Place of notes that are about no single skill."""


class Asker(Protocol):
    """The way to other actors."""

    async def __call__(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R: ...


class Yard(msgspec.Struct):
    """What all servers share.

    Attributes:
        workspace: Opens the workspace; raises `StagingFailed` when there is none to be had.
        directory: Name of a server's directory below `mcp/`; raises `StagingFailed`.
        threads: Bounds the work on disk, for all servers together.
        changed: Says that the registry may have changed.
        wrote: Says that a path is being written.
        busy: The package of each server that is on its way into the registry.
    """

    registry: Registry
    notes: NoteBook
    materialiser: Materialiser
    limits: PackageLimits
    retry_delays: tuple[float, ...]
    read_timeout: float
    ask: Asker
    start: Starter
    workspace: Callable[[], Awaitable[Workspace]]
    directory: Callable[[str, Workspace], str]
    threads: anyio.CapacityLimiter
    changed: Callable[[], None]
    wrote: Callable[[str], None]
    busy: dict[str, str] = msgspec.field(default_factory=dict)


def server_owner(bundle_id: str) -> str:
    """Owner, and wire source, of a server's skills."""
    return f"mcp:{bundle_id}"


class ServerStaging:
    """Staging of one configured server, through all its sessions.

    Attributes:
        first_done: Set once this life has staged it, or found that there is nothing to stage.
    """

    def __init__(self, bundle_id: str, yard: Yard) -> None:
        self.bundle_id = bundle_id
        self.owner = server_owner(bundle_id)
        self.first_done = anyio.Event()
        self._yard = yard
        self._plan = StagingPlan(yard.retry_delays)
        self._rounds = Rounds(self._run, yard.start)
        self._scope = anyio.CancelScope()
        self._local = False
        self._listing: tuple[int, bytes] | None = None
        self._wished: tuple[int, tuple[str, ...]] | None = None
        self._contents: dict[str, bytes] = {}

    @property
    def busy(self) -> bool:
        """Whether a run is going on."""
        return not self._rounds.idle

    def apply(self, server: ResourceSlice) -> None:
        """What the last commit says of the server."""
        if not (server.connected and server.declared):
            self.lost()
            return
        self._local = server.local
        listing = (server.session, server.resources.data)
        if self._plan.is_live and listing == self._listing:
            return
        self._listing = listing
        try:
            selection = select_roots(self.owner, server.resources.data)
        except Unreadable:
            # An enumeration that failed says nothing about what is there (C-SKILL-19).
            self._note("", SkillNote("error", self.owner, "", "its list of resources cannot be read"))
            self.first_done.set()
            return
        self._note("", *selection.notes)
        if self._plan.listed(server.session, selection):
            self._rounds.mark()
        if server.subscribe:
            self._wish(server.session, tuple(root.raw for root in selection.roots))

    def lost(self) -> None:
        """The server is gone for now: its skills are orphans, its files stay (R-PROJ-10)."""
        self._plan.lost()
        self._scope.cancel()
        self._wished = None
        self._yard.registry.orphan(self.owner)
        self._yard.notes.drop(self.owner)
        self._yard.changed()
        self.first_done.set()

    def updated(self, uri: str) -> None:
        """The server announced new contents of a resource."""
        if self._plan.updated(uri):
            self._rounds.mark()

    async def refresh(self) -> None:
        """Stages everything again and waits for the end."""
        self._plan.refresh()
        await self._rounds.mark().wait()

    # -- a run --------------------------------------------------------------------------

    async def _run(self) -> None:
        with anyio.CancelScope() as self._scope:
            for due in self._plan.take():
                await self._stage(due)
                self._yard.changed()
            self._settle()
        self.first_done.set()
        self._yard.changed()

    def _settle(self) -> None:
        names = {name: self._rank(position) for name, position in self._plan.names().items()}
        self._yard.registry.settle(self.owner, names)
        self._yard.notes.keep(self.owner, ["", _SUBSCRIPTIONS, *(root.uri for root in self._plan.selection.roots)])
        self._contents = {name: content for name, content in self._contents.items() if name in names}

    async def _stage(self, due: Due) -> None:
        root, notes = due.root, list[SkillNote]()

        def say(level: Level, text: str) -> None:
            notes.append(SkillNote(level, self.owner, root.uri, text))

        try:
            copy, content = await self._copy(due, say)
            self._register(root, copy)
        except StagingFailed as failure:
            say("error", str(failure))
            self._retry_later(root.uri, failure)
        except Exception as unforeseen:
            # A package made to hit a fault of ours must not take the skills of everybody else down (C-SKILL-18).
            logger.exception("staging a skill of %s failed", self.bundle_id)
            say("error", f"it could not be staged: {type(unforeseen).__name__}")
            self._retry_later(root.uri, StagingFailed(""))
        else:
            self._plan.staged(root.uri, copy)
            if due.cause == "updated" or self._contents.get(copy.name, content) != content:
                self._yard.registry.content_changed()
            self._contents[copy.name] = content
        finally:
            self._yard.busy.pop(self.bundle_id, None)
        self._note(root.uri, *notes)

    async def _copy(self, due: Due, say: Callable[[Level, str], None]) -> tuple[Copy, bytes]:
        """A published copy of a root, and what tells its content from another: new, or the one that is there."""
        root, known = due.root, self._plan.copies.get(due.root.uri)
        if known is not None and due.cause != "updated" and known.stands_for(root) and await self._is_intact(known):
            return msgspec.structs.replace(known, fingerprint=root.fingerprint), self._contents.get(known.name, b"")
        workspace = await self._yard.workspace()
        parent = workspace.bundle_directory(self._yard.directory(self.bundle_id, workspace))
        package = await self._yard.materialiser.package(root, workspace, self._read, say, local=self._local)
        try:
            for note in package.notes:
                say("warning", f"left out: {note}")
            name = self._name(package.manifest, root)
            return await self._publish(
                package, root, name, os.path.join(parent, name.rpartition(":")[2])
            ), package.content
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(discard, package.scrap)

    async def _publish(self, package: Package, root: Root, name: str, live: str) -> Copy:
        def move() -> bytes | None:
            try:
                publish(package.directory, live)
            except OSError as error:
                raise StagingFailed(f"the package cannot be moved to its place: {type(error).__name__}") from None
            return tree_signature(live, self._yard.limits.entries)

        self._yard.busy[self.bundle_id] = live
        self._yard.wrote(live)
        try:
            tree = await anyio.to_thread.run_sync(move, limiter=self._yard.threads)
        finally:
            self._yard.wrote(live)
        files = tuple(file.uri for file in root.files)
        return Copy(root.fingerprint, name, live, package.manifest, root.mode, root.etag, files, tree or b"")

    def _name(self, manifest: Manifest, root: Root) -> str:
        """The full name of a skill, if it is one and free."""
        if manifest.name is None:
            raise StagingFailed("SKILL.md: name: missing, or neither text nor a number")
        name = f"{self.owner}:{manifest.name}"
        if skill_kind(name) != "mcp":
            raise StagingFailed("SKILL.md: name: not lower-case words with hyphens between them")
        if self._plan.owner_of(name, besides=root.uri) is not None:
            raise StagingFailed("SKILL.md: name: another skill of this server has it; the first one counts")
        return name

    def _register(self, root: Root, copy: Copy) -> None:
        ref = make_ref(
            copy.name, self.owner, copy.directory, copy.manifest, version=root.version, uri=root.uri
        )  # fmt: skip
        refusal = self._yard.registry.put(ref, self.owner, self._rank(root.position), "mcp")
        if refusal is not None:
            raise StagingFailed(refusal)

    async def _is_intact(self, copy: Copy) -> bool:
        tree = await anyio.to_thread.run_sync(
            tree_signature, copy.directory, self._yard.limits.entries, limiter=self._yard.threads
        )
        return tree == copy.tree

    async def _read(self, uri: str) -> bytes:
        limit = self._yard.read_timeout
        try:
            # The server's own limit is in the message; the ask only outlives it by the way there and back.
            reply = await self._yard.ask(Address(f"mcp/{self.bundle_id}"), ReadResource(uri, limit), timeout=limit + 1)
        except SmcpError as error:
            raise StagingFailed(f"a resource could not be read: {error.code}", transfer=True) from None
        return reply.contents.data

    # -- around it ----------------------------------------------------------------------

    def _retry_later(self, uri: str, failure: StagingFailed) -> None:
        retry = self._plan.failed(uri, transfer=failure.transfer)
        if retry is not None:
            self._yard.start(self._retry, uri, *retry)

    async def _retry(self, uri: str, delay: float, failures: int) -> None:
        await anyio.sleep(delay)
        if self._plan.retry(uri, failures):
            self._rounds.mark()

    def _wish(self, session: int, uris: tuple[str, ...]) -> None:
        """Each root is subscribed to, once per session (C-SKILL-14)."""
        if self._wished != (session, uris) and (uris or self._wished):
            self._wished = (session, uris)
            self._yard.start(self._watch, uris)

    async def _watch(self, uris: tuple[str, ...]) -> None:
        try:
            watched = await self._yard.ask(Address(f"mcp/{self.bundle_id}"), WatchResources(CHANNEL, uris))
        except SmcpError as error:
            self._note(_SUBSCRIPTIONS, SkillNote("warning", self.owner, "", f"no subscription: {error.code}"))
            return
        missing = [uri for uri in uris if uri not in watched.uris]
        notes = [SkillNote("warning", self.owner, "", f"{len(missing)} skills are not subscribed to")]
        self._note(_SUBSCRIPTIONS, *(notes if missing else ()))

    def _note(self, place: str, *notes: SkillNote) -> None:
        if self._yard.notes.write(self.owner, place, notes):
            self._yard.changed()

    def _rank(self, position: int) -> tuple[int, str, int]:
        return (2, self.bundle_id, position)
