"""Workers that crash, whenever they do: others lose nothing, the cause is told, and nobody waits for what is dead."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import psutil
import pytest

from smcp_runtime.actors.kernel.house import House
from smcp_runtime.actors.placement import process
from smcp_runtime.actors.placement.process import WorkerProcess
from smcp_runtime.bus import Observer
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.kernel import ActorDown
from support.alive import runs
from support.peers import Peers
from support.placed import Placed, open_placed
from support.stack import light

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

EXITS_ON_IMPORT = """
import os, sys
if "smcp_runtime.actors.placement.spawned" in sys.orig_argv and os.path.exists({flag!r}):
    os._exit(3)
"""


def house(placed: Placed) -> House:
    crew = placed.stack.computer._crew
    assert crew is not None
    return crew.house


@pytest.mark.spec("F-74", "DEC-1", "DEC-35")
async def test_a_native_crash_is_told_by_its_signal_and_no_call_of_another_worker_is_lost(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = process.watch_exit

    def late(launched: subprocess.Popen[bytes], settle: Callable[[int], None]) -> None:
        # The end of its connection is seen before its exit status, as it happens under load.
        watch(launched, lambda status: (asyncio.get_running_loop().call_later(0.1, settle, status), None)[1])

    monkeypatch.setattr(process, "watch_exit", late)
    async with open_placed("process", peers, light("one"), light("two")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", "two__echo", timeout=30)
        answers: list[str] = []

        async def keep_calling() -> None:
            while True:
                answers.append(await stack.text("two__echo", text="x"))

        async with anyio.create_task_group() as load:
            for _ in range(4):
                load.start_soon(keep_calling)
            with Observer(house(placed).bus, ActorDown) as downs:
                (await placed.worker("one")).send_signal(signal.SIGSEGV)
                with anyio.fail_after(10):
                    down = await anext(aiter(downs))
            assert isinstance(down, ActorDown)
            assert (down.address, down.reason) == ("mcp/one", "its worker was ended by SIGSEGV")
            since = len(answers)
            await stack.until_connected("one", timeout=20)
            await stack.until(lambda: len(answers) > since + 20)
            load.cancel_scope.cancel()
        assert set(answers) == {"x"}


@pytest.mark.spec("F-100")
@pytest.mark.parametrize("is_mended", [True, False])
async def test_a_worker_that_exits_on_import_is_told_at_once_and_tried_again_until_it_can_start(
    peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_mended: bool
) -> None:
    flag = tmp_path / "broken"
    flag.touch()
    (tmp_path / "sitecustomize.py").write_text(EXITS_ON_IMPORT.format(flag=str(flag)), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with anyio.fail_after(30):
        async with open_placed("process", peers, light("one")) as placed:
            with Observer(house(placed).bus, ActorDown) as downs, anyio.fail_after(5):
                down = await anext(aiter(downs))
            assert isinstance(down, ActorDown)
            assert (down.address, down.reason) == ("mcp/one", "its worker exited with status 3")
            if is_mended:
                flag.unlink()
                await placed.stack.until_listed("one__echo", timeout=20)
                return

            async def shows_it() -> bool:
                (status,) = (await placed.stack.computer.diagnostics()).servers
                return status.connection == "error" and down.reason in str(status.reason)

            await placed.stack.until(shows_it)


@pytest.mark.spec("F-100", "R-MCP-9", "R-MCP-26")
async def test_a_worker_killed_during_its_stop_ends_that_stop_with_the_cause_and_leaves_no_server(
    peers: Peers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask = WorkerProcess.ask_to_stop

    ran = []

    def ask_and_kill(self: WorkerProcess) -> None:
        ran.append(server.is_running())
        ask(self)
        os.kill(self.pid, signal.SIGKILL)

    async with open_placed("process", peers, light("one", "--ignore-eof", "--ignore-term")) as placed:
        await placed.stack.until_listed("one__echo", timeout=30)
        server = psutil.Process(await placed.pid("one"))
        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING), anyio.fail_after(8):
            patched.setattr(WorkerProcess, "ask_to_stop", ask_and_kill)
            await house(placed).supervisor.stop_child(Address("mcp/one"))
        assert ran == [True]
        assert "mcp/one was to stop in order: its worker was ended by SIGKILL" in caplog.text
        assert not runs(server)
