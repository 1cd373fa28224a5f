"""The official Agent: ``agent.py URL OFFICE NAME``. Joins, then does what it is told (`commands.py`)."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from a2c_smcp.agent.auth import DefaultAgentAuthProvider
from a2c_smcp.agent.client import AsyncSMCPAgentClient
from a2c_smcp.utils.blob import drain_blob
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

    async def on_skills_received(self, computer: str, skills: list[Any], client: Any) -> None:
        say(event="skills_received", computer=computer, skills=[skill["name"] for skill in skills])

    async def on_tools_received(self, computer: str, tools: list[Any], client: Any) -> None:
        say(event="tools_received", computer=computer, tools=[tool["name"] for tool in tools])


async def main(url: str, office: str, name: str) -> None:
    """Until stdin ends."""
    auth = DefaultAgentAuthProvider(agent_id=name, office_id=office)
    client = AsyncSMCPAgentClient(auth_provider=auth, event_handler=Told())
    await client.connect_to_server(url)
    await client.join_office(office, name, namespace=SMCP)
    ready()

    async def fetch(computer: str, handle: str, at_once: int = 1) -> dict[str, Any]:
        data, mime_type = await drain_blob(client._make_blob_call(), computer, handle, concurrency=at_once)
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mime_type": mime_type}

    async def put(computer: str, path: str, name_hint: str | None = None) -> dict[str, Any]:
        data = await asyncio.to_thread(Path(path).read_bytes)
        done = await client.put_blob(computer, data, name_hint=name_hint)
        return {"landing_path": done.landing_path, "total_size": done.total_size, "sha256": done.sha256}

    await obey(
        {
            "tools": client.get_tools_from_computer,
            "call": client.emit_tool_call,
            "config": client.get_config_from_computer,
            "resources": client.get_resources,
            "room": client.get_computers_in_office,
            "desktop": client.get_desktop_from_computer,
            "skills": client.get_skills,
            "skill": client.get_skill,
            "fetch": fetch,
            "put": put,
            "leave": lambda: client.leave_office(office, namespace=SMCP),
            "raw": partial(client.call, namespace=SMCP),
        }
    )
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
