"""Process trees: how they begin, how they end, and that nothing of them is left whatever happens to us."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

from smcp_runtime.actors.mcp.transports.backlog import SIDE_BYTES
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords, identify
from smcp_runtime.actors.mcp.transports.spawn import ServerProcess, spawn
from smcp_runtime.actors.mcp.transports.stdio import open_stdio
from smcp_runtime.actors.mcp.transports.tail import Tail
from smcp_runtime.wire.errors import StartupError
from smcp_runtime.wire.messages.mcp import LaunchPlan
from support.waiting import until

from .conftest import light

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

PATH = {"PATH": os.environ["PATH"]}
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
inside = subprocess.Popen([sys.executable, "-c", child])
outside = subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
print(os.getpid(), inside.pid, outside.pid, flush=True)
time.sleep(600)
"""
"""Ignores end of input and SIGTERM, and so do its two children, one of which left its session."""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def launchers() -> list[int]:
    """Pids of the launchers that are ours and know that they are."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process().children() if "launcher.py" in " ".join(child.cmdline())]
    return []


def wait(condition: Callable[[], object], timeout: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout, "waited in vain"
        time.sleep(0.02)
    return time.monotonic() - began


async def said(process: ServerProcess) -> str:
    """The first line on stdout."""
    line = await anyio.to_thread.run_sync(process.stdout.readline)
    return line.decode()


async def started(script: str, **more: object) -> ServerProcess:
    return await spawn(sys.executable, ("-c", script), PATH, **more)  # type: ignore[arg-type]


async def finish(process: ServerProcess) -> None:
    process.close_pipes()
    await process.kill()


class TestStart:
    async def test_the_server_leads_a_group_in_a_session_of_its_own(self) -> None:
        process = await started("import sys; sys.stdin.read()")
        try:
            assert os.getpgid(process.pid) == process.pid
            assert os.getsid(process.pid) == process.guard != os.getsid(0)
        finally:
            await finish(process)

    @spec("R-MCP-3")
    async def test_it_has_exactly_the_environment_it_was_given(self) -> None:
        process = await spawn("env", (), {**PATH, "ONE": "1", "TWO": "a=b", "EMPTY": ""})
        seen = (await anyio.to_thread.run_sync(process.stdout.read)).decode().splitlines()
        assert sorted(seen) == sorted([f"PATH={PATH['PATH']}", "ONE=1", "TWO=a=b", "EMPTY="])
        await finish(process)

    async def test_it_inherits_no_descriptor_of_ours_but_its_pipes(self, tmp_path: Path) -> None:
        with (tmp_path / "ours").open("w"):
            process = await spawn("ls", ("/proc/self/fd",), PATH)
            seen = (await anyio.to_thread.run_sync(process.stdout.read)).split()
        assert seen == [b"0", b"1", b"2", b"3"]  # the fourth is the directory it lists
        await finish(process)

    async def test_it_ignores_no_signal_that_it_did_not_choose_to_ignore(self) -> None:
        process = await spawn("grep", ("SigIgn", "/proc/self/status"), PATH)
        assert int((await said(process)).split()[1], 16) == 0
        await finish(process)

    @spec("F-25")
    @pytest.mark.parametrize(
        ("command", "directory", "code"),
        [
            ("no-such-command", None, "command_not_found"),
            ("/etc/passwd", None, "cannot_execute"),
            ("ls", "/no/such/folder", "bad_directory"),
        ],
    )
    async def test_what_cannot_run_is_refused_with_its_reason_and_leaves_no_process(
        self, command: str, directory: str | None, code: str
    ) -> None:
        before = {process.pid for process in psutil.Process().children(recursive=True)}
        with pytest.raises(StartupError) as refused:
            await spawn(command, (), PATH, directory)
        assert refused.value.code == code
        assert {process.pid for process in psutil.Process().children(recursive=True)} <= before

    @spec("F-25", "F-56", "DEC-4")
    async def test_a_launcher_that_answers_and_ends_at_once_takes_no_descriptor_from_whoever_starts_next(self) -> None:
        loop, heard = asyncio.get_running_loop(), []
        others: list[tuple[socket.socket, socket.socket]] = []

        def start_others() -> None:
            for number in range(8):
                others.append(socket.socketpair())
                loop.add_reader(others[number][0], heard.append, number)
                others[number][1].send(b"x")

        async with anyio.create_task_group() as group:
            refused: list[StartupError] = []

            async def start() -> None:
                with pytest.raises(StartupError) as caught:
                    await spawn("no-such-command", (), PATH)
                refused.append(caught.value)

            group.start_soon(start)
            while not (pids := launchers()):
                await anyio.lowlevel.checkpoint()
            # The loop finds the answer, the end of the launcher, and others that begin, all in one turn.
            loop.call_later(0, start_others)
            os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        assert [error.code for error in refused] == ["command_not_found"]
        await until(lambda: set(heard) == set(range(8)), timeout=3)
        for ours, theirs in others:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()

    async def test_its_exit_status_is_ours_to_see(self) -> None:
        process = await started("raise SystemExit(7)")
        assert await process.exited == 7
        await finish(process)
        process = await started("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert await process.exited == -signal.SIGSEGV
        await finish(process)

    async def test_its_end_is_seen_where_the_system_has_no_process_descriptors(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(pid: int) -> int:
            raise OSError("not here")

        monkeypatch.setattr(os, "pidfd_open", missing)
        process = await started("raise SystemExit(7)")
        with anyio.fail_after(3.0):
            assert await process.exited == 7
        process.close_pipes()


class TestStop:
    async def test_a_server_that_ends_with_its_input_is_gone_at_once(self) -> None:
        process = await started("import sys; sys.stdin.read()")
        process.stdin.close()
        with anyio.fail_after(1.0):
            await process.stop()
        assert process.returncode == 0
        process.close_pipes()

    @spec("R-MCP-26")
    async def test_one_that_does_not_is_terminated_after_the_grace(self) -> None:
        process = await started("import time; print(1, flush=True); time.sleep(600)", grace=0.3)
        await said(process)
        process.stdin.close()
        began = time.monotonic()
        await process.stop()
        assert process.returncode == -signal.SIGTERM
        assert 0.3 <= time.monotonic() - began < 0.6
        process.close_pipes()

    @spec("R-MCP-26", "DEC-8", "F-33")
    async def test_a_stubborn_tree_is_killed_whole_even_where_it_left_the_group_and_the_session(self) -> None:
        process = await started(STUBBORN, grace=0.3)
        family = [int(pid) for pid in (await said(process)).split()]
        process.stdin.close()
        with anyio.fail_after(2.0):
            await process.stop()
        assert process.returncode == -signal.SIGKILL
        assert [pid for pid in family if not gone(pid)] == []
        process.close_pipes()

    @spec("F-33")
    async def test_what_a_server_leaves_behind_when_it_exits_is_ended_though_it_holds_the_pipes(self) -> None:
        script = """
            import subprocess, sys
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            print(child.pid, flush=True)
        """
        process = await started(textwrap.dedent(script))
        child = int(await said(process))
        with anyio.fail_after(3.0):
            assert await process.exited == 0
        assert gone(child)
        process.close_pipes()

    @spec("DEC-8", "R-MCP-26")
    async def test_a_tree_whose_launcher_is_killed_is_gone_before_its_end_is_told(self) -> None:
        # a wrapper, as npx is one: what it starts beside the server does not care for the end of its input
        process = await spawn("sh", ("-c", "sleep 600 & echo $!; exec cat"), PATH)
        helper = int(await said(process))
        os.kill(process.guard, signal.SIGKILL)
        with anyio.fail_after(5.0):
            assert await process.exited == -signal.SIGKILL
        assert gone(process.pid)
        assert gone(helper)
        process.close_pipes()

    async def test_kill_takes_no_grace(self) -> None:
        process = await started(STUBBORN)
        family = [int(pid) for pid in (await said(process)).split()]
        with anyio.fail_after(1.0):
            await process.kill()
        assert [pid for pid in family if not gone(pid)] == []
        process.close_pipes()

    @spec("F-57")
    async def test_forty_servers_leave_no_zombie_and_no_descriptor(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(8):
            processes = [await started("pass") for _ in range(5)]
            for process in processes:
                await process.exited
                process.close_pipes()
        assert len(os.listdir("/proc/self/fd")) == before
        assert [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


COMPUTER = """
import asyncio, os, sys
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.actors.mcp.transports.spawn import spawn
from pathlib import Path

