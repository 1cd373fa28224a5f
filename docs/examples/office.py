"""An office to try things in: a Server, a Computer with the sample MCP server, and an Agent, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.fixtures import sample
from smcp_runtime.runtime import Computer
from smcp_runtime.server.app import serve
from smcp_runtime.server.auth import ANONYMOUS
from smcp_runtime.server.options import ServerOptions

OFFICE = "example-office"


@asynccontextmanager
async def office() -> AsyncIterator[AsyncAgent]:
    """An Agent that sees the sample tools."""
    async with office_without_agent() as url, AsyncAgent(url, name="assistant", office=OFFICE) as agent:
        await tool_appears(agent, "sample__add")
        yield agent


@asynccontextmanager
async def office_without_agent() -> AsyncIterator[str]:
    """The URL of a Server whose office has a Computer."""
    command, *arguments = sample()
    servers = {
        "sample": {
            "type": "stdio",
            "command": command,
            "args": arguments,
            # Without this the Computer asks somebody before it runs a tool.
            "default_tool_meta": {"auto_apply": True},
        }
    }
    config = {"name": "workstation", "servers": servers}
    async with serve(options=ServerOptions(auth=ANONYMOUS)) as server, Computer.from_config(config) as computer:
        await computer.connect(server.url, office=OFFICE)
        yield server.url


async def tool_appears(agent: AsyncAgent, name: str) -> None:
    """Waits until some Computer offers a tool: an MCP server may still be starting when its Computer joins."""
    async with agent.notifications() as notices:
        while not (await agent.wait_tools()).find(name):
            await anext(notices)
