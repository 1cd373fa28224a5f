"""What goes to a process that runs scripts, and what comes back: frames of a size and msgpack."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

SIZE: Final = struct.Struct(">I")
READY: Final = b"ready\n"


class ScriptRun(msgspec.Struct, frozen=True):
    """One run: a script, and the result it looks at; see `vrl.Program.run`."""

    source: str
    result: bytes
    tool: str
    parameters: bytes
    inline: int


class ScriptAnswer(msgspec.Struct, frozen=True):
    """The final event as JSON text, or the name of why there is none."""

    event: str = ""
    failure: str | None = None
