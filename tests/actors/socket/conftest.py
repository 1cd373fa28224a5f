"""The SocketActor on a real bus between a real Socket.IO server and stand-ins for the actors behind it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor, handler
from smcp_runtime.actors.socket.actor import SocketActor
from smcp_runtime.actors.socket.settings import SocketSettings
from smcp_runtime.actors.socket.standing import Wish
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.message import Ask
from smcp_runtime.wire.messages.projection import (
    Committed,
    GetConfig,
    GetProjectionStatus,
    ProjectedConfig,
    ProjectionStatus,
    Slice,
)
from smcp_runtime.wire.messages.socket import Connect, Join, LinkChanged, LinkTarget
from smcp_runtime.wire.messages.tools import (
    CancelTool,
    DrainCalls,
    ListTools,
    ResumeCalls,
    RunTool,
    ToolAnswer,
    ToolList,
)
from support.recording_server import RecordingServer
from support.waiting import until

QUICK = Backoff(initial=0.01, longest=0.05)
SOCKET = Address("socket")
TOOLS = Address("tools")
RECONCILE = Address("reconcile")
WINDOW = 0.05


class Tools(Actor):
    """Stands in for the ToolActor: tool `wait` runs until it is told to end, every other answers at once."""

    def __init__(self, book: Book) -> None:
        self._book = book

    @handler(concurrent=2048)
    async def run(self, message: RunTool) -> ToolAnswer:
        self._book.calls.append(message)
        if message.tool_name == "boom":
            raise RuntimeError("secret-in-a-text")
        if message.tool_name == "wait":
            try:
                await self._book.released.wait()
            except BaseException:
                self._book.interrupted.append(message.req_id)
                raise
        return ToolAnswer(Attachment(b'{"content":[],"isError":false,"n":1.0e0}'))

    @handler
    def list_tools(self, _: ListTools) -> ToolList:
        return ToolList(Attachment(self._book.tools))

    @handler
    def cancel(self, message: CancelTool) -> None:
        self._book.cancels.append(message.req_id)

    @handler(concurrent=4)
    async def drain(self, message: DrainCalls) -> None:
        self._book.drains.append(message.grace)
        with anyio.move_on_after(message.grace):
            await self._book.released.wait()
        self._book.released.set()

    @handler
    def resume(self, _: ResumeCalls) -> None:
        self._book.resumed += 1


class Reconcile(Actor):
    """Stands in for the ReconcileActor."""

    def __init__(self, book: Book) -> None:
        self._book = book

    @handler
    def config(self, _: GetConfig) -> ProjectedConfig:
        return ProjectedConfig(Attachment(b'{"servers":{},"inputs":[]}'))

    @handler
    def status(self, _: GetProjectionStatus) -> ProjectionStatus:
        return ProjectionStatus(1, filled=self._book.filled)


class Book:
    """What the stand-ins saw, and what they answer."""

    def __init__(self) -> None:
        self.calls: list[RunTool] = []
        self.cancels: list[str] = []
        self.interrupted: list[str] = []
        self.drains: list[float] = []
        self.resumed = 0
        self.released = anyio.Event()
        self.tools = b'[{"name":"s__t"}]'
        self.filled: tuple[Slice, ...] = ()


class Stage:
    """One SocketActor, its bus, and what was published."""

    def __init__(self, bus: Bus, supervisor: Supervisor, server: RecordingServer, book: Book) -> None:
        self.bus, self.supervisor, self.server, self.book = bus, supervisor, server, book
        self.changes: list[LinkChanged] = []

    async def ask(self, message: Ask[Any], timeout: float = 5.0) -> Any:
        return await self.bus.ask(SOCKET, message, timeout=timeout)

    async def connect(self) -> Any:
        return await self.ask(Connect(LinkTarget(self.server.url)))

    async def join(self, office: str = "lab") -> Any:
        await self.connect()
        return await self.ask(Join(office))

    def commit(self, *changed: Slice, number: int = 2) -> None:
        self.bus.publish(Committed(number, changed, changed))

    async def call(self, tool: str = "s__t", req_id: str = "r1", timeout: int = 5, **changes: Any) -> Any:
        request = {
            "agent": "a", "req_id": req_id, "computer": "desk", "tool_name": tool, "params": {}, "timeout": timeout,
        }  # fmt: skip
        return await self.server.ask("client:tool_call", {**request, **changes})

    async def is_shut(self) -> bool:
        """Whether requests are refused now."""
        request = {"agent": "a", "req_id": "q", "computer": "desk"}
        return "tools" not in await self.server.ask("client:get_tools", request)

    async def until(self, condition: Callable[[], object], timeout: float = 5.0) -> None:
        await until(condition, timeout)

    async def quiet(self) -> None:
        """Longer than every window of this stage: an announcement that would come has come."""
        await anyio.sleep(WINDOW * 3)


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Stage]:
    """Everything up; the SocketActor is not connected yet. `beside` are further actors by address."""
    book = Book()
    numbers = itertools.count(1)
    wish = settings.pop("wish", None)
    beside: dict[str, Callable[[], Actor]] = settings.pop("beside", {})
    auth = settings.pop("auth", None)
    options = {"coalesce": WINDOW, "coalesce_longest": 0.3, "drain_timeout": 0.2, "backoff": QUICK, **settings}
    chosen = SocketSettings(computer="desk", **options)
    async with RecordingServer() as server, Bus() as bus, Supervisor(bus) as supervisor:
        made = Stage(bus, supervisor, server, book)

        def actor() -> SocketActor:
            office = next((change.office for change in reversed(made.changes) if change.office), None)
            known = Wish(LinkTarget(server.url), office) if made.changes else wish
            return SocketActor(chosen, auth=auth, wish=known, changes=numbers)

        async def watch(observer: Observer) -> None:
            async for fact in observer:
                assert isinstance(fact, LinkChanged)
                made.changes.append(fact)

        quick = RestartPolicy(backoff=QUICK)
        await supervisor.start_child(ChildSpec(TOOLS, lambda: Tools(book), policy=quick))
        await supervisor.start_child(ChildSpec(RECONCILE, lambda: Reconcile(book), policy=quick))
        for name, factory in beside.items():
            await supervisor.start_child(ChildSpec(Address(name), factory, policy=quick))
        with Observer(bus, LinkChanged) as observer:
            async with anyio.create_task_group() as watching:
                watching.start_soon(watch, observer)
                await supervisor.start_child(ChildSpec(SOCKET, actor, policy=quick))
                yield made
                await supervisor.stop_child(SOCKET)
                observer.close()


@pytest.fixture
async def desk() -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made
