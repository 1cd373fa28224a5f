"""Our Agent, measuring: ``our_agent.py URL OFFICE COMPUTER TOOL PLAN``, the last a JSON object. Prints the figures."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from measure import figures

from smcp_runtime.agent import AsyncAgent

ARGUMENTS = {"text": "x" * 180}


async def main(url: str, office: str, computer: str, tool: str, plan: str) -> None:
    async with AsyncAgent(url, name="bench-agent", office=office, watch_tools=False) as agent:

        async def call(number: int) -> Any:
            result = await agent.tool_call(computer, tool, ARGUMENTS, timeout=30)
            assert not result.is_error, result
            return result

        async def get_tools() -> int:
            return len((await agent.get_tools(computer)).tools)

        # A Computer is ready before its servers are: the first answer counts from when all of them are listed.
        wanted = json.loads(plan)["servers"]
        while len({listed.name.partition("__")[0] for listed in (await agent.get_tools(computer)).tools}) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        print(json.dumps(await figures(call, get_tools, json.loads(plan))))


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main(*sys.argv[1:6]))
    else:
        uvloop.run(main(*sys.argv[1:6]))
