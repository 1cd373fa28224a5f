"""The official Agent: ``agent.py URL OFFICE NAME``. Joins, then does what it is told (`commands.py`)."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

from a2c_smcp.agent.auth import DefaultAgentAuthProvider
from a2c_smcp.agent.client import AsyncSMCPAgentClient
from commands import obey, ready, say

SMCP = "/smcp"


class Told:
    """Reports what the SDK tells an Agent."""

    async def on_computer_enter_office(self, data: Any, client: Any) -> None:
        say(event="enter_office", data=data)

    async def on_computer_leave_office(self, data: Any, client: Any) -> None:
        say(event="leave_office", data=data)

    async def on_computer_update_config(self, data: Any, client: Any) -> None:
        say(event="update_config", data=data)

    async def on_computer_update_tool_list(self, data: Any, client: Any) -> None:
        say(event="update_tool_list", data=data)

    async def on_tools_received(self, computer: str, tools: list[Any], client: Any) -> None:
        say(event="tools_received", computer=computer, tools=[tool["name"] for tool in tools])


async def main(url: str, office: str, name: str) -> None:
    """Until stdin ends."""
    auth = DefaultAgentAuthProvider(agent_id=name, office_id=office)
    client = AsyncSMCPAgentClient(auth_provider=auth, event_handler=Told())
    await client.connect_to_server(url)
    await client.join_office(office, name, namespace=SMCP)
    ready()
    await obey(
        {
            "tools": client.get_tools_from_computer,
            "call": client.emit_tool_call,
            "config": client.get_config_from_computer,
            "resources": client.get_resources,
            "room": client.get_computers_in_office,
            "leave": lambda: client.leave_office(office, namespace=SMCP),
            "raw": partial(client.call, namespace=SMCP),
        }
    )
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
