"""`smcp` in this process: a hundred commands cost less than ten interpreters that start. For tests that are not async.

What a process would have to itself is given to the command and taken back: words, environment, directory, standard
streams, signal handlers and the root logger.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from smcp_runtime.cli.main import main


class Ran(NamedTuple):
    """How a command ended, and the lines it printed on stdout and stderr."""

    status: int
    lines: list[str]
    errors: list[str]


def smcp(*words: str, environ: Mapping[str, str], cwd: Path, typed: str = "") -> Ran:
    """Runs one command with `typed` piped into it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, _own_handlers():
        for name in os.environ.keys() - environ.keys():
            patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["smcp", *words])
        patch.setattr(sys, "stdin", io.StringIO(typed))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    printed = (stream.buffer.getvalue().decode().splitlines() for stream in (out, err))  # type: ignore[attr-defined]
    return Ran(status, *printed)


@contextmanager
def _own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, former in signals.items():
            signal.signal(number, former)
        root.handlers[:] = handlers
        root.setLevel(level)
