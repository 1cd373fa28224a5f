"""The desktop on a bus, over scripted servers that count what they are asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.desktop import DesktopActor, DesktopSettings
from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import NetworkError
from smcp_runtime.wire.messages.channels import ResourceSlice, SliceChanged
from smcp_runtime.wire.messages.desktop import ApplyDesktop, GetDesktop
from smcp_runtime.wire.messages.mcp import ReadResource, ResourceContents, ResourceUpdated, Watched, WatchResources
from smcp_runtime.wire.messages.tools import CallFinished, CallRecord

pytestmark = pytest.mark.anyio

DESKTOP = Address("desktop")
QUICK = DesktopSettings(read_timeout=0.2, retry_interval=0.05, answer_timeout=2.0)


class ScriptedServer(Actor):
    """Stands for one MCP server: texts by URI, counted reads, and the ways it can go wrong."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.blocks: dict[str, list[dict[str, str]]] = {}
        self.reads: Counter[str] = Counter()
        self.side_by_side = self.most_side_by_side = 0
        self.hangs: set[str] = set()
        self.fails: set[str] = set()
        self.unsubscribable: set[str] = set()
        self.watched = anyio.Event()
        self.release = anyio.Event()
        self.slow = False

    @handler(concurrent=100)
    async def read(self, message: ReadResource) -> ResourceContents:
        self.reads[message.uri] += 1
        self.side_by_side += 1
        self.most_side_by_side = max(self.most_side_by_side, self.side_by_side)
        try:
            if message.uri in self.hangs:
                with anyio.fail_after(message.timeout):
                    await anyio.sleep_forever()
            if self.slow:
                await self.release.wait()
        except TimeoutError:
            raise NetworkError("no answer in time", code="timeout") from None
        finally:
            self.side_by_side -= 1
        if message.uri in self.fails:
            raise NetworkError("refused", code="upstream_error")
        blocks = self.blocks.get(message.uri) or [{"uri": message.uri, "text": self.texts[message.uri]}]
        return ResourceContents(Attachment(json.dumps(blocks).encode()))

    @handler
    def watch(self, message: WatchResources) -> Watched:
        assert message.channel == "desktop"
        self.watched.set()
        return Watched(tuple(uri for uri in message.uris if uri not in self.unsubscribable))


class Stage:
    """A desktop and the servers around it."""

    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self.bus = bus
        self.supervisor = supervisor
        self.servers: dict[str, ScriptedServer] = {}
        self.number = 0
        self.notes: tuple[str, ...] = ()

    async def server(self, bundle_id: str, **texts: str) -> ScriptedServer:
        server = ScriptedServer({f"window://{bundle_id}/{name}": text for name, text in texts.items()})
        self.servers[bundle_id] = server
        await self.supervisor.start_child(ChildSpec(Address(f"mcp/{bundle_id}"), lambda: server))
        return server

    async def commit(self, *, session: int = 1) -> bool:
        self.number += 1
        slices = tuple(
            ResourceSlice(
                bundle_id,
                "same name (display)",
                Attachment(json.dumps([{"uri": uri} for uri in server.texts]).encode()),
                declared=True,
                subscribe=True,
                connected=True,
                session=session,
            )
            for bundle_id, server in sorted(self.servers.items())
        )
        for server in self.servers.values():
            server.watched = anyio.Event()
        applied = await self.bus.ask(DESKTOP, ApplyDesktop(self.number, slices))
        self.notes = applied.notes
        return applied.changed

    async def watched(self) -> None:
        with anyio.fail_after(5):
            for server in self.servers.values():
                await server.watched.wait()
        await anyio.wait_all_tasks_blocked()

    async def get(self, size: int | None = None, window: str | None = None) -> list[str]:
        with anyio.fail_after(5):
            answer: Any = await self.bus.ask(DESKTOP, GetDesktop(size, window))
        entries: list[str] = json.loads(answer.desktops.data)
        return entries


@pytest.fixture
async def bus_and_supervisor() -> AsyncIterator[tuple[Bus, Supervisor]]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        yield bus, supervisor


@pytest.fixture
async def stage(bus_and_supervisor: tuple[Bus, Supervisor]) -> Stage:
    bus, supervisor = bus_and_supervisor
    await supervisor.start_child(ChildSpec(DESKTOP, lambda: DesktopActor(QUICK)))
    return Stage(bus, supervisor)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not condition():  # noqa: ASYNC110  the condition has no event of its own
            await anyio.sleep(0.005)


