"""The synchronous Agent: the same surface, from any thread."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import select
import signal
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.from_thread
import pytest

from smcp_runtime.agent import Agent, AsyncAgent, portal
from smcp_runtime.server.app import serve
from smcp_runtime.server.auth import ANONYMOUS
from smcp_runtime.server.options import ServerOptions
from smcp_runtime.wire.errors import ConflictError, NetworkError, PeerError
from support.blob_peer import BlobSource
from support.scripted_computer import ScriptedComputer, tool

OFFICE = "office-1"


@pytest.fixture
def office() -> Iterator[tuple[str, ScriptedComputer]]:
    """A Server and a Computer in another thread: their URL, and the Computer."""
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(_office()) as peers:
        yield peers


@contextlib.asynccontextmanager
async def _office() -> AsyncIterator[tuple[str, ScriptedComputer]]:
    options = ServerOptions(auth=ANONYMOUS)
    async with serve(options=options) as running, ScriptedComputer(running.url, "pc", OFFICE) as computer:
        yield running.url, computer


def public(cls: type) -> dict[str, Any]:
    return {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}


@pytest.mark.spec("W-ARCH-7")
def test_both_agents_have_the_same_public_names() -> None:
    assert sorted(public(Agent)) == sorted(public(AsyncAgent))


@pytest.mark.spec("W-ARCH-7")
@pytest.mark.parametrize("name", ["__init__", *sorted(public(AsyncAgent))])
def test_both_agents_take_the_same_arguments(name: str) -> None:
    ours, theirs = getattr(Agent, name), getattr(AsyncAgent, name)
    assert isinstance(ours, property) == isinstance(theirs, property)
    if not isinstance(ours, property):
        assert str(inspect.signature(ours).replace(return_annotation="")) == str(
            inspect.signature(theirs).replace(return_annotation="")
        )


def test_calls_and_their_errors_are_those_of_the_async_agent(office: tuple[str, ScriptedComputer]) -> None:
    url, _computer = office
    with Agent(url, name="ada", office=OFFICE) as agent:
        assert agent.state == "joined"
        assert agent.sole_computer() == "pc"
        assert agent.tool_call("pc", "demo__echo", {"a": 1}).text == "{'a': 1}"
        with pytest.raises(PeerError) as refused:
            agent.get_tools("nobody")
        assert refused.value.wire_code == 404
        with pytest.raises(ConflictError):
            Agent(url, name="bob", office=OFFICE).connect()
    assert agent.state == "ended"


def test_many_threads_call_at_once(office: tuple[str, ScriptedComputer]) -> None:
    url, _computer = office
    with Agent(url, name="ada", office=OFFICE) as agent, ThreadPoolExecutor(16) as threads:
        results = threads.map(lambda n: agent.tool_call("pc", "demo__echo", {"n": n}).text, range(64))
        assert list(results) == [str({"n": n}) for n in range(64)]


def test_tools_and_notifications_are_known_to_threads(office: tuple[str, ScriptedComputer]) -> None:
    url, computer = office
    with Agent(url, name="ada", office=OFFICE) as agent:
        before = agent.wait_tools()
        with agent.notifications() as notices:
            computer.tools = [tool("new")]
            anyio.run(_announce, url)
            seen = [next(notices).event for _ in range(3)]
            assert seen == ["notify:enter_office", "notify:update_tool_list", "notify:leave_office"]
        assert [listed.name for listed in before.of("pc")] == ["demo__echo"]


async def _announce(url: str) -> None:
    async with ScriptedComputer(url, "pc2", OFFICE) as other:
        await other.update("tool_list")
        await other.sio.call("server:list_room", {"agent": "x", "req_id": "1", "office_id": OFFICE}, namespace="/smcp")


def test_notifications_end_with_the_agent(office: tuple[str, ScriptedComputer]) -> None:
    url, _computer = office
    agent = Agent(url, name="ada", office=OFFICE)
    agent.connect()
    notices = agent.notifications()
    ended = threading.Event()

    def read() -> None:
        for _notice in notices:
            pass
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    agent.close()
    assert ended.wait(5)
    reader.join()


@pytest.mark.spec("W-ARCH-7")
def test_closing_ends_in_bounded_time_although_a_call_waits_for_something_of_its_own(
    office: tuple[str, ScriptedComputer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal, "GRACE", 0.05)
    url, _computer = office
    waits = threading.Event()
    raised: list[BaseException] = []

    async def quiet() -> AsyncIterator[bytes]:
        yield b"x"
        waits.set()
        await anyio.sleep_forever()

    agent = Agent(url, name="ada", office=OFFICE)
    agent.connect()

    def upload() -> None:
        try:
            agent.upload("pc", quiet())
        except BaseException as error:
            raised.append(error)

    uploading = threading.Thread(target=upload, daemon=True)
    uploading.start()
    assert waits.wait(5)
    closing = threading.Thread(target=agent.close, daemon=True)
    closing.start()
    closing.join(10)
    uploading.join(10)
    assert not closing.is_alive()
    assert [type(error) for error in raised] == [NetworkError]


def test_closing_leaves_a_source_that_blocks_its_thread_to_itself(
    office: tuple[str, ScriptedComputer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal, "GRACE", 0.05)
    monkeypatch.setattr(portal, "LAST_WAIT", 0.05)
    url, _computer = office
    reads, more = threading.Event(), threading.Event()

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            reads.set()
            more.wait(10)
            return super().read(size)

    agent = Agent(url, name="ada", office=OFFICE)
    agent.connect()
    with ThreadPoolExecutor(1) as threads:
        uploading = threads.submit(agent.upload, "pc", Slow(b"x"))
        assert reads.wait(5)
        agent.close()
        assert agent.state == "ended"
        more.set()
        with pytest.raises(NetworkError):
            uploading.result(10)
    assert _eventually(lambda: not any(thread.name == "smcp-agent" for thread in threading.enumerate()))


def test_before_connecting_and_after_closing_a_request_is_a_network_error() -> None:
    agent = Agent("http://127.0.0.1:1", name="ada", office=OFFICE)
    with pytest.raises(NetworkError):
        agent.get_tools("pc")
    with pytest.raises(NetworkError):
        agent.connect()
    with pytest.raises(NetworkError):
        agent.list_room()
    agent.close()


def test_a_refused_connection_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(NetworkError):
        Agent("http://127.0.0.1:1", name="ada", office=OFFICE).connect()
    assert threading.active_count() == before


def test_credentials_of_a_plain_function_are_asked_for(office: tuple[str, ScriptedComputer]) -> None:
    url, _computer = office
    asked = []

    def credentials() -> dict[str, str]:
        asked.append(threading.current_thread().name)
        return {"token": "t"}

    with Agent(url, name="ada", office=OFFICE, auth=credentials):
        assert len(asked) == 1


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as a program gets it; the process that runs tests may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupting_the_wait_cancels_the_call(office: tuple[str, ScriptedComputer]) -> None:
    url, computer = office
    computer.answers["client:tool_call"] = lambda _request: anyio.sleep(30)

    def interrupt(waiting: int) -> None:
        if _eventually(lambda: bool(computer.requests("client:tool_call"))):
            signal.pthread_kill(waiting, signal.SIGINT)

    with Agent(url, name="ada", office=OFFICE) as agent:
        user = threading.Thread(target=interrupt, args=(threading.get_ident(),))
        user.start()
        with pytest.raises(KeyboardInterrupt):
            agent.tool_call("pc", "demo__echo")
        user.join()
        assert _eventually(lambda: len(computer.cancelled) == 1)


def _eventually(condition: Any, seconds: float = 5.0) -> bool:
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


def test_a_blob_streams_to_plain_code(office: tuple[str, ScriptedComputer]) -> None:
    url, computer = office
    source = BlobSource(bytes(600_000))
    computer.answers["client:get_blob"] = source
    with Agent(url, name="ada", office=OFFICE) as agent:
        assert [len(data) for data in agent.stream_blob("pc", "h1")] == [262_144, 262_144, 75_712]
        left_early = agent.stream_blob("pc", "h1")
        assert len(next(left_early)) == 262_144
        left_early.close()  # type: ignore[attr-defined]
        assert agent.read_blob("pc", "h1").data == source.data


def test_following_ends_with_an_agent_that_another_thread_closes(office: tuple[str, ScriptedComputer]) -> None:
    url, computer = office
    computer.answers["client:get_skills"] = lambda request: {"skills": [], "req_id": request["req_id"]}
    agent = Agent(url, name="ada", office=OFFICE)
    agent.connect()
    following = agent.follow_skills("pc")
    assert next(following) == ()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(agent.close).result(10)
    assert list(following) == []


def test_a_stream_may_be_left_after_its_agent_was_closed_but_does_not_end_as_if_it_were_whole(
    office: tuple[str, ScriptedComputer],
) -> None:
    url, computer = office
    computer.answers["client:get_blob"] = BlobSource(bytes(600_000))
    agent = Agent(url, name="ada", office=OFFICE)
    agent.connect()
    left, read_on = agent.stream_blob("pc", "h1"), agent.stream_blob("pc", "h1")
    next(left)
    next(read_on)
    agent.close()
    left.close()  # type: ignore[attr-defined]
    with pytest.raises(NetworkError):
        next(read_on)


def test_a_forked_child_is_refused_rather_than_left_waiting_and_its_parent_goes_on(
    office: tuple[str, ScriptedComputer],
) -> None:
    url, _ = office
    with Agent(url, name="planner", office=OFFICE) as agent:
        told, tell = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the very thing this is about
            child = os.fork()
        if child == 0:
            try:
                agent.list_room()
            except ConflictError as refused:
                agent.close()
                os.write(tell, refused.code.encode())
            finally:
                os._exit(0)
        os.close(tell)
        assert select.select([told], [], [], 10)[0]
        assert os.read(told, 100) == b"forked"
        os.close(told)
        os.waitpid(child, 0)
        assert len(agent.list_room().sessions) == 2
