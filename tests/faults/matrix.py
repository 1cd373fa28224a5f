"""The faults of the matrix, one line each: what is done, to whom, and within how many seconds all is well again.

A fault returns when it is over; what recovers is measured from there.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from smcp_runtime.bus.faults import Shares
from smcp_runtime.wire.errors import SmcpError
from support.waiting import until
from support.workers import spawned_by

from .rig import BIG, LIMIT, PLACEMENTS, THINK, Rig, Seat

CALLS = ("RunTool", "CallTool")
GIVEN_UP = 6.5
"""Seconds after which a hub has given up a silent node, and a node a silent hub."""


async def kill(rig: Rig, seat: Seat) -> None:
    """kill -9."""
    await rig.kill(seat)


async def stop(rig: Rig, seat: Seat) -> None:
    """SIGSTOP for longer than two health checks take, then SIGCONT."""
    pid = await rig.signal(seat, signal.SIGSTOP)
    await anyio.sleep(1.2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def close_pipe(rig: Rig, seat: Seat) -> None:
    """It closes its output, or all its connections, and lives on."""
    assert not await rig.told(seat, "close_pipe"), "its answer came though the pipe was closed before"


async def garbage(rig: Rig, seat: Seat) -> None:
    """Garbage in front of an answer, which still counts, then garbage for an answer, which ends by its limit."""
    heard = await rig.call(seat.name, "garbage", text="through it")
    assert heard.text == "through it", heard
    with anyio.fail_after(LIMIT + 1.0):
        assert not await rig.told(seat, "scramble")


async def slow(rig: Rig, seat: Seat) -> None:
    """Every call takes longer than its limit for a second."""
    await rig.told(seat, "slow_down", seconds=LIMIT + 1)
    await anyio.sleep(1.0)
    await until(lambda: rig.told(seat, "slow_down", seconds=THINK), 10)


async def fill_disk(rig: Rig) -> None:
    """No room for blobs, logs and records while every server dies, comes back, and has big results."""

    async def kept(seat: Seat) -> bool:
        """Whether a big result arrives; another one never does."""
        with contextlib.suppress(SmcpError):
            result = await rig.call(seat.name, "binary", bytes=BIG)
            if not result.is_error and not result.unresolved:
                assert base64.b64decode(result.content[0]["data"]) == bytes(i % 251 for i in range(BIG)), result
                return True
        return False

    with rig.disk.full():
        async with anyio.create_task_group() as group:
            for seat in rig.seats:
                group.start_soon(rig.kill, seat)
        for seat in rig.seats:
            with anyio.fail_after(15):
                await rig.loads[seat.name].recovered(seat.name)
            assert not await kept(seat), "there was room for it"
    for seat in rig.seats:
        await until(functools.partial(kept, seat), 10)


async def drop(rig: Rig) -> None:
    """One in five calls, or its answer, is lost on the bus."""
    async with rig.envelopes(Shares(drop=0.2), *CALLS):
        await anyio.sleep(1.0)


async def delay(rig: Rig) -> None:
    """Every second call, answer and change of a server's state comes up to 0.2 s late."""
    async with rig.envelopes(Shares(delay=0.5, longest=0.2), *CALLS, "ServerStatusChanged", "ToolsListed"):
        await anyio.sleep(1.0)


async def duplicate(rig: Rig) -> None:
    """Every second call, answer and change of a server's state comes twice."""
    async with rig.envelopes(Shares(duplicate=0.5, longest=0.2), *CALLS, "ServerStatusChanged", "ToolsListed"):
        await anyio.sleep(1.0)


async def cut_off_workers(rig: Rig) -> None:
    """The hub hears nothing of any worker until it gives it up: external ones behind a network that is cut, spawned
    ones, whose Unix socket no network can cut, stopped.
    """
    spawned = spawned_by(os.getpid())
    for pid in spawned:
        os.kill(pid, signal.SIGSTOP)
    if rig.network is not None:
        rig.network.cut()
    try:
        await anyio.sleep(GIVEN_UP)
        await until(lambda: not set(spawned) & set(spawned_by(os.getpid())), 10)
    finally:
        if rig.network is not None:
            rig.network.heal()


async def restart_hub(rig: Rig) -> None:
    """Every node is lost, and the hub listens anew."""
    assert rig.computer.operations.kill("workers")


async def restart_server(rig: Rig) -> None:
    """The Server goes away and comes back at the same place."""
    await rig.server.stop()
    await anyio.sleep(0.2)
    await rig.server.start()


ALL = frozenset(PLACEMENTS)
ELSEWHERE = ALL - {"inline"}
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fault:
    """One row of the matrix.

    Attributes:
        name: As in the design.
        of_seat: Done to each seat for itself, all at once; `of_all` once, to everybody.
        fells, hurts: Placements at which some call has to fail, and at which calls may fail; elsewhere none does.
        within: Seconds from its end to the first right answer at every seat.
        of_envelopes: Whether it works on envelopes of the Computer's bus.
    """

    name: str
    of_seat: Callable[[Rig, Seat], Awaitable[None]] | None = None
    of_all: Callable[[Rig], Awaitable[None]] | None = None
    fells: frozenset[str] = ALL
    hurts: frozenset[str] = ALL
    within: float = 5.0
    of_envelopes: bool = False


FAULTS = (
    Fault("kill -9", of_seat=kill),
    Fault("SIGSTOP, SIGCONT", of_seat=stop),
    Fault("closed pipe", of_seat=close_pipe, fells=NOBODY),
    Fault("garbage", of_seat=garbage, fells=NOBODY, hurts=NOBODY),
    Fault("slow", of_seat=slow),
    Fault("disk full", of_all=fill_disk),
    Fault("envelope drop", of_all=drop, fells=NOBODY, of_envelopes=True),
    Fault("envelope delay", of_all=delay, fells=NOBODY, of_envelopes=True),
    Fault("envelope duplicate", of_all=duplicate, fells=NOBODY, hurts=NOBODY, of_envelopes=True),
    Fault("worker partition", of_all=cut_off_workers, fells=ELSEWHERE, hurts=ELSEWHERE, within=15.0),
    Fault("hub restart", of_all=restart_hub, fells=ELSEWHERE, hurts=ELSEWHERE, within=15.0),
    Fault("Server restart", of_all=restart_server),
)