@pytest.mark.spec("C-DESK-8", "C-DESK-10")
async def test_an_unchanged_desktop_reads_nothing_upstream(stage: Stage) -> None:
    server = await stage.server("s", a="A", b="B")
    assert await stage.commit()
    await stage.watched()
    expected = ["window://s/a\n\nA", "window://s/b\n\nB"]
    for _ in range(5):
        assert await stage.get() == expected
    assert await stage.get(size=1) == expected[:1]
    assert server.reads == {"window://s/a": 1, "window://s/b": 1}


@pytest.mark.spec("C-DESK-10", "C-DESK-27")
async def test_an_update_makes_one_window_be_read_again_and_marks_the_desktop(stage: Stage) -> None:
    server = await stage.server("s", a="A", b="B")
    await stage.commit()
    await stage.watched()
    await stage.get()
    server.texts["window://s/a"] = "new"
    with Observer(stage.bus, SliceChanged) as facts:
        stage.bus.publish(ResourceUpdated("s", "window://s/a"))
        with anyio.fail_after(5):
            assert await anext(facts) == SliceChanged("desktop")
    assert (await stage.get())[0] == "window://s/a\n\nnew"
    assert server.reads == {"window://s/a": 2, "window://s/b": 1}


@pytest.mark.spec("C-DESK-27")
async def test_updates_of_other_schemes_or_unknown_servers_are_no_desktop_matter(stage: Stage) -> None:
    server = await stage.server("s", a="A")
    await stage.commit()
    await stage.watched()
    await stage.get()
    with Observer(stage.bus, SliceChanged) as facts:
        stage.bus.publish(ResourceUpdated("s", "skill://s/a"))
        stage.bus.publish(ResourceUpdated("stranger", "window://s/a"))
        await stage.get()
        facts.close()
        assert [fact async for fact in facts] == []
    assert server.reads.total() == 1


@pytest.mark.spec("C-DESK-10", "C-DESK-8")
async def test_a_window_without_a_live_subscription_is_read_each_time(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.server("s", a="A", b="B")
    server.unsubscribable = {"window://s/b"}
    await stage.commit()
    await stage.watched()
    await stage.get()
    await stage.get()
    assert server.reads == {"window://s/a": 1, "window://s/b": 2}
    assert [record.levelname for record in caplog.records if "no subscription" in record.getMessage()] == ["WARNING"]


@pytest.mark.spec("C-DESK-12", "C-DESK-15")
async def test_a_size_of_zero_or_less_reads_nothing(stage: Stage) -> None:
    server = await stage.server("s", a="A")
    await stage.commit()
    assert await stage.get(size=0) == await stage.get(size=-3) == []
    assert server.reads.total() == 0


@pytest.mark.spec("C-DESK-13", "C-DESK-14", "C-DESK-16")
async def test_a_filter_reads_only_what_matches(stage: Stage) -> None:
    server = await stage.server("s", a="A", b="B")
    await stage.commit()
    assert await stage.get(window="window://s/b") == ["window://s/b\n\nB"]
    assert await stage.get(window="window://s/none") == []
    assert server.reads == {"window://s/b": 1}


@pytest.mark.spec("C-DESK-9", "C-GEN-10")
async def test_a_window_that_cannot_be_read_is_left_out_without_an_error_text(stage: Stage) -> None:
    server = await stage.server("s", a="A", b="B")
    server.fails = {"window://s/a"}
    await stage.commit()
    assert await stage.get() == ["window://s/b\n\nB"]


@pytest.mark.spec("C-DESK-9")
async def test_at_most_eight_reads_run_at_once(stage: Stage) -> None:
    server = await stage.server("s", **{f"w{n}": "x" for n in range(20)})
    server.slow = True
    await stage.commit()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.get)
        await until(lambda: server.side_by_side == 8)
        await anyio.wait_all_tasks_blocked()
        server.release.set()
    assert server.most_side_by_side == 8