async def main():
    script = Path(sys.argv[1]).read_text()
    process = await spawn(sys.executable, ("-c", script), {"PATH": os.environ["PATH"]}, grace=0.3)
    line = await asyncio.to_thread(process.stdout.readline)
    ProcessRecords(Path(sys.argv[2])).add("stubborn", process.guard, process.pid)
    print(process.guard, line.decode().strip(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


class TestHardDeath:
    """A Computer in a process of its own, which the test kills."""

    def start(self, tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
        (tmp_path / "server.py").write_text(STUBBORN)
        computer = subprocess.Popen(
            [sys.executable, "-c", COMPUTER, str(tmp_path / "server.py"), str(tmp_path / "records")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert computer.stdout is not None
        return computer, [int(pid) for pid in computer.stdout.readline().split()]

    def end(self, computer: subprocess.Popen[str]) -> None:
        assert computer.stdout is not None
        computer.stdout.close()
        computer.wait(5)

    @spec("DEC-8", "R-MCP-26")
    def test_servers_that_ignore_everything_end_with_a_computer_that_is_killed(self, tmp_path: Path) -> None:
        computer, family = self.start(tmp_path)
        computer.kill()
        try:
            assert wait(lambda: all(map(gone, family)), 3.0) < 3.0
        finally:
            self.end(computer)

    @spec("DEC-8")
    def test_neither_a_server_nor_what_shares_its_session_outlives_its_launcher(self, tmp_path: Path) -> None:
        computer, (guard, server, inside, outside) = self.start(tmp_path)
        try:
            os.kill(guard, signal.SIGKILL)
            wait(lambda: gone(server) and gone(inside), 5.0)
        finally:
            os.kill(outside, signal.SIGKILL)  # Only the launcher would have found what left the session.
            computer.kill()
            self.end(computer)

    @spec("DEC-8")
    def test_the_next_start_sweeps_what_shares_the_session_of_a_launcher_that_is_gone_too(self, tmp_path: Path) -> None:
        computer, (guard, server, inside, outside) = self.start(tmp_path)
        records = ProcessRecords(tmp_path / "records")
        try:
            os.kill(guard, signal.SIGSTOP)
            computer.kill()
            computer.wait(5)
            os.kill(guard, signal.SIGKILL)
            wait(lambda: gone(guard) and gone(server), 5.0)
            assert not gone(inside)
            assert records.sweep() == ("stubborn",)
            assert gone(inside)
            assert records.sweep() == ()
        finally:
            for pid in (guard, server, inside, outside):
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)
            self.end(computer)

    @spec("DEC-8")
    def test_the_next_start_sweeps_what_a_dead_computer_left_and_nothing_else(self, tmp_path: Path) -> None:
        computer, (guard, server, inside, outside) = self.start(tmp_path)
        records = ProcessRecords(tmp_path / "records")
        try:
            assert records.sweep() == ()  # its owner lives
            assert not gone(server)
            for pid in (guard, server):
                os.kill(pid, signal.SIGSTOP)  # so that neither can do its part
            computer.kill()
            computer.wait(5)
            for pid in (guard, server):
                assert not gone(pid)
            assert records.sweep() == ("stubborn",)
            assert gone(guard)
            assert gone(server)
            assert records.sweep() == ()
        finally:
            for pid in (guard, server, inside, outside):
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)
            computer.kill()
            self.end(computer)

    @spec("DEC-8")
    def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(self, tmp_path: Path) -> None:
        records = ProcessRecords(tmp_path)
        bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            path = records.add("old", bystander.pid, bystander.pid)
            assert path is not None
            for wrong in ("started", "command"):
                text = path.read_text()
                path.write_text(_with_other(text, wrong))
                assert records.sweep() == ()
                assert bystander.poll() is None
                path = records.add("old", bystander.pid, bystander.pid)
                assert path is not None
        finally:
            bystander.kill()
            bystander.wait(5)

    def test_a_record_holds_no_argument_in_clear(self, tmp_path: Path) -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "--token=hunter22"])
        try:
            path = ProcessRecords(tmp_path).add("files", process.pid, process.pid)
            assert path is not None
            assert "hunter22" not in path.read_text()
        finally:
            process.kill()
            process.wait(5)

    def test_nobody_is_nobody(self) -> None:
        assert identify(2**22 + 7) is None


def _with_other(text: str, member: str) -> str:
    """A record whose owner is dead and whose processes differ in one member."""
    record = json.loads(text)
    record["owner"]["started"] = "long ago"
    for name in ("guard", "server"):
        record[name][member] = "other"
    return json.dumps(record)


class Unwritable(ProcessRecords):
    """Fails in a way nobody expected."""

    started = 0

    def add(self, bundle_id: str, guard: int, server: int) -> Path | None:
        self.started = server
        raise RuntimeError("no record")


@pytest.mark.spec("DEC-8")
async def test_a_server_that_cannot_be_recorded_is_not_left_running(tmp_path: Path) -> None:
    records = Unwritable(tmp_path)
    plan = light("files")
    with pytest.raises(RuntimeError, match="no record"):
        await open_stdio(plan, lambda *_: None, tail=Tail(), records=records)
    assert not psutil.pid_exists(records.started)


class Hasty(ProcessRecords):
    """Gives the start up some turns of the loop after the server runs."""

    def __init__(self, folder: Path, turns: int, give_up: Callable[[], None]) -> None:
        super().__init__(folder)
        self._turns, self._give_up = turns, give_up

    def add(self, bundle_id: str, guard: int, server: int) -> Path | None:
        self._wait(self._turns)
        return super().add(bundle_id, guard, server)

    def _wait(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._wait, turns - 1)
        else:
            self._give_up()


FLOOD = """
import itertools, os
for number in itertools.count():
    os.write(1, b'{"jsonrpc":"2.0","id":"%01000d","method":"ping"}\\n' % number)
"""


async def test_a_server_that_asks_without_end_and_reads_nothing_does_not_fill_our_memory() -> None:
    plan = LaunchPlan("flood", "flood", "stdio", command=sys.executable, args=("-c", FLOOD))
    connection = await open_stdio(plan, lambda *_: None, tail=Tail())
    try:
        await until(lambda: connection.dispatcher.messages > 3 * SIDE_BYTES / 1000, timeout=20)
        assert connection._stdin is not None
        assert connection._stdin.get_write_buffer_size() <= SIDE_BYTES + 1100
        assert not connection.dispatcher.closed.done()
    finally:
        await connection.close(gentle=False)


@spec("F-57")
@pytest.mark.parametrize("turns", range(10))
async def test_a_start_given_up_at_any_turn_leaves_nothing_with_the_loop(tmp_path: Path, turns: int) -> None:
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    before = set(selector.get_map())
    with anyio.CancelScope() as scope:
        connection = await open_stdio(
            light("files"), lambda *_: None, tail=Tail(), records=Hasty(tmp_path, turns, scope.cancel)
        )
        with anyio.CancelScope(shield=True):
            await connection.close(gentle=False)
    await anyio.lowlevel.checkpoint()
    assert set(selector.get_map()) == before
    gc.collect()  # a transport that nobody closed would complain here


@spec("F-57")
async def test_pipes_that_the_system_does_not_take_leave_nothing_with_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def full(*_: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(loop, "connect_write_pipe", full)
    before = set(loop._selector.get_map())  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="Too many open files"):
        await open_stdio(light("files"), lambda *_: None, tail=Tail())
    assert set(loop._selector.get_map()) == before  # type: ignore[attr-defined]
    gc.collect()
