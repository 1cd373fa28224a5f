"""VRL: a configured script looks at a tool result and leaves its own view of it beside the original.

The engine is an optional library, found when the first script needs it. A script that
fails at run time costs a warning, never the result (R-MCP-20, W-CALL-22).
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from ...wire.protocol import INLINE_BUDGET


class ScriptFailed(Exception):
    """A script did not run to its end. Carries no text of the engine: it quotes values."""


class EngineMissing(Exception):
    """No VRL engine is installed."""


def check_script(source: str) -> str | None:
    """What is wrong with a script, in the engine's words, or `None`. A blank script is none.

    Raises:
        EngineMissing: There is nothing to check it with (R-MCP-19).
    """
    if not source.strip():
        return None
    diagnosis = _engine().VRLRuntime.check_syntax(source)
    return None if diagnosis is None else "; ".join(diagnosis.messages) or "syntax error"


class Program:
    """One compiled script; may be run from any thread, one run at a time."""

    def __init__(self, source: str, zone: str) -> None:
        self._source = source
        self._runtime = _engine().VRLRuntime(zone)
        self._lock = threading.Lock()

    def run(self, result: bytes, tool: str, parameters: bytes, inline: int = INLINE_BUDGET) -> str:
        """The final event of a result as JSON text.

        Args:
            result: CallToolResult as JSON.
            tool: The tool's original name.
            parameters: Its arguments as a JSON object.
            inline: Bytes up to which a binary stays in the result (D-10).
        Raises:
            ScriptFailed: The script aborted, or left something that is no JSON.
        """
        event = event_of(result, tool, parameters, inline)
        try:
            with self._lock:
                final = self._runtime.execute(self._source, event).processed_event
            return msgspec.json.encode(final).decode()
        except Exception as error:
            raise ScriptFailed(type(error).__name__) from None


def attach(result: bytes, event: str) -> bytes:
    """The result with a final event in its metadata; everything else stays as it was."""
    members = _decode_members(result)
    meta = msgspec.json.decode(members["meta"]) if "meta" in members else {}
    members["meta"] = msgspec.Raw(msgspec.json.encode({**meta, "a2c_vrl_transformed": event}))
    return msgspec.json.encode(members)


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def event_of(result: bytes, tool: str, parameters: bytes, inline: int = INLINE_BUDGET) -> dict[str, Any]:
    """What a script sees: result, tool name and arguments; a binary that leaves the result is empty (W-CALL-23)."""
    event: dict[str, Any] = msgspec.json.decode(result)
    for item in event.get("content") or ():
        if isinstance(item, dict):
            _empty_large(item, "data", inline)
            _empty_large(item.get("resource"), "blob", inline)
    return {**event, "tool_name": tool, "parameters": msgspec.json.decode(parameters)}


@functools.lru_cache(maxsize=256)
def program(source: str) -> Program:
    """The compiled form of a script, kept for the next result."""
    return Program(source, local_zone())


def local_zone(environ: Mapping[str, str] = os.environ, link: str = "/etc/localtime") -> str:
    """IANA name of the local time zone, `UTC` when it cannot be told."""
    named = environ.get("TZ", "").removeprefix(":")
    _, found, linked = os.path.realpath(link).partition("/zoneinfo/")
    for name in (named, linked.removeprefix("posix/") if found else ""):
        if name and _is_zone(name):
            return name
    return "UTC"


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _empty_large(holder: Any, field: str, inline: int) -> None:
    value = holder.get(field) if isinstance(holder, dict) else None
    if isinstance(value, str) and _decoded_size(value) > inline:
        holder[field] = ""


def _decoded_size(text: str) -> int:
    """Bytes behind a base64 text, without decoding it."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def _engine() -> Any:
    try:
        return importlib.import_module("vrl_python")
    except ImportError:
        raise EngineMissing from None
