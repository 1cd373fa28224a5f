"""The official Agent on the channels; runs inside the SDK's environment. Same words as ``our_channels.py``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from a2c_smcp.agent.auth import DefaultAgentAuthProvider
from a2c_smcp.agent.client import AsyncSMCPAgentClient
from a2c_smcp.utils.blob import drain_blob
from measure_channels import Peer, figures

ARGUMENTS = {"text": "x" * 180}


async def main(url: str, office: str, computer: str, plan: str) -> None:
    wanted = json.loads(plan)
    client = AsyncSMCPAgentClient(auth_provider=DefaultAgentAuthProvider(agent_id="bench-agent", office_id=office))
    await client.connect_to_server(url)
    await client.join_office(office, "bench-agent", namespace="/smcp")

    async def call(_: int) -> None:
        result = await client.emit_tool_call(computer, "shelf_0__echo", ARGUMENTS, 30)
        assert not result.isError, result

    async def change(number: int) -> None:
        entry = {"uri": wanted["changed"], "contents": [{"text": f"changed {number} " + "x" * 500}]}
        await client.emit_tool_call(computer, "shelf_0__put", {"entry": entry}, 30)

    async def desktop() -> int:
        return len((await client.get_desktop_from_computer(computer))["desktops"])

    async def skills() -> int:
        return len((await client.get_skills(computer))["skills"])

    async def read(at_once: int) -> int:
        file = await client.get_skill(computer, "data", "blob.bin")
        data, _ = await drain_blob(client._make_blob_call(), computer, file["blob_handle"], concurrency=at_once)
        return len(data)

    async def send(data: bytes) -> Any:
        return await client.put_blob(computer, data)

    print(json.dumps(await figures(Peer(desktop, change, skills, read, send, call), wanted)))
    await client.disconnect()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
