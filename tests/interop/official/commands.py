"""How a test steers an official peer: one JSON object a line, in both directions. Runs inside the SDK's environment.

A line on stdin, ``{"id": 1, "do": "tools", "with": {…}}``, is carried out beside all others and answered on stdout by
``{"id": 1, "result": …}`` or ``{"id": 1, "error": "…"}``; ``{"event": "…", …}`` reports what happened by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Commands = dict[str, Callable[..., Awaitable[Any]]]


def say(**message: Any) -> None:
    """One line on stdout."""
    print(json.dumps(message, default=_plain), flush=True)


def ready(**facts: Any) -> None:
    """The peer does what it was started for."""
    say(event="ready", pid=os.getpid(), **facts)


async def obey(commands: Commands) -> None:
    """Carries out commands until stdin ends."""
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    async for line in reader:
        task = asyncio.create_task(_carry_out(commands, json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _carry_out(commands: Commands, order: dict[str, Any]) -> None:
    try:
        result = await commands[order["do"]](**order.get("with", {}))
    except Exception as error:
        say(id=order["id"], error=f"{type(error).__name__}: {error}", code=getattr(error, "code", None))
    else:
        say(id=order["id"], result=result)


def _plain(value: Any) -> Any:
    """JSON data of the models that the SDK returns."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return str(value)
