"""A skill actor on a real bus and a real disk, in front of stand-ins for MCP servers and for `blobs`."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.actors.skills.actor import SkillActor
from smcp_runtime.actors.skills.projection import LastList
from smcp_runtime.actors.skills.settings import SkillSettings
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import PeerError
from smcp_runtime.wire.messages.blobs import BlobTicket, MintHandle
from smcp_runtime.wire.messages.channels import BlobSlice, ReadSkillBytes, ResourceSlice, SliceChanged
from smcp_runtime.wire.messages.mcp import (
    ReadResource,
    ResourceContents,
    ResourceUpdated,
    Watched,
    WatchResources,
)
from smcp_runtime.wire.messages.skills import (
    ApplySkills,
    CleanUpSkills,
    GetSkillFile,
    GetSkillStatus,
    ListSkills,
    PluginSkills,
    RefreshSkills,
    RescanSkills,
    SkillsNoted,
    SkillStatus,
)
from smcp_runtime.wire.messages.tools import Applied

SKILLS = Address("skills")
LIMIT = 10.0


def skill_md(name: str, description: str = "does things", body: str = "# Body\n", **fields: str) -> str:
    """Text of a SKILL.md; further fields as YAML."""
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


def write_skill(root: Path, name: str, files: Mapping[str, str | bytes] | None = None, **fields: Any) -> Path:
    """Writes a skill below a root; `files` besides its SKILL.md."""
    folder = root / name
    for path, content in {"SKILL.md": skill_md(name, **fields), **(files or {})}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tar_gz(files: Mapping[str, str | bytes], *entries: tarfile.TarInfo) -> bytes:
    """A tar.gz of files, then of entries without content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in entries:
            archive.addfile(entry)
    return packed.getvalue()


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A zip of files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


class StubServer(Actor):
    """An MCP server by its two messages: `files` by URI, which are text, bytes, or an exception to raise."""

    def __init__(self) -> None:
        self.files: dict[str, str | bytes | Exception] = {}
        self.reads: list[str] = []
        self.wishes: list[tuple[str, ...]] = []
        self.refused: set[str] = set()
        self.release = anyio.Event()
        self.release.set()
        self.reading = anyio.Event()
        self.at_once = 0
        self.most = 0

    def hold(self) -> None:
        self.release = anyio.Event()
        self.reading = anyio.Event()

    @handler(concurrent=100)
    async def read(self, message: ReadResource) -> ResourceContents:
        self.reads.append(message.uri)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.reading.set()
        try:
            await self.release.wait()
        finally:
            self.at_once -= 1
        content = self.files[message.uri]
        if isinstance(content, Exception):
            raise content
        block: dict[str, Any] = {"uri": message.uri}
        if isinstance(content, bytes):
            block["blob"] = base64.b64encode(content).decode()
        else:
            block["text"] = content
        return ResourceContents(Attachment(json.dumps([block]).encode()))

    @handler
    def watch(self, message: WatchResources) -> Watched:
        assert message.channel == "skills"
        self.wishes.append(message.uris)
        return Watched(tuple(uri for uri in message.uris if uri not in self.refused))


class StubBlobs(Actor):
    """Mints handles that say what they are for."""

    def __init__(self) -> None:
        self.minted: list[MintHandle] = []
        self.release = anyio.Event()
        self.release.set()

    @handler(concurrent=100)
    async def mint(self, message: MintHandle) -> BlobTicket:
        self.minted.append(message)
        await self.release.wait()
        handle = f"handle {message.source.name} {message.source.rel_path}"
        return BlobTicket(handle, message.total_size, message.sha256)


def resource(uri: str, **meta: Any) -> dict[str, Any]:
    return {"uri": uri, "name": uri, **({"_meta": meta} if meta else {})}