@pytest.mark.spec("C-DESK-9", "C-SEC-4")
async def test_a_thousand_windows_take_no_more_tasks_than_reads_at_once(stage: Stage) -> None:
    server = await stage.server("a", **{f"w{number}": "text" for number in range(1000)})
    server.slow = True
    await stage.commit()
    before = len(anyio.get_running_tasks())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.bus.ask, DESKTOP, GetDesktop())
        with anyio.fail_after(5):
            while server.side_by_side < 8:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert len(anyio.get_running_tasks()) < before + 100
        server.release.set()
    assert server.reads.total() == 1000


@pytest.mark.spec("C-DESK-9", "C-GEN-14")
async def test_an_answer_ends_in_time_without_what_was_not_read_by_then(
    bus_and_supervisor: tuple[Bus, Supervisor], caplog: pytest.LogCaptureFixture
) -> None:
    bus, supervisor = bus_and_supervisor
    slow = DesktopSettings(read_timeout=30.0, answer_timeout=0.2)
    await supervisor.start_child(ChildSpec(DESKTOP, lambda: DesktopActor(slow)))
    stage = Stage(bus, supervisor)
    await stage.server("good", w="G")
    bad = await stage.server("bad", w="B")
    bad.hangs = {"window://bad/w"}
    await stage.commit()
    assert await stage.get() == ["window://good/w\n\nG"]
    assert "took too long" in caplog.text


@pytest.mark.spec("C-SEC-4", "C-DESK-9")
async def test_many_windows_that_hang_do_not_keep_another_server_from_being_read(stage: Stage) -> None:
    bad = await stage.server("bad", **{f"w{n}": "x" for n in range(40)})
    bad.hangs = set(bad.texts)
    await stage.server("good", w="G")
    await stage.commit()
    began = bad.now()
    assert await stage.get() == ["window://good/w\n\nG"]
    assert bad.now() - began < 2 * QUICK.read_timeout, "each eight of the forty were waited for"
    assert bad.most_side_by_side <= 8


@pytest.mark.spec("C-DESK-17", "C-DESK-24", "C-DESK-33")
async def test_blocks_without_text_are_warned_of_once_a_read(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    server = await stage.server("s", blob="", both="text", plain="text")
    blob = {"uri": "x", "blob": "eA=="}
    server.blocks = {"window://s/blob": [blob], "window://s/both": [blob, {"uri": "x", "text": "text"}]}
    await stage.commit()
    await stage.watched()
    for _ in range(2):
        assert await stage.get() == ["window://s/both\n\ntext", "window://s/plain\n\ntext"]
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(": window ")[2] for line in sorted(warned)] == [
        "s: 1 of its 2 blocks are no text and are left out",
        "s: it holds no text and is not shown",
    ]


