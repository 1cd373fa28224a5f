"""SkillActor: owns the registry of skills and answers from it; lists never wait, reads wait for one file.

Skills come from three kinds of sources: drop-in roots of the user, trees of plugins, and MCP
servers, whose packages are staged below the home. Every source can come and go; what an Agent
sees of it is announced once it stands (C-SKILL-56, C-SKILL-75).
"""

from __future__ import annotations

import logging
import math
import os

import anyio
import anyio.from_thread
import anyio.to_thread

from ...wire.codec import Attachment
from ...wire.messages.channels import RELIST_EVERY, BlobSlice, ReadSkillBytes, ResourcesRead, SliceChanged
from ...wire.messages.mcp import ResourceUpdated
from ...wire.messages.skills import (
    ApplySkills,
    CleanedUp,
    CleanUpSkills,
    GetSkillFile,
    GetSkillStatus,
    ListSkills,
    RefreshSkills,
    RescanSkills,
    SkillFile,
    SkillList,
    SkillNote,
    SkillsNoted,
    SkillState,
    SkillStatus,
)
from ...wire.messages.tools import Applied
from ...wire.skill_name import skill_kind
from ..kernel import Actor, handler, observer
from .answers import FileAnswers
from .digest import Digests
from .discover import USER
from .file_events import OwnWrites, meaning_of
from .forbidden import ForbiddenNames
from .limits import StagingFailed
from .local import LocalSkills
from .materialise import Materialiser
from .notes import NoteBook
from .projection import LastList, Projection
from .reader import Reader
from .registry import Entry, Registry
from .settings import INLINE_CEILING, SkillSettings
from .staging import ServerStaging, Yard, server_owner
from .upkeep import bundle_directory_name, clean_up
from .watch import DropInWatch
from .workspace import FOLDER, Workspace

logger = logging.getLogger(__name__)


