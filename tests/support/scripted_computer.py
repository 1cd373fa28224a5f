"""A Computer whose every answer the test writes: python-socketio's client, joined to an office over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import socketio

NAMESPACE = "/smcp"


def tool(name: str, bundle_id: str = "demo", **fields: Any) -> dict[str, Any]:
    """A tool as a Computer lists it."""
    return {
        "name": f"{bundle_id}__{name}",
        "bundle_id": bundle_id,
        "description": f"does {name}",
        "params_schema": {"type": "object"},
        "return_schema": None,
    } | fields


class ScriptedComputer:
    """Joins on entry: ``async with ScriptedComputer(url, "pc", "office") as computer``.

    Attributes:
        tools: What it lists.
        answers: What to acknowledge an event with, by event name: a function of the request (may be async). By
            default it lists `tools`, echoes the parameters of a call, and knows nothing else.
        received: Requests in order, as (event, payload).
        cancelled: Ids of calls somebody cancelled.
    """

    def __init__(self, url: str, name: str, office: str, *, auth: Any = None) -> None:
        self.url, self.name, self.office, self._auth = url, name, office, auth
        self.tools: list[dict[str, Any]] = [tool("echo")]
        self.answers: dict[str, Callable[[Any], Any]] = {
            "client:get_tools": lambda request: {"tools": self.tools, "req_id": request["req_id"]},
            "client:tool_call": lambda request: {
                "content": [{"type": "text", "text": str(request["params"])}],
                "isError": False,
            },
        }
        self.received: list[tuple[str, Any]] = []
        self.cancelled: list[str] = []
        self._news = asyncio.Event()
        self.sio = socketio.AsyncClient(reconnection=False, handle_sigint=False)
        self.sio.on("*", self._event, namespace=NAMESPACE)
        self.sio.on("notify:tool_call_cancel", self._cancel, namespace=NAMESPACE)

    async def __aenter__(self) -> ScriptedComputer:
        await self.sio.connect(f"{self.url}?a2c_version=0.4.0", namespaces=[NAMESPACE], auth=self._auth, wait_timeout=5)
        joined = await self.sio.call(
            "server:join_office",
            {"role": "computer", "name": self.name, "office_id": self.office},
            namespace=NAMESPACE,
            timeout=5,
        )
        assert joined[0] is True, joined
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.sio.disconnect()

    async def update(self, what: str) -> None:
        """Announces a change: `tool_list`, `config`, `desktop`, `skills`, `finder`."""
        await self.sio.emit(f"server:update_{what}", {"computer": self.name}, namespace=NAMESPACE)

    def vanish(self) -> None:
        """Loses its connection without a word."""
        self.sio.eio.ws._response.connection.transport.abort()

    def requests(self, event: str) -> list[Any]:
        """Payloads of the requests of one event."""
        return [payload for name, payload in self.received if name == event]

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Waits until a condition about this Computer holds."""
        with anyio.fail_after(seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def _cancel(self, payload: Any) -> None:
        self.cancelled.append(payload["req_id"])
        self._news.set()

    async def _event(self, event: str, payload: Any = None) -> Any:
        if not event.startswith("client:"):
            return None
        self.received.append((event, payload))
        self._news.set()
        answer = self.answers.get(event)
        answered = None if answer is None else answer(payload)
        return await answered if asyncio.iscoroutine(answered) else answered
