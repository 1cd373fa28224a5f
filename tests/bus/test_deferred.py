"""What is imported when it is first needed (bus/deferred.py)."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from smcp_runtime.bus.deferred import Deferred

pytestmark = pytest.mark.anyio


async def test_it_is_brought_once_in_another_thread_for_all_who_ask() -> None:
    threads: list[int] = []

    def bring() -> object:
        threads.append(threading.get_ident())
        return object()

    deferred = Deferred(bring)
    assert threads == []
    first, second = await asyncio.gather(deferred.get(), deferred.get())
    assert first is second is await deferred.get()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_the_loop_goes_on_and_who_stops_waiting_takes_it_from_nobody() -> None:
    go_on = threading.Event()

    def bring() -> str:
        return "here" if go_on.wait(10) else "late"

    deferred = Deferred(bring)
    with anyio.move_on_after(0.05) as patience:
        await deferred.get()
    assert patience.cancelled_caught
    go_on.set()
    assert await deferred.get() == "here"


async def test_everybody_hears_why_it_cannot_be_brought() -> None:
    def bring() -> None:
        raise ImportError("no such library")

    deferred = Deferred(bring)
    for _ in range(2):
        with pytest.raises(ImportError, match="no such library"):
            await deferred.get()


async def test_two_are_never_brought_at_the_same_time() -> None:
    under_way, seen = threading.Semaphore(1), []

    def bring() -> None:
        seen.append(under_way.acquire(blocking=False))
        threading.Event().wait(0.02)
        under_way.release()

    await asyncio.gather(*(Deferred(bring).get() for _ in range(5)))
    assert seen == [True] * 5
