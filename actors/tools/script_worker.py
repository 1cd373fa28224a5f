"""Entry point of a process that runs scripts: `python -m smcp_runtime.actors.tools.script_worker PARENT`.

It answers one run after another on its pipes and ends when they close, or with its parent. The engine
keeps the interpreter to itself while a script runs, which is why this is a process and no thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

import msgspec

from . import vrl
from .script_run import READY, SIZE, ScriptAnswer, ScriptRun

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serves until there is nobody left to serve."""
    _die_with(int(sys.argv[1]))
    # An interrupt at the terminal is for the Computer, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runs, answers = sys.stdin.buffer, sys.stdout.buffer
    decode, encode = msgspec.msgpack.Decoder(ScriptRun).decode, msgspec.msgpack.encode
    answers.write(READY)
    answers.flush()
    while len(head := runs.read(SIZE.size)) == SIZE.size:
        answer = encode(_answer(decode(runs.read(SIZE.unpack(head)[0]))))
        answers.write(SIZE.pack(len(answer)) + answer)
        answers.flush()


def _answer(run: ScriptRun) -> ScriptAnswer:
    try:
        return ScriptAnswer(vrl.program(run.source).run(run.result, run.tool, run.parameters, run.inline))
    except (vrl.ScriptFailed, vrl.EngineMissing) as error:
        return ScriptAnswer(failure=type(error).__name__)


def _die_with(parent: int) -> None:
    """Ends this process when the one that started it is gone, even in the middle of a script."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except (OSError, struct.error):
        sys.exit(1)
