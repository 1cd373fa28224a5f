"""Agent: the surface of `AsyncAgent` for code without an event loop.

Nothing is decided here. Each method names its counterpart and waits for it in a thread
that runs the event loop, so arguments, results and errors cannot differ.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from ..wire.errors import NetworkError, SmcpError
from .client import AsyncAgent
from .notices import Notice, Notices
from .portal import NOT_CONNECTED, LoopThread
from .tool_cache import ToolCache

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[AsyncAgent, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Agent, P], R]:
    """The same method, waited for."""

    def call(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(functools.partial(method, self._agent, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def _iterating(
    method: Callable[Concatenate[AsyncAgent, P], AsyncGenerator[R, None]], *, follows: bool = False
) -> Callable[Concatenate[Agent, P], Iterator[R]]:
    """The same generator, each item waited for; one that `follows` ends with the Agent."""

    def call(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        async def begin() -> AsyncGenerator[R, None]:
            return method(self._agent, *args, **kwargs)

        items = self._run(begin)
        begun = False
        try:
            while (item := self._run(lambda: anext(items, _END))) is not _END:
                begun = True
                yield cast(R, item)
        except NetworkError as error:
            if not (follows and begun and error.code == NOT_CONNECTED):
                raise
        finally:
            # A loop that another thread stopped meanwhile has closed its generators itself.
            with suppress(NetworkError):
                self._run(items.aclose)

    functools.update_wrapper(call, method)
    return call


_END = object()


def _arguments_of(
    initialiser: Callable[Concatenate[AsyncAgent, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Agent, P], None]]:
    """Gives an initialiser the arguments of another one."""
    return functools.wraps(initialiser)


class Agent:
    """An Agent in one office, for any number of threads.

    Use it as ``with Agent(url, name="planner", office="room-1") as agent: …``. Arguments, methods and errors are
    those of `AsyncAgent`; a method returns when its answer is there.
    """

    @_arguments_of(AsyncAgent.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._agent = AsyncAgent(*args, **kwargs)
        self._loop: LoopThread | None = None

    def _run(self, function: Callable[[], Awaitable[R]]) -> R:
        loop = self._loop  # another thread may close meanwhile
        if loop is None:
            raise NetworkError("not connected", code=NOT_CONNECTED, details={"executed": "no"})
        return loop.run(function)

    # --- life ---

    def connect(self) -> None:
        """As `AsyncAgent.connect`."""
        self._loop = self._loop or LoopThread()
        try:
            self._run(self._agent.connect)
        except BaseException:
            if self._agent.state == "ended":
                self._stop()
            raise

    def close(self) -> None:
        """As `AsyncAgent.close`."""
        loop = self._loop
        if loop is not None:
            if loop.is_here:
                with suppress(NetworkError):  # another thread closed it first
                    loop.run(self._agent.close)
            self._stop()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()

    def __enter__(self) -> Agent:
        self.connect()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    wait_joined = _blocking(AsyncAgent.wait_joined)

    # --- what is known ---

    @property
    def name(self) -> str:
        """As `AsyncAgent.name`."""
        return self._agent.name

    @property
    def office(self) -> str:
        """As `AsyncAgent.office`."""
        return self._agent.office

    @property
    def state(self) -> Literal["idle", "connecting", "connected", "joined", "ended"]:
        """As `AsyncAgent.state`."""
        return self._agent.state

    @property
    def transport(self) -> str | None:
        """As `AsyncAgent.transport`."""
        return self._agent.transport

    @property
    def failure(self) -> SmcpError | None:
        """As `AsyncAgent.failure`."""
        return self._agent.failure

    @property
    def tools(self) -> ToolCache:
        """As `AsyncAgent.tools`, at this moment; it does not change any more."""
        return self._run(self._tools)

    async def _tools(self) -> ToolCache:
        return self._agent.tools.snapshot()

    def wait_tools(self) -> ToolCache:
        """As `AsyncAgent.wait_tools`, at that moment."""
        self._run(self._agent.wait_tools)
        return self.tools

    def notifications(self) -> BlockingNotices:
        """As `AsyncAgent.notifications`, as a plain iterator."""
        return BlockingNotices(self, self._run(self._subscribe))

    async def _subscribe(self) -> Notices:
        return self._agent.notifications()

    def new_req_id(self) -> str:
        """As `AsyncAgent.new_req_id`."""
        return self._agent.new_req_id()

    # --- requests ---

    list_room = _blocking(AsyncAgent.list_room)
    sole_computer = _blocking(AsyncAgent.sole_computer)
    get_tools = _blocking(AsyncAgent.get_tools)
    tool_call = _blocking(AsyncAgent.tool_call)
    cancel = _blocking(AsyncAgent.cancel)
    get_config = _blocking(AsyncAgent.get_config)
    get_resources = _blocking(AsyncAgent.get_resources)
    get_desktop = _blocking(AsyncAgent.get_desktop)
    get_skills = _blocking(AsyncAgent.get_skills)
    get_skill = _blocking(AsyncAgent.get_skill)
    get_blob = _blocking(AsyncAgent.get_blob)
    put_blob = _blocking(AsyncAgent.put_blob)
    list_finder = _blocking(AsyncAgent.list_finder)
    get_dpe = _blocking(AsyncAgent.get_dpe)

    # --- channels ---

    desktop = _blocking(AsyncAgent.desktop)
    skills = _blocking(AsyncAgent.skills)
    skill = _blocking(AsyncAgent.skill)
    read_blob = _blocking(AsyncAgent.read_blob)
    save_blob = _blocking(AsyncAgent.save_blob)
    stream_blob = _iterating(AsyncAgent.stream_blob)
    upload = _blocking(AsyncAgent.upload)
    resolve_blobs = _blocking(AsyncAgent.resolve_blobs)
    documents = _blocking(AsyncAgent.documents)
    open_document = _blocking(AsyncAgent.open_document)
    follow_desktop = _iterating(AsyncAgent.follow_desktop, follows=True)
    follow_skills = _iterating(AsyncAgent.follow_skills, follows=True)
    follow_documents = _iterating(AsyncAgent.follow_documents, follows=True)


class BlockingNotices:
    """Notices as a plain iterator; ends when the Agent does. `close` it, or leave its context, when done earlier."""

    def __init__(self, agent: Agent, notices: Notices) -> None:
        self._agent = agent
        self._notices = notices

    @property
    def dropped(self) -> int:
        """Notices lost because this reader was too slow."""
        return self._notices.dropped

    def close(self) -> None:
        """Ends the iteration after what is waiting."""
        if self._agent._loop is not None:
            self._agent._run(self._close)

    async def _close(self) -> None:
        self._notices.close()

    def __iter__(self) -> BlockingNotices:
        return self

    def __next__(self) -> Notice:
        notice = self._agent._run(self._next) if self._agent._loop is not None else self._notices.take()
        if notice is None:
            raise StopIteration
        return notice

    async def _next(self) -> Notice | None:
        # StopAsyncIteration cannot cross a coroutine's end.
        return await anext(self._notices, None)

    def __enter__(self) -> BlockingNotices:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
