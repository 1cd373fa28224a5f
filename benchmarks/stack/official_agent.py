"""The official Agent, measuring; runs inside the SDK's environment. Same words as ``our_agent.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from a2c_smcp.agent.auth import DefaultAgentAuthProvider
from a2c_smcp.agent.client import AsyncSMCPAgentClient
from measure import figures

ARGUMENTS = {"text": "x" * 180}


async def main(url: str, office: str, computer: str, tool: str, plan: str) -> None:
    auth = DefaultAgentAuthProvider(agent_id="bench-agent", office_id=office)
    client = AsyncSMCPAgentClient(auth_provider=auth)
    await client.connect_to_server(url)
    await client.join_office(office, "bench-agent", namespace="/smcp")

    async def call(number: int) -> Any:
        result = await client.emit_tool_call(computer, tool, ARGUMENTS, 30)
        assert not result.isError, result
        return result

    async def get_tools() -> int:
        return len((await client.get_tools_from_computer(computer))["tools"])

    print(json.dumps(await figures(call, get_tools, json.loads(plan))))
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
