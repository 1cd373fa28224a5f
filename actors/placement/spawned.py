"""Entry point of a spawned worker: `python -m smcp_runtime.actors.placement.spawned CONTROL BUS`.

Both are inherited sockets; its papers come over the first. It ends when the Computer says so there, when that
socket closes, when its parent dies, and when the bus is lost: whatever happens to the Computer,
no worker stays. With it go its servers, whose launchers watch it as they watch a Computer.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import anyio

from ...bus import Bus, Tally
from ...bus.zeromq import ZmqNode
from ...wire.errors import NodeRefused
from ...wire.redaction import SecretRegistry
from ..computer.log_guard import guarded
from . import papers as paperwork
from .papers import Papers
from .worker import HubLost, host, innermost

PR_SET_PDEATHSIG = 1
LOST = 75
"""Exit status after the Computer was lost; 1 after anything else that was not asked for."""

logger = logging.getLogger(__name__)


def main() -> None:
    """Runs the worker and ends the process with a status."""
    control, line = map(int, sys.argv[1:3])
    for descriptor in (control, line):
        os.set_inheritable(descriptor, False)
    papers = _receive(control)
    _die_with_parent(papers.parent)
    let_others_end_their_turn()
    # An interrupt at the terminal is for the Computer, which then ends this process in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        level=papers.log_level,
        filename=papers.log_file or None,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        status = runner.run(_work(papers, control, socket.socket(fileno=line)))
    logging.shutdown()
    # Nothing of ours is left; tearing the interpreter down would take longer than all of it.
    os._exit(status)


async def _work(papers: Papers, control: int, line: socket.socket) -> int:
    registry, tally = SecretRegistry(), Tally()
    stop = anyio.Event()
    loop = asyncio.get_running_loop()
    with guarded(registry):
        loop.add_reader(control, _listen, control, stop)
        try:
            async with Bus(tally) as bus, ZmqNode(bus, "", papers.terms.node, pair=line):
                await host(bus, papers.terms, stop, tally=tally, registry=registry)
        except Exception as error:
            cause = innermost(error)
            logger.warning("the worker of %s ends: %s", papers.terms.bundle_id, type(cause).__name__)
            if isinstance(cause, NodeRefused):
                # Of a release that was installed meanwhile, most likely; the Computer shows it to whoever wonders.
                os.write(control, cause.message.encode()[: paperwork.WORDS_MAX])
            return LOST if isinstance(cause, HubLost) else 1
        finally:
            loop.remove_reader(control)
    return 0


def _listen(control: int, stop: anyio.Event) -> None:
    """The Computer asks for the end, or is gone without having asked."""
    try:
        word = os.read(control, 1)
    except OSError:
        word = b""
    if word != paperwork.STOP:
        os._exit(LOST)
    stop.set()


def _receive(control: int) -> Papers:
    size = int.from_bytes(_read(control, paperwork.LENGTH), "big")
    return paperwork.read(_read(control, size))


def _read(control: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = os.read(control, size - len(data))
        if not piece:
            os._exit(LOST)
        data += piece
    return data


def _die_with_parent(parent: int) -> None:
    """Has the system kill this process when its parent dies, where it can; the socket says so everywhere (DEC-8)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before that was armed
        os._exit(LOST)


def let_others_end_their_turn() -> None:
    """Has the system not interrupt a process because this one, or its server, has got something to do.

    Else a call would take the processor from the Computer in the middle of the turn that sent it, and the loop
    that all servers share would wait for one of them. A Computer that was given a rank of its own shares that.
    """
    if sys.platform.startswith("linux") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):  # where a sandbox forbids it, calls only take longer
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop  # noqa: PLC0415 - where the platform has it

    return uvloop.new_event_loop


if __name__ == "__main__":
    main()
