"""Process trees of Windows, over a kernel that the test writes; `test_job_tree_on_windows.py` has the real one."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from smcp_runtime.actors.mcp.transports import job_tree
from smcp_runtime.actors.mcp.transports.job_tree import Born, JobTree, JobTrees
from smcp_runtime.actors.mcp.transports.system import start_tree
from smcp_runtime.wire.errors import StartupError

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F-35")]

BREAKAWAY_OK, KILL_ON_JOB_CLOSE = 0x800, 0x2000
SUSPENDED, NEW_PROCESS_GROUP = 0x4, 0x200
PROGRAM = sys.executable
PID = 4711


class FakePipe:
    def __init__(self, handle: int) -> None:
        self.handle, self.closed = handle, False

    def fileno(self) -> int:
        return self.handle

    def close(self) -> None:
        self.closed = True


class FakeKernel:
    """One job with one server, which does what the test says; a handle that is not open fails the test.

    Args:
        fails: Calls that raise.
        heeds_break: Whether the server ends when asked to.
        helpers: How many processes it leaves behind, and whether these end when asked to.

    Attributes:
        calls: What was called, in order, when, and with what.
        open: Handles that nobody closed yet.
        killed: How many were ended by force.
    """

    def __init__(
        self,
        *fails: str,
        error: Exception | None = None,
        heeds_break: bool = False,
        helpers: int = 0,
        meek: bool = False,
    ) -> None:
        self.fails, self.error = fails, error or OSError(5, "Access is denied")
        self.heeds_break, self.helpers, self.meek = heeds_break, helpers, meek
        self.calls: list[tuple[str, float, tuple[object, ...]]] = []
        self.open: set[int] = set()
        self.job: set[int] = set()
        self.pipes = [FakePipe(number) for number in range(3)]
        self.killed = 0
        self.running = False
        self._status = 0
        self._ended = threading.Event()

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls if name not in ("members", "wait")]

    def when(self, name: str) -> float:
        return next(at for called, at, _ in self.calls if called == name)

    def given(self, name: str) -> tuple[object, ...]:
        return next(arguments for called, _, arguments in self.calls if called == name)

    def exit(self, status: int = 0) -> None:
        self.running, self._status = False, status
        self._ended.set()

    def _called(self, name: str, *arguments: object, handles: tuple[int, ...] = ()) -> None:
        self.calls.append((name, time.monotonic(), arguments))
        assert self.open.issuperset(handles), f"{name} with a closed handle"
        if name in self.fails:
            raise self.error

    def _opened(self, handle: int) -> int:
        self.open.add(handle)
        return handle

    def create_job(self) -> int:
        self._called("create_job")
        return self._opened(1)

    def limit_job(self, job: int, limits: int) -> None:
        self._called("limit_job", limits, handles=(job,))

    def create_process(
        self, program: str, line: str, environment: Mapping[str, str], directory: str | None, flags: int
    ) -> Born:
        self._called("create_process", program, line, environment, directory, flags)
        self.running = True
        return Born(self._opened(2), self._opened(3), PID, *self.pipes)

    def assign(self, job: int, process: int) -> None:
        self._called("assign", handles=(job, process))
        self.job.add(process)

    def resume(self, thread: int) -> None:
        self._called("resume", handles=(thread,))

    def send_break(self, group: int) -> None:
        self._called("send_break", group)
        if self.meek:
            self.helpers = 0
        if self.heeds_break and self.running:
            self.exit(3)

    def members(self, job: int) -> int:
        self._called("members", handles=(job,))
        return self.running + self.helpers

    def terminate_job(self, job: int) -> None:
        self._called("terminate_job", handles=(job,))
        self.killed += self.running + self.helpers
        self.helpers = 0
        if self.running:
            self.exit(1)

    def terminate_process(self, process: int) -> None:
        self._called("terminate_process", handles=(process,))
        self.exit(1)

    def wait(self, process: int) -> int:
        self._called("wait", handles=(process,))
        assert self._ended.wait(10), "the server never ended"
        return self._status

    def close(self, handle: int) -> None:
        self._called("close", handle, handles=(handle,))
        self.open.remove(handle)


async def started(kernel: FakeKernel, command: str = PROGRAM, *arguments: str, grace: float = 0.05) -> JobTree:
    return await JobTrees(kernel)(command, arguments, {"PATH": ""}, grace=grace)


async def ended(tree: JobTree) -> int:
    with anyio.fail_after(5):
        return await asyncio.shield(tree.exited)


class TestStart:
    async def test_a_server_runs_only_once_it_is_in_its_job(self) -> None:
        kernel = FakeKernel()
        tree = await started(kernel, PROGRAM, "a b")
        try:
            assert kernel.names == ["create_job", "limit_job", "create_process", "assign", "resume", "close"]
            program, line, *_, flags = kernel.given("create_process")
            assert (program, line) == (PROGRAM, f'{PROGRAM} "a b"')
            assert flags == SUSPENDED | NEW_PROCESS_GROUP
            assert kernel.given("close") == (3,)  # its thread; job and process are still needed
            assert (tree.pid, tree.guard, tree.returncode) == (PID, None, None)
        finally:
            await tree.kill()

    async def test_a_job_ends_with_us_and_lets_go_who_asks_for_it(self) -> None:
        kernel = FakeKernel()
        await (await started(kernel)).kill()
        assert kernel.given("limit_job") == (KILL_ON_JOB_CLOSE | BREAKAWAY_OK,)

    @pytest.mark.parametrize("call", ["create_job", "limit_job", "assign", "resume"])
    async def test_a_server_that_cannot_be_kept_in_a_job_is_not_run(self, call: str) -> None:
        kernel = FakeKernel(call)
        with pytest.raises(StartupError, match="job object") as refused:
            await started(kernel)
        assert refused.value.code == "job_object"
        assert (kernel.running, kernel.open) == (False, set())
        born = "create_process" in kernel.names
        assert [pipe.closed for pipe in kernel.pipes] == [born] * 3
        assert ("terminate_process" in kernel.names) == born

    @pytest.mark.parametrize("error", [OSError(193, "not a program"), ValueError("embedded null character")])
    async def test_a_command_that_cannot_be_run_leaves_no_job(self, error: Exception) -> None:
        kernel = FakeKernel("create_process", error=error)
        with pytest.raises(StartupError) as refused:
            await started(kernel)
        assert (refused.value.code, kernel.open) == ("cannot_execute", set())

    async def test_commands_and_folders_that_do_not_exist_are_told_apart(self, tmp_path: Path) -> None:
        kernel = FakeKernel()
        for command, folder, code in (
            ("no-such-command", None, "command_not_found"),
            ("./no-such-command", str(tmp_path), "command_not_found"),
            (PROGRAM, str(tmp_path / "none"), "bad_directory"),
        ):
            with pytest.raises(StartupError) as refused:
                await JobTrees(kernel)(command, (), {"PATH": str(tmp_path)}, folder)
            assert refused.value.code == code
        assert kernel.calls == []

    async def test_a_command_is_found_in_the_path_of_the_server_or_its_folder(self, tmp_path: Path) -> None:
        program = tmp_path / "tool.cmd"
        program.touch(0o755)
        for command, path, folder in (("tool.cmd", str(tmp_path), None), ("./tool.cmd", "", str(tmp_path))):
            kernel = FakeKernel()
            await (await JobTrees(kernel)(command, ("plain",), {"PATH": path}, folder)).kill()
            assert kernel.given("create_process")[0] == str(program)

    @pytest.mark.parametrize("argument", ['x" & calc', "%PATH%", "a&b", "a|b", "a>b", "a\nb"])
    async def test_arguments_that_a_batch_file_would_act_upon_are_refused(self, argument: str, tmp_path: Path) -> None:
        program = tmp_path / "tool.CMD"
        program.touch(0o755)
        kernel = FakeKernel()
        with pytest.raises(StartupError, match="batch file") as refused:
            await started(kernel, str(program), "plain", argument)
        assert refused.value.code == "cannot_execute"
        assert argument not in str(refused.value)
        assert kernel.calls == []


class TestEnd:
    async def test_a_server_that_exits_settles_with_its_status_and_nothing_is_left_open(self) -> None:
        kernel = FakeKernel()
        tree = await started(kernel)
        kernel.exit(7)
        assert await ended(tree) == tree.returncode == 7
        assert (kernel.open, kernel.killed) == (set(), 0)
        assert "send_break" not in kernel.names

    async def test_a_server_that_ends_with_its_input_is_neither_asked_nor_killed(self) -> None:
        kernel = FakeKernel()
        tree = await started(kernel, grace=5.0)
        asyncio.get_running_loop().call_later(0.02, kernel.exit)
        with anyio.fail_after(3):
            await tree.stop()
        assert (tree.returncode, kernel.killed, kernel.open) == (0, 0, set())
        assert "send_break" not in kernel.names

    async def test_a_stop_asks_after_the_grace(self) -> None:
        kernel = FakeKernel(heeds_break=True)
        tree = await started(kernel)
        began = time.monotonic()
        await tree.stop()
        assert kernel.when("send_break") - began >= 0.04
        assert kernel.given("send_break") == (PID,)
        assert (tree.returncode, kernel.killed, kernel.open) == (3, 0, set())

    @pytest.mark.parametrize("fails", [(), ("send_break",)])
    async def test_a_stop_kills_the_whole_tree_after_another_grace(self, fails: tuple[str, ...]) -> None:
        kernel = FakeKernel(*fails, helpers=2)
        tree = await started(kernel)
        await tree.stop()
        assert kernel.when("terminate_job") - kernel.when("send_break") >= 0.04
        assert (tree.returncode, kernel.killed, kernel.open) == (1, 3, set())

    async def test_a_kill_does_not_ask(self) -> None:
        kernel = FakeKernel(helpers=2, heeds_break=True)
        tree = await started(kernel, grace=5.0)
        with anyio.fail_after(3):
            await tree.kill()
        assert (tree.returncode, kernel.killed, kernel.open) == (1, 3, set())
        assert "send_break" not in kernel.names

    async def test_abandoning_a_tree_ends_it_without_waiting(self) -> None:
        kernel = FakeKernel(helpers=1)
        tree = await started(kernel)
        tree.abandon()
        assert kernel.killed == 2
        assert await ended(tree) == 1
        assert kernel.open == set()

    @pytest.mark.parametrize("meek", [True, False])
    async def test_a_server_behind_a_launcher_ends_with_it(self, meek: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(job_tree, "LEFTOVER_GRACE", 0.05)
        kernel = FakeKernel(helpers=2, meek=meek)
        tree = await started(kernel)
        kernel.exit(0)  # the launcher alone
        assert await ended(tree) == 0
        assert "send_break" in kernel.names
        assert (kernel.helpers, kernel.killed, kernel.open) == (0, 0 if meek else 2, set())

    async def test_a_tree_that_ended_has_no_handle_to_misuse(self) -> None:
        kernel = FakeKernel()
        tree = await started(kernel)
        kernel.exit()
        await ended(tree)
        before = len(kernel.calls)
        tree.abandon()
        await tree.stop()
        await tree.kill()
        assert len(kernel.calls) == before

    def test_handles_are_closed_though_the_loop_is_not_there_to_hear_of_the_end(self) -> None:
        kernel = FakeKernel()

        async def leave() -> None:
            await started(kernel)

        asyncio.run(leave())
        waiting = next(thread for thread in threading.enumerate() if thread.name == f"wait-{PID}")
        kernel.exit()
        waiting.join(5)
        assert kernel.open == set()


def test_only_windows_keeps_its_servers_in_job_objects() -> None:
    assert isinstance(start_tree, JobTrees) == (sys.platform == "win32")
