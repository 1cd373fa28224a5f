"""How a command runs: one event loop, one way from any error to an exit status, signals that end it cleanly."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import NoReturn

import anyio
import typer

from .exit_status import INTERNAL, SUCCESS, exit_status, root_error
from .log_setup import set_up_logging
from .open_question import QUESTION
from .output import Output, printing, silence_stdout


def perform(output: Output, work: Callable[[], Awaitable[int]], *, log_level: str = "WARNING") -> NoReturn:
    """Runs the work of a command in an event loop and ends the command with its status.

    Whatever it raises is shown once and becomes a status (R-CLI-1); a defect also shows its traceback on stderr.
    """
    try:
        set_up_logging(log_level)
        # A shell's background job starts with SIGINT ignored, and then nothing below would end it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # SIGTERM ends a command as SIGINT does, so that a call in flight is cancelled where it runs.
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        status = anyio.run(work, backend="asyncio", backend_options={"use_uvloop": _has_uvloop()})
    except BrokenPipeError as error:
        silence_stdout()
        status = exit_status(error)
    except (Exception, KeyboardInterrupt) as raised:
        status = _report(output, root_error(raised))
    raise typer.Exit(status)


def _report(output: Output, error: BaseException) -> int:
    status = exit_status(error)
    if status == INTERNAL:
        # Where, for whoever mends it; not the text of the error, which may quote anything.
        traceback.print_tb(error.__traceback__, file=sys.stderr)
    if not isinstance(error, KeyboardInterrupt):
        output.error(error)
    return status


@asynccontextmanager
async def stop_signal() -> AsyncIterator[anyio.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one ends the process without ceremony."""
    requested = anyio.Event()

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            listening.set()
            async for number in signals:
                if requested.is_set():
                    os._exit(128 + number)
                requested.set()

    listening = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await listening.wait()
        yield requested
        tasks.cancel_scope.cancel()


async def until_stopped(watch: Callable[[], Awaitable[object]]) -> int:
    """Goes on until a signal stops it, or it ends by itself; either is a good end, so the status is that of success."""
    async with stop_signal() as stop, anyio.create_task_group() as tasks:

        async def go_on() -> None:
            await watch()
            stop.set()

        tasks.start_soon(go_on)
        await stop.wait()
        tasks.cancel_scope.cancel()
    return SUCCESS


def ready(url: str) -> None:
    """The line that tells whoever started us that we serve now."""
    with printing(), QUESTION.aside() if sys.stdout.isatty() else nullcontext():
        print(f"ready url={url} pid={os.getpid()}", flush=True)


def _has_uvloop() -> bool:
    return importlib.util.find_spec("uvloop") is not None
