"""The stdio transport: a server as a process of ours, one JSON-RPC message a line.

Reading runs in callbacks of the event loop, so a call costs no task switch beyond its own. stderr is
always drained. The connection is over when stdout ends or the process does, whichever is noticed first.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio

from ....wire.messages.mcp import LaunchPlan
from ....wire.redaction import Redaction
from ..failures import ConnectionLost, UnwritableRequest
from .backlog import Backlog
from .dispatcher import NotificationSink, RawDispatcher
from .environment import child_environment
from .jsonrpc import RequestId
from .line_splitter import LineSplitter, LineTooLong
from .noise import Noise
from .process_record import ProcessRecords
from .process_tree import ProcessTree
from .stderr_log import StderrLog
from .system import WINDOWS, start_tree
from .tail import Tail

SETTLE = 0.2
"""Seconds between the end of stdout and the end of the process, or the other way round, before we stop waiting for
the second: the last answer may still be in the pipe, and the exit status belongs into the reason."""


class StdioConnection:
    """One running stdio server. Made by `open_stdio`."""

    def __init__(
        self,
        plan: LaunchPlan,
        process: ProcessTree,
        on_notification: NotificationSink,
        tail: Tail,
        log: StderrLog | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        self._splitter = LineSplitter()
        self._backlog = Backlog()
        self._noise = Noise(Redaction(plan.secrets))
        self._tail = tail
        self._log = log
        self._encoding = None if plan.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else plan.encoding
        self._encoding_errors = plan.encoding_errors
        self._stdin: asyncio.WriteTransport | None = None
        self._readers: list[asyncio.ReadTransport] = []
        self._settling: asyncio.TimerHandle | None = None
        self._stdout_ended = self._stdin_gone = False
        self._closed = False
        self._dispatcher = RawDispatcher(self, on_notification, encoding_errors=plan.encoding_errors)
        process.exited.add_done_callback(self._exited)

    async def connect(self) -> None:
        """Connects our ends of the three pipes to the event loop; where that fails, none of them stays with it.

        Raises:
            OSError: The system takes no more.
        """
        try:
            await self._connect()
        except BaseException:
            for reader in self._readers:
                reader.close()
            raise

    async def _connect(self) -> None:
        for pipe, read, ended in (
            (self._process.stderr, self._read_stderr, _nothing),
            (self._process.stdout, self._read_stdout, self._end_of_stdout),
        ):
            made = await self._loop.connect_read_pipe(lambda read=read, ended=ended: Reader(read, ended), pipe)  # type: ignore[misc]
            self._readers.append(made[0])
        stdin, _ = await self._loop.connect_write_pipe(lambda: Writer(self._stdin_lost), self._process.stdin)
        self._stdin = stdin

    # -- what the session sees ------------------------------------------------------------

    @property
    def dispatcher(self) -> RawDispatcher:
        return self._dispatcher

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def session_id(self) -> str | None:
        return None

    def renegotiate(self) -> None:
        pass

    def negotiated(self, protocol: str, *, modern: bool) -> None:
        pass

    def notes(self) -> tuple[str, ...]:
        return self._noise.notes()

    def stderr_tail(self) -> tuple[str, ...]:
        return self._tail.lines()

    async def close(self, *, gentle: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        self._dispatcher.close(ConnectionLost("the server is being stopped"))
        if self._stdin is not None:
            self._stdin.close()
        try:
            await (self._process.stop() if gentle else self._process.kill())
        finally:
            if not self._process.exited.done():
                self._process.abandon()
            for reader in self._readers:
                reader.close()
            if self._stdin is not None and not self._stdin_gone:
                self._stdin.abort()
            if self._settling is not None:
                self._settling.cancel()
            if self._log is not None:
                self._log.close()

    # -- outgoing -----------------------------------------------------------------------

    def send(self, message: bytes, request_id: RequestId | None, headers: Mapping[str, str]) -> None:
        if self._stdin is None or self._stdin.is_closing():
            if request_id is not None:
                self._dispatcher.fail(request_id, ConnectionLost("the server has closed its input", sent=False))
            return
        if self._encoding is not None:
            try:
                message = message.decode().encode(self._encoding, self._encoding_errors)
            except UnicodeError:
                if request_id is not None:
                    self._dispatcher.fail(request_id, UnwritableRequest(self._encoding))
                return
        unread = self._stdin.get_write_buffer_size()
        if request_id is None:
            if not self._backlog.admits_side(len(message), unread):
                return
        elif not self._backlog.admits_request(unread):
            self._dispatcher.fail(request_id, ConnectionLost("the server does not read its input", sent=False))
            return
        self._stdin.write(message + b"\n")

    def withdraw(self, request_id: RequestId) -> bool:
        return False

    # -- incoming -----------------------------------------------------------------------

    def _read_stdout(self, data: bytes) -> None:
        try:
            lines = self._splitter.feed(data)
        except LineTooLong as error:
            self._dispatcher.close(ConnectionLost(f"the server wrote {error}"))
            return
        for line in lines:
            text = line if self._encoding is None else self._transcoded(line)
            if not self._dispatcher.feed(text):
                self._noise.add(line)

    def _transcoded(self, line: bytes) -> bytes:
        assert self._encoding is not None
        try:
            return line.decode(self._encoding, self._encoding_errors).encode()
        except UnicodeError:
            return b""

    def _read_stderr(self, data: bytes) -> None:
        self._tail.feed(data)
        if self._log is not None:
            self._log.feed(data)

    # -- the end ------------------------------------------------------------------------

    def _end_of_stdout(self) -> None:
        self._stdout_ended = True
        self._ending()

    def _exited(self, _: asyncio.Future[int]) -> None:
        self._ending()

    def _stdin_lost(self) -> None:
        self._stdin_gone = True
        self._ending()

    def _ending(self) -> None:
        if self._process.exited.done() and self._stdout_ended:
            self._over()
        elif self._settling is None:
            self._settling = self._loop.call_later(SETTLE, self._over)

    def _over(self) -> None:
        self._dispatcher.close(ConnectionLost(describe_end(self._process.returncode)))


def describe_end(status: int | None) -> str:
    """Why a process is no longer of use, for people."""
    if status is None:
        return "the server closed its output"
    if status < 0:
        with suppress(ValueError):
            return f"the server was ended by {signal.Signals(-status).name}"
        return f"the server was ended by signal {-status}"
    return f"the server exited with status {status}"


def _nothing() -> None:
    pass


class Reader(asyncio.Protocol):
    """Passes on what a pipe yields."""

    def __init__(self, read: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._read, self._ended = read, ended

    def data_received(self, data: bytes) -> None:
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class Writer(asyncio.BaseProtocol):
    """Notices that nobody reads the pipe any more."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


async def open_stdio(
    plan: LaunchPlan,
    on_notification: NotificationSink,
    *,
    tail: Tail,
    log: StderrLog | None = None,
    records: ProcessRecords | None = None,
) -> StdioConnection:
    """Starts the server of a plan; it runs when this returns, and has said nothing yet.

    Args:
        tail: Takes its stderr; given from outside so that it survives a failed start.
    Raises:
        StartupError: The command cannot be run.
    """
    environment = child_environment(os.environ, plan.env, windows=WINDOWS)
    process = await start_tree(plan.command, plan.args, environment, plan.cwd)
    try:
        if records is not None and process.guard is not None:
            record = records.add(plan.bundle_id, process.guard, process.pid)
            process.exited.add_done_callback(lambda _: records.remove(record))
        connection = StdioConnection(plan, process, on_notification, tail, log)
        # It waits for some turns of the loop and for nobody else; given up half-way, pipes would close under the loop.
        with anyio.CancelScope(shield=True):
            await connection.connect()
    except BaseException:
        process.close_pipes()
        with anyio.CancelScope(shield=True):
            await process.kill()
        raise
    return connection