@pytest.mark.spec("C-DESK-1", "C-DESK-4", "C-DESK-30")
async def test_what_is_odd_is_said_once_a_session_and_shown_as_long_as_it_is(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def warned() -> int:
        return sum("the query of window" in record.getMessage() for record in caplog.records)

    server = await stage.server("s", **{"a?x=1": "A"})
    await stage.commit()
    assert (warned(), len(stage.notes)) == (1, 1)
    server.texts["window://s/b"] = "B"
    await stage.commit()
    await stage.server("t", a="A")
    await stage.commit()
    assert (warned(), len(stage.notes)) == (1, 1)
    await stage.commit(session=2)
    assert (warned(), len(stage.notes)) == (2, 1)
    other = await stage.server("u")
    other.texts = {"window://T/x": "same host as t"}
    for _ in range(2):
        await stage.commit(session=2)
    assert sum("is exposed by t, u" in record.getMessage() for record in caplog.records) == 1
    assert len(stage.notes) == 2


@pytest.mark.spec("C-DESK-45", "DEC-23", "C-SEC-4", "C-DESK-27")
async def test_a_hanging_server_delays_one_answer_and_returns_after_a_background_try(stage: Stage) -> None:
    good = await stage.server("good", w="G")
    bad = await stage.server("bad", w="B")
    bad.hangs = {"window://bad/w"}
    await stage.commit()
    await stage.watched()
    assert await stage.get() == ["window://good/w\n\nG"]
    after_first = bad.reads["window://bad/w"]
    assert after_first == 1
    began = bad.now()
    for _ in range(3):
        assert await stage.get() == ["window://good/w\n\nG"]
    assert bad.now() - began < QUICK.read_timeout, "later answers waited for the hanging server"
    assert good.reads.total() == 1
    with Observer(stage.bus, SliceChanged) as facts:
        bad.hangs = set()
        with anyio.fail_after(5):
            await anext(facts)
    assert await stage.get() == ["window://bad/w\n\nB", "window://good/w\n\nG"]


@pytest.mark.spec("DEC-23", "C-DESK-9")
async def test_a_window_that_hung_hides_no_other_once_it_has_left_the_listing(stage: Stage) -> None:
    server = await stage.server("s", bad="B", good="G")
    server.hangs = {"window://s/bad"}
    await stage.commit()
    await stage.watched()
    assert await stage.get() == ["window://s/good\n\nG"]
    del server.texts["window://s/bad"]
    server.texts["window://s/new"] = "N"
    with Observer(stage.bus, SliceChanged) as facts:
        await stage.commit()
        await stage.watched()
        with anyio.fail_after(5):
            await anext(facts)
    assert await stage.get() == ["window://s/good\n\nG", "window://s/new\n\nN"]


@pytest.mark.spec("DEC-23", "C-DESK-9")
async def test_a_window_that_hung_hides_no_other_once_it_answers_with_an_error(stage: Stage) -> None:
    server = await stage.server("s", bad="B", good="G")
    server.unsubscribable = {"window://s/good"}
    server.hangs = {"window://s/bad"}
    await stage.commit()
    await stage.watched()
    assert await stage.get() == ["window://s/good\n\nG"]
    assert await stage.get() == [], "the server is waited for again before it has answered"
    server.fails = {"window://s/bad"}
    with Observer(stage.bus, SliceChanged) as facts:
        server.hangs = set()
        with anyio.fail_after(5):
            await anext(facts)
    assert await stage.get() == ["window://s/good\n\nG"]


@pytest.mark.spec("DEC-23", "C-DESK-9", "C-DESK-27")
async def test_a_window_that_hangs_for_good_hides_no_other_that_changes_meanwhile(stage: Stage) -> None:
    server = await stage.server("s", bad="B", good="old")
    server.hangs = {"window://s/bad"}
    await stage.commit()
    await stage.watched()
    assert await stage.get() == ["window://s/good\n\nold"]
    server.texts["window://s/good"] = "new"
    stage.bus.publish(ResourceUpdated("s", "window://s/good"))
    with anyio.fail_after(5):
        while await stage.get() != ["window://s/good\n\nnew"]:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert server.reads["window://s/good"] == 2, "it is kept as if nothing hung beside it"


@pytest.mark.spec("C-DESK-11", "C-SEC-6", "F-03")
async def test_subscribing_and_reading_cause_no_update(stage: Stage) -> None:
    await stage.server("s", a="A")
    with Observer(stage.bus, SliceChanged) as facts:
        await stage.commit()
        await stage.watched()
        for _ in range(3):
            await stage.get()
        assert not await stage.commit()
        facts.close()
        assert [fact async for fact in facts] == []


@pytest.mark.spec("C-DESK-27")
async def test_a_lost_server_changes_the_desktop_only_if_it_had_windows(stage: Stage) -> None:
    await stage.server("empty")
    assert not await stage.commit()
    await stage.server("s", a="A")
    assert await stage.commit()
    del stage.servers["s"]
    assert await stage.commit()
    assert await stage.get() == []


@pytest.mark.spec("C-DESK-19", "C-DESK-23")
async def test_the_server_called_last_comes_first(stage: Stage) -> None:
    for name in "ab":
        await stage.server(name, w=name)
    await stage.commit()
    assert [entry[:10] for entry in await stage.get()] == ["window://a", "window://b"]
    stage.bus.publish(CallFinished(CallRecord("r1", "b", "tool", "timeout", 0.0, 1.0)))
    assert [entry[:10] for entry in await stage.get()] == ["window://b", "window://a"]


@pytest.mark.spec("C-GEN-15")
async def test_a_killed_desktop_answers_again_after_the_next_commit(stage: Stage) -> None:
    await stage.server("s", a="A")
    await stage.commit()
    stage.supervisor.kill_child(DESKTOP)
    await until(
        lambda: stage.supervisor.children()[0].state == "up" and stage.supervisor.children()[0].incarnation == 2
    )
    assert await stage.commit()
    assert await stage.get() == ["window://s/a\n\nA"]
