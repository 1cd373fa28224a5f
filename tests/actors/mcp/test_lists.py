"""The lists of one session, over a session that is played: when they are read again, and what is published."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import anyio
import msgspec
import pytest

from smcp_runtime.actors.mcp.failures import TimeLimitReached
from smcp_runtime.actors.mcp.session import refresh
from smcp_runtime.actors.mcp.session.listing import Kind, Listing, Page
from smcp_runtime.actors.mcp.session.lists import DISCARDS, Lists
from smcp_runtime.actors.mcp.session.negotiated import Capabilities
from smcp_runtime.actors.mcp.session.session import Session

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

FOR_EVER = 3600.0


class PlayedSession:
    """A server with one list of resources, told in the middle of each reading what happens then."""

    def __init__(self, *, announced: bool) -> None:
        self.capabilities = Capabilities(resources=True, resources_changed=announced)
        self.items = ["a"]
        self.readings = 0
        self.meanwhile: Callable[[], Awaitable[None] | None] = lambda: None
        self.fails = False

    async def list_all(self, kind: Kind) -> Listing:
        self.readings += 1
        listing = Listing(kind)
        pages = [self.items[:1], self.items[1:]]
        for number, page in enumerate(pages):
            if number and (happens := self.meanwhile()) is not None:
                await happens
            if self.fails:
                raise TimeLimitReached(1.0)
            listing.add(Page(msgspec.json.encode([{"uri": item} for item in page])))
        return listing


class Bench:
    """Lists over a played session, kept by a task of their own."""

    def __init__(self, *, announced: bool = True, interval: float = FOR_EVER) -> None:
        self.session = PlayedSession(announced=announced)
        self.published: list[list[str]] = []
        self.lists = Lists(cast(Session, self.session), self._publish, interval)

    def _publish(self, kind: Kind, items: bytes, notes: tuple[str, ...]) -> None:
        self.published.append([item["uri"] for item in msgspec.json.decode(items)])

    async def until(self, *published: list[str]) -> None:
        with anyio.fail_after(5):
            while self.published != list(published):  # noqa: ASYNC110
                await anyio.sleep(0.005)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.lists.keep, "resources")
            self.lists.mark("resources")
            await self.until(["a"])
            yield
            tasks.cancel_scope.cancel()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspicion counts again after an instant instead of five seconds."""
    monkeypatch.setattr(refresh, "UNASKED_GAP", 0.02)


@spec("DEC-4")
async def test_a_list_whose_changes_are_not_announced_is_read_again_at_each_interval() -> None:
    bench = Bench(announced=False, interval=0.05)
    async with bench.kept():
        bench.session.items = ["a", "b"]
        await bench.until(["a"], ["a", "b"])


@spec("DEC-4")
async def test_a_list_whose_changes_are_announced_is_not_read_without_cause(quick: None) -> None:
    bench = Bench(announced=True, interval=0.02)
    async with bench.kept():
        bench.session.items = ["unannounced"]
        await anyio.sleep(0.1)
        bench.lists.suspect()
        await anyio.wait_all_tasks_blocked()
        assert (bench.session.readings, bench.published) == (1, [["a"]])


@spec("DEC-4")
async def test_a_suspicion_is_enough_where_changes_are_not_announced(quick: None) -> None:
    bench = Bench(announced=False)
    async with bench.kept():
        await anyio.sleep(0.03)
        bench.lists.suspect()
        bench.lists.suspect()
        with anyio.fail_after(5):
            while bench.session.readings < 2:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        await anyio.wait_all_tasks_blocked()
        assert (bench.session.readings, bench.published) == (2, [["a"]]), "an equal list is no news"


@spec("DEC-4")
async def test_a_suspicion_too_soon_after_a_reading_is_looked_into_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "UNASKED_GAP", 0.2)
    bench = Bench(announced=False)
    async with bench.kept():
        began = anyio.current_time()
        bench.session.items = ["a", "b"]
        assert await bench.lists.fresh("resources") == b'[{"uri":"a"}]', "nothing speaks against it"
        for _ in range(100):
            bench.lists.suspect()
        await bench.until(["a"], ["a", "b"])
        assert anyio.current_time() - began > 0.1
        assert bench.session.readings == 2


@spec("DEC-4", "C-DOC-20")
async def test_who_waits_for_a_list_that_is_suspected_has_it_read_at_once() -> None:
    bench = Bench(announced=False)
    async with bench.kept():
        bench.session.items = ["a", "b"]
        bench.lists.suspect()
        with anyio.fail_after(2):
            assert await bench.lists.fresh("resources") == b'[{"uri":"a"},{"uri":"b"}]'
            assert await bench.lists.fresh("resources") == b'[{"uri":"a"},{"uri":"b"}]'
        assert bench.session.readings == 2


@spec("F-41", "C-GEN-12")
async def test_a_list_that_changes_between_two_pages_is_read_anew_and_never_published_mixed() -> None:
    bench = Bench()
    async with bench.kept():
        bench.session.items = ["a", "b"]

        def changes() -> None:
            bench.session.meanwhile = lambda: None
            bench.session.items = ["c", "d"]
            bench.lists.mark("resources")

        bench.session.meanwhile = changes
        bench.lists.mark("resources")
        await bench.until(["a"], ["c", "d"])
        assert bench.session.readings == 3


@spec("F-41", "F-03")
async def test_a_list_that_changes_in_every_reading_is_published_all_the_same() -> None:
    bench = Bench()
    async with bench.kept():
        bench.session.items = ["a", "b"]
        bench.session.meanwhile = lambda: bench.lists.mark("resources")
        bench.lists.mark("resources")
        await bench.until(["a"], ["a", "b"])
        assert bench.session.readings == 1 + DISCARDS + 1


@spec("C-DOC-20")
async def test_a_list_that_is_up_to_date_is_there_at_once_and_one_that_is_read_is_waited_for() -> None:
    bench = Bench()
    async with bench.kept():
        assert await bench.lists.fresh("resources") == b'[{"uri":"a"}]'
        assert bench.session.readings == 1
        release = asyncio.Event()
        bench.session.items = ["b"]
        bench.session.meanwhile = release.wait  # type: ignore[assignment]
        bench.lists.mark("resources")
        got: list[Any] = []

        async def wait() -> None:
            got.append(await bench.lists.fresh("resources"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert got == []
            release.set()
        assert got == [b'[{"uri":"b"}]']


@spec("C-DOC-20")
async def test_a_reading_that_fails_ends_the_wait_with_what_was_known() -> None:
    bench = Bench()
    async with bench.kept():
        bench.session.fails = True
        bench.lists.mark("resources")
        with anyio.fail_after(5):
            assert await bench.lists.fresh("resources") == b'[{"uri":"a"}]'
            assert await bench.lists.fresh("tools") is None


@spec("C-DOC-20", "DEC-4")
async def test_what_is_not_announced_is_read_before_it_counts_as_up_to_date(quick: None) -> None:
    bench = Bench(announced=False)
    async with bench.kept():
        await anyio.sleep(0.03)
        bench.session.items = ["b"]
        with anyio.fail_after(5):
            assert await bench.lists.fresh("resources") == b'[{"uri":"b"}]'
