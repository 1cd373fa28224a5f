"""A whole stack in one event loop: our Server, a Computer with real MCP servers, an Agent.

Each part can be had alone; `open_stack` gives all three, joined to one office.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio

from smcp_runtime import fixtures
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.agent import AsyncAgent, Notices
from smcp_runtime.runtime import Computer
from smcp_runtime.server.app import Running, serve
from smcp_runtime.server.options import ServerOptions
from smcp_runtime.wire.backoff import Backoff

from .servers import open_options
from .waiting import until

OFFICE = "lab"
QUICK = Backoff(initial=0.02, longest=0.2)


def options(**changes: Any) -> RuntimeOptions:
    """Options under which a test need not wait: short windows, quick returns."""
    quick = {
        "reconnect_backoff": QUICK,
        "coalesce_ms": 30.0,
        "coalesce_max_wait_ms": 200.0,
        "drain_timeout_s": 1.0,
        "reconnect_policy": {"initial_delay_ms": 50, "max_delay_ms": 500},
        "start_wait_s": 10.0,
    }
    return RuntimeOptions(**{**quick, **changes})


def light(name: str, *flags: str, tools: str = "echo", **more: Any) -> dict[str, Any]:
    """A server entry: the bare stdio server under this display name, all its tools allowed to run."""
    command, *arguments = fixtures.light_stdio("--tools", tools, *flags)
    return {
        "name": name,
        "type": "stdio",
        "server_parameters": {"command": command, "args": arguments},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }


def config(*servers: Mapping[str, Any], name: str = "desk", **more: Any) -> dict[str, Any]:
    """A configuration with these servers."""
    return {"name": name, "mcp_servers": list(servers), **more}


class Restartable:
    """A Server of ours that can go away and come back on the same port."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self._options = options or open_options()
        self._stack = AsyncExitStack()
        self.running: Running | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens."""
        self.running = await self._stack.enter_async_context(serve(port=self.port, options=self._options))
        self.port = self.running.port

    async def stop(self) -> None:
        """Drops everybody and stops listening."""
        self.running = None
        await self._stack.aclose()

    async def __aenter__(self) -> Restartable:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class Stack:
    """Server, Computer and Agent of one office."""

    def __init__(self, server: Restartable, computer: Computer, agent: AsyncAgent) -> None:
        self.server, self.computer, self.agent = server, computer, agent

    async def names(self) -> list[str]:
        """Exposed tool names, as the Agent gets them."""
        return [tool.name for tool in (await self.agent.get_tools(self.computer.name)).tools]

    async def call(self, tool: str, timeout: int = 10, **arguments: Any) -> Any:
        """One tool call of the Agent."""
        return await self.agent.tool_call(self.computer.name, tool, arguments, timeout=timeout)

    async def text(self, tool: str, timeout: int = 10, **arguments: Any) -> str:
        """The text of the first item of a call that must succeed."""
        result = await self.call(tool, timeout, **arguments)
        assert not result.is_error, result
        return str(result.content[0]["text"])

    async def until_listed(self, *tools: str, gone: Sequence[str] = (), timeout: float = 10.0) -> None:
        """Waits until the Agent can see these tools, and none of `gone`."""
        with anyio.fail_after(timeout):
            while True:
                names = await self.names()
                if set(tools) <= set(names) and not set(gone) & set(names):
                    return
                await anyio.sleep(0.02)

    async def until_serving(self, *bundle_ids: str, timeout: float = 10.0) -> None:
        """Waits until the Agent can see tools of each of these servers; being connected comes a moment earlier."""

        async def serving() -> bool:
            return set(bundle_ids) <= {tool.bundle_id for tool in (await self.agent.get_tools("desk")).tools}

        await until(serving, timeout)

    async def until_connected(self, *bundle_ids: str, timeout: float = 10.0) -> None:
        """Waits until the Computer's diagnostics show these servers as connected."""
        with anyio.fail_after(timeout):
            while True:
                known = (await self.computer.diagnostics()).servers
                if set(bundle_ids) <= {server.bundle_id for server in known if server.connection == "connected"}:
                    return
                await anyio.sleep(0.02)

    async def hear(self, notices: Notices, *events: str, timeout: float = 5.0) -> list[str]:
        """Waits until each of these events was told; returns all that were, in order."""
        heard: list[str] = []
        with anyio.fail_after(timeout):
            async for notice in notices:
                heard.append(notice.event)
                if set(events) <= set(heard):
                    break
        return heard

    async def until(self, condition: Any, timeout: float = 10.0) -> None:
        """Waits until something holds."""
        await until(condition, timeout)


@asynccontextmanager
async def open_stack(
    configuration: Mapping[str, Any], *, runtime: RuntimeOptions | None = None, server: ServerOptions | None = None
) -> AsyncIterator[Stack]:
    """All three, joined to `OFFICE`."""
    async with AsyncExitStack() as stack:
        restartable = await stack.enter_async_context(Restartable(server))
        computer = Computer.from_config(configuration, runtime or options())
        await stack.enter_async_context(computer)
        await computer.connect(restartable.url, office=OFFICE)
        agent = AsyncAgent(restartable.url, name="planner", office=OFFICE, backoff=QUICK)
        await stack.enter_async_context(agent)
        yield Stack(restartable, computer, agent)


PYTHON = sys.executable
