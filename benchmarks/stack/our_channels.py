"""Our Agent on the channels: ``our_channels.py URL OFFICE COMPUTER PLAN``, the last a JSON object. Prints figures."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from measure_channels import Peer, figures

from smcp_runtime.agent import AsyncAgent

ARGUMENTS = {"text": "x" * 180}


async def main(url: str, office: str, computer: str, plan: str) -> None:
    wanted = json.loads(plan)
    async with AsyncAgent(url, name="bench-agent", office=office, watch_tools=False) as agent:

        async def call(_: int) -> Any:
            result = await agent.tool_call(computer, "shelf_0__echo", ARGUMENTS, timeout=30)
            assert not result.is_error, result

        async def change(number: int) -> None:
            entry = {"uri": wanted["changed"], "contents": [{"text": f"changed {number} " + "x" * 500}]}
            await agent.tool_call(computer, "shelf_0__put", {"entry": entry}, timeout=30)

        async def desktop() -> int:
            return len(await agent.desktop(computer))

        async def skills() -> int:
            return len(await agent.skills(computer))

        async def read(at_once: int) -> int:
            file = await agent.skill(computer, "data", "blob.bin")
            assert file.blob_handle is not None
            return len((await agent.read_blob(computer, file.blob_handle, parallel=at_once)).data)

        async def send(data: bytes) -> Any:
            return await agent.upload(computer, data)

        # A Computer is ready before its servers are.
        while await desktop() < wanted["windows"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print(json.dumps(await figures(Peer(desktop, change, skills, read, send, call), wanted)))


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main(*sys.argv[1:5]))
    else:
        uvloop.run(main(*sys.argv[1:5]))