class SkillActor(Actor):
    """Owner of all skills of a Computer.

    Args:
        last: What the former life showed; the same object for every life.
    """

    def __init__(self, settings: SkillSettings, last: LastList | None = None) -> None:
        self._settings = settings
        self._forbidden = ForbiddenNames(settings.forbidden)
        self._registry = Registry()
        self._notes = NoteBook()
        self._projection = Projection(self._registry, settings.list_budget, last or LastList())
        self._servers: dict[str, ServerStaging] = {}
        self._known: frozenset[str] = frozenset()
        self._ready = anyio.Event()
        self._dirty = anyio.Event()
        self._noted: tuple[SkillNote, ...] = ()
        self._own_writes = OwnWrites(settings.own_quiet())
        self._readers = anyio.CapacityLimiter(settings.slice_readers)
        self._stagers = anyio.CapacityLimiter(settings.stagers)
        self._scanners = anyio.CapacityLimiter(1)
        self._workspace: Workspace | None = None
        self._opening = anyio.Lock()
        self._cue_at = -math.inf

    async def started(self) -> None:
        settings = self._settings
        reader = Reader(
            self._forbidden,
            Digests(),
            cap=settings.too_large_cap,
            inline=min(settings.inline_budget, INLINE_CEILING),
        )
        self._answers = FileAnswers(
            reader,
            self._find,
            self.ask,
            self._readers,
            limit=settings.answer_timeout,
            slice_max=settings.slice_max,
        )
        self._local = LocalSkills(
            self._registry,
            self._notes,
            self._forbidden,
            threads=self._scanners,
            start=self.tasks.start_soon,
            changed=self._changed,
        )
        self._watch = DropInWatch(settings.watch_rules(), self._on_files)
        self._yard = self._make_yard()
        self.tasks.start_soon(self._announce)
        self.tasks.start_soon(self._hold_workspace)
        if settings.watch:
            self.tasks.start_soon(self._watch.run)
        if self._projection.rebuilding:
            self.tasks.start_soon(self._rebuild)

    async def stopping(self) -> None:
        if self._workspace is not None:
            await anyio.to_thread.run_sync(self._workspace.clear)

    # -- the projection -----------------------------------------------------------------

    @handler
    async def apply(self, message: ApplySkills) -> Applied:
        """Takes over the sources of a commit; waits for what lies on disk, not for what servers have yet to send."""
        self._take_servers(message)
        scanned = self._local.want(message.roots, message.plugins)
        self._watch.want(message.roots)
        if scanned is not None:
            with anyio.move_on_after(self._settings.scan_wait):
                await scanned.wait()
        self._ready.set()
        changed = self._projection.committed()
        notes = tuple(f"{note.owner}: {note.place}: {note.text}" for note in self._notes.all("error", "warning"))
        return Applied(changed, notes, self._projection.signature())

    @handler(concurrent=256)
    async def list_skills(self, _: ListSkills) -> SkillList:
        """The list as it stands; only an actor that knows of no commit at all waits, and not for long."""
        if not self._projection.rebuilding:
            await self._first_commit()
        if self.now() >= self._cue_at:
            self._cue_at = self.now() + RELIST_EVERY
            self.publish(ResourcesRead())
        return SkillList(Attachment(self._projection.shown()))

    @handler(concurrent=64)
    async def get_file(self, message: GetSkillFile) -> SkillFile:
        """One `client:get_skill`."""
        return await self._answers.file(message)

    @handler(concurrent=64)
    async def read_bytes(self, message: ReadSkillBytes) -> BlobSlice:
        """One slice for `client:get_blob`."""
        return await self._answers.slice(message)

    @observer
    def on_update(self, fact: ResourceUpdated) -> None:
        """A server announced new contents; only marks what is to be done (C-GEN-12)."""
        server = self._servers.get(fact.bundle_id)
        if server is not None:
            server.updated(fact.uri)

    # -- operations ---------------------------------------------------------------------

    @handler(concurrent=8)
    async def rescan(self, message: RescanSkills) -> None:
        """Scans user roots or a plugin, and waits for the end."""
        scan = self._local.rescan() if message.plugin is None else self._local.rescan_plugin(message.plugin)
        if scan is not None:
            await scan.wait()

    @handler(concurrent=8)
    async def refresh(self, message: RefreshSkills) -> None:
        """Stages the skills of a server again, and waits for the end."""
        server = self._servers.get(message.bundle_id)
        if server is not None:
            await server.refresh()

    @handler
    def status(self, _: GetSkillStatus) -> SkillStatus:
        """Everything that is known, orphans and diagnostics included."""
        return SkillStatus(
            tuple(_state(entry) for entry in self._registry.entries()),
            self._notes.all(),
            tuple(sorted(bundle_id for bundle_id, server in self._servers.items() if server.busy)),
            self._watch.watching,
        )

    @handler(concurrent=1)
    async def clean_up(self, _: CleanUpSkills) -> CleanedUp:
        """Deletes staged packages of orphans and of skills that are not registered."""

        def in_use(path: str) -> bool:
            # The registry belongs to the event loop.
            return anyio.from_thread.run_sync(self._is_in_use, path)

        return CleanedUp(await anyio.to_thread.run_sync(clean_up, self._settings.home, in_use, limiter=self._stagers))

    # -- sources ------------------------------------------------------------------------

    def _take_servers(self, message: ApplySkills) -> None:
        listed = {server.bundle_id: server for server in message.servers}
        self._known = frozenset(message.known) | frozenset(listed)
        for bundle_id in set(self._servers) - self._known:
            self._servers.pop(bundle_id).lost()
            self._registry.unregister(server_owner(bundle_id))
        for bundle_id, server in listed.items():
            if bundle_id not in self._servers:
                self._servers[bundle_id] = ServerStaging(bundle_id, self._yard)
            self._servers[bundle_id].apply(server)
        for bundle_id in set(self._servers) - set(listed):
            self._servers[bundle_id].lost()

    def _on_files(self, paths: frozenset[str] | None) -> None:
        """What the watcher saw; `None` when it may have missed something."""
        if paths is None:
            self._local.rescan()
            return
        meaning = meaning_of(paths, self._watch.roots, self._forbidden, self._own_writes, self.now())
        if meaning.rescan:
            self._local.rescan(self._registry.names_of(USER) if meaning.everything else meaning.packages)

    async def _find(self, name: str) -> Entry | None:
        """The entry of a name; what a first staging may still bring is waited for (D-47)."""
        await self._first_commit()
        entry = self._registry.get(name)
        if entry is None and skill_kind(name) == "mcp":
            server = self._servers.get(name.split(":")[1])
            if server is not None and not server.first_done.is_set():
                with anyio.move_on_after(self._settings.rebuild_wait):
                    await server.first_done.wait()
                entry = self._registry.get(name)
        return entry

    async def _first_commit(self) -> None:
        if not self._ready.is_set():
            with anyio.move_on_after(self._settings.rebuild_wait):
                await self._ready.wait()

    # -- in the background --------------------------------------------------------------

    def _changed(self) -> None:
        self._dirty.set()

    async def _announce(self) -> None:
        """Tells of what changed, several changes at a time; the SocketActor gathers them further (C-GEN-13)."""
        while True:
            await self._dirty.wait()
            await anyio.sleep(self._settings.announce_after)
            self._dirty = anyio.Event()
            note = self._projection.note()
            self._notes.write("list", "", () if note is None else (SkillNote("error", "list", "", note),))
            if self._projection.is_news():
                self.publish(SliceChanged("skills", self._projection.signature()))
            noted = self._notes.all("error", "warning")
            if noted != self._noted:
                self._noted = noted
                self.publish(SkillsNoted(noted))

    async def _rebuild(self) -> None:
        """Shows the former list until the sources have been read again, or have had their time."""
        with anyio.move_on_after(self._settings.rebuild_wait):
            await self._ready.wait()
            for server in list(self._servers.values()):
                await server.first_done.wait()
        self._projection.rebuilt()
        self._changed()

    # -- staging ------------------------------------------------------------------------

    def _make_yard(self) -> Yard:
        settings = self._settings
        return Yard(
            registry=self._registry,
            notes=self._notes,
            materialiser=Materialiser(settings.staging_rules(), self._stagers),
            limits=settings.limits,
            retry_delays=settings.retry_delays,
            read_timeout=settings.read_timeout,
            ask=self.ask,
            start=self.tasks.start_soon,
            workspace=self._open_workspace,
            directory=self._directory,
            threads=self._stagers,
            changed=self._changed,
            wrote=lambda path: self._own_writes.note(path, self.now()),
        )

    async def _open_workspace(self) -> Workspace:
        async with self._opening:
            if self._workspace is None:
                for folder in (FOLDER, "mcp"):
                    # Not the home as a whole: the user's own directory lies in it too.
                    self._own_writes.note(os.path.join(self._settings.home, folder), self.now())
                try:
                    self._workspace = await anyio.to_thread.run_sync(Workspace, self._settings.home)
                except OSError as error:
                    text = f"nothing can be staged below the home: {type(error).__name__}"
                    raise StagingFailed(text, transfer=True) from None
            return self._workspace

    async def _hold_workspace(self) -> None:
        """Gives the lock up when this life ends, however it ends."""
        try:
            await anyio.sleep_forever()
        finally:
            if self._workspace is not None:
                self._workspace.release()

    def _directory(self, bundle_id: str, workspace: Workspace) -> str:
        return bundle_directory_name(
            bundle_id, self._known, folds_case=workspace.folds_case, name_bytes=workspace.name_bytes
        )

    def _is_in_use(self, path: str) -> bool:
        active = (entry.ref.path for entry in self._registry.entries() if not entry.orphan)
        return path in self._yard.busy.values() or path in active


def _state(entry: Entry) -> SkillState:
    ref = entry.ref
    version = ref.version if isinstance(ref.version, str) else None
    return SkillState(ref.name, ref.source, ref.path, ref.description, entry.orphan, version)