class Bench:
    """What a test drives."""

    def __init__(self, bus: Bus, supervisor: Supervisor, folder: Path) -> None:
        self.bus = bus
        self.supervisor = supervisor
        self.home = folder / "home"
        self.user = self.home / "user"
        self.blobs = StubBlobs()
        self.servers: dict[str, StubServer] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.roots: tuple[str, ...] = (str(self.user),)
        self.plugins: tuple[PluginSkills, ...] = ()
        self.known: set[str] = set()
        self.last = LastList()
        self.facts: list[Any] = []
        self._news = anyio.Event()
        self._commits = 0

    async def observe(self, observer: Observer) -> None:
        async for fact in observer:
            self.facts.append(fact)
            self._news.set()
            self._news = anyio.Event()

    # -- doing --

    async def start(self, **settings: Any) -> None:
        made = SkillSettings(home=str(self.home), **{"watch": False, "announce_after": 0.01, **settings})
        await self.supervisor.start_child(ChildSpec(Address("blobs"), lambda: self.blobs))
        await self.supervisor.start_child(ChildSpec(SKILLS, lambda: SkillActor(made, self.last)))

    async def commit(self) -> Applied:
        self._commits += 1
        servers = tuple(self.slices[bundle_id] for bundle_id in sorted(self.slices))
        known = tuple(sorted(self.known | set(self.slices)))
        return await self.bus.ask(SKILLS, ApplySkills(self._commits, servers, self.plugins, self.roots, known))

    async def serve(self, bundle_id: str, *resources: dict[str, Any], **state: Any) -> StubServer:
        """Commits a server with these resources, connected and on this machine unless said otherwise."""
        if bundle_id not in self.servers:
            self.servers[bundle_id] = StubServer()
            spec = ChildSpec(Address(f"mcp/{bundle_id}"), lambda: self.servers[bundle_id])
            await self.supervisor.start_child(spec)
        settings = {"declared": True, "connected": True, "session": 1, "local": True, **state}
        listing = Attachment(json.dumps(resources).encode())
        self.slices[bundle_id] = ResourceSlice(bundle_id, f"{bundle_id} (display)", listing, **settings)
        await self.commit()
        return self.servers[bundle_id]

    async def serve_files(
        self, bundle_id: str, root: str, files: Mapping[str, str | bytes | Exception], **meta: Any
    ) -> StubServer:
        """Commits a server with one skill in resources mode."""
        if bundle_id not in self.servers:
            await self.serve(bundle_id)
        self.servers[bundle_id].files.update({f"{root}/{name}": content for name, content in files.items()})
        parts = [resource(f"{root}/{name}") for name in files]
        return await self.serve(bundle_id, resource(root, source="resources", **meta), *parts)

    async def change(self, bundle_id: str, **state: Any) -> Applied:
        """Commits another state of a server."""
        slice_ = self.slices[bundle_id]
        known = {name: getattr(slice_, name) for name in ("declared", "connected", "session", "local", "subscribe")}
        self.slices[bundle_id] = ResourceSlice(bundle_id, slice_.name, slice_.resources, **{**known, **state})
        return await self.commit()

    async def remove(self, bundle_id: str) -> Applied:
        """Commits a configuration without a server."""
        del self.slices[bundle_id]
        return await self.commit()

    def announce(self, bundle_id: str, uri: str) -> None:
        """A server says that a resource has new contents."""
        self.bus.publish(ResourceUpdated(bundle_id, uri))

    async def rescan(self, plugin: str | None = None) -> None:
        await self.bus.ask(SKILLS, RescanSkills(plugin))

    async def refresh(self, bundle_id: str) -> None:
        await self.bus.ask(SKILLS, RefreshSkills(bundle_id))

    async def clean_up(self) -> tuple[str, ...]:
        return (await self.bus.ask(SKILLS, CleanUpSkills())).paths

    # -- seeing --

    async def skills(self) -> list[dict[str, Any]]:
        reply = await self.bus.ask(SKILLS, ListSkills())
        found: list[dict[str, Any]] = json.loads(reply.skills.data)
        return found

    async def names(self) -> list[str]:
        return [skill["name"] for skill in await self.skills()]

    async def until_names(self, *names: str) -> None:
        """Waits for a list of exactly these skills, in this order."""
        await self.eventually(lambda: self._has_names(list(names)))

    async def file(self, name: str, rel_path: str | None = None) -> dict[str, Any]:
        reply = await self.bus.ask(SKILLS, GetSkillFile(name, rel_path), timeout=20)
        found: dict[str, Any] = json.loads(reply.fields.data)
        return found

    async def body(self, name: str, rel_path: str | None = None) -> str:
        found = await self.file(name, rel_path)
        assert "body" in found, found
        return str(found["body"])

    async def slice(self, name: str, rel_path: str, offset: int = 0, length: int = 1 << 20) -> BlobSlice:
        return await self.bus.ask(SKILLS, ReadSkillBytes(name, rel_path, offset, length), timeout=20)

    async def status(self) -> SkillStatus:
        return await self.bus.ask(SKILLS, GetSkillStatus())

    async def notes(self, level: str | None = None) -> list[str]:
        """Diagnostics that hold, each as place and text."""
        notes = (await self.status()).notes
        return [f"{note.place}: {note.text}" for note in notes if level in (None, note.level)]

    async def idle(self) -> None:
        """Waits until nothing is being staged."""
        await self.eventually(self._is_idle)

    def told(self) -> int:
        """How often a change was announced outside of commits."""
        return sum(isinstance(fact, SliceChanged) for fact in self.facts)

    async def until_told(self, times: int) -> None:
        with anyio.fail_after(LIMIT):
            while self.told() < times:
                await self._news.wait()

    def noted(self) -> list[SkillsNoted]:
        return [fact for fact in self.facts if isinstance(fact, SkillsNoted)]

    async def eventually(self, condition: Callable[[], Any]) -> None:
        with anyio.fail_after(LIMIT):
            while not await condition():  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def _has_names(self, names: list[str]) -> bool:
        return await self.names() == names

    async def _is_idle(self) -> bool:
        return not (await self.status()).staging


@pytest.fixture
def quick_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a disk that is busy elsewhere breaks a storm into several."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bus() as bus, Supervisor(bus) as supervisor, anyio.create_task_group() as group:
        made = Bench(bus, supervisor, tmp_path)
        group.start_soon(made.observe, Observer(bus, SliceChanged, SkillsNoted, capacity=10_000))
        yield made
        for server in made.servers.values():
            server.release.set()
        await supervisor.stop_all()
        group.cancel_scope.cancel()


async def refused(ask: Any) -> tuple[int, dict[str, Any]]:
    """Code and details of the flat error an ask ends with."""
    with pytest.raises(PeerError) as caught:
        await ask
    assert caught.value.payload["code"] == caught.value.wire_code
    return caught.value.wire_code, caught.value.payload.get("details", {})


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
