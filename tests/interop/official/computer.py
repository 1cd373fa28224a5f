"""The official Computer: ``computer.py URL OFFICE NAME SERVERS [FOLDER]``; SERVERS is a JSON list of server objects.

FOLDER is its home, a temporary one by default: ``a2c/settings.json`` in it are the settings of the user, and
``skills/user`` the user's skills. Joins, then does what it is told (`commands.py`).
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from a2c_smcp.computer.computer import Computer
from a2c_smcp.computer.socketio.client import SMCPComputerClient
from commands import obey, ready, say


async def main(url: str, office: str, name: str, servers: str, given: str = "") -> None:
    """Until stdin ends."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = given or temporary
        # Its own home and project, so that no file of the machine decides what it serves.
        home = {"HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder}
        computer = Computer(name=name, env=home, project_root=Path(folder), skill_home=Path(folder) / "skills")
        await computer.boot_up()
        for server in json.loads(servers):
            await computer.amount_server(server)
        client = SMCPComputerClient(computer=computer)
        await client.connect(url)
        await client.join_office(office)
        ready(tools=[tool["name"] for tool in await computer.aget_available_tools()])

        async def add(server: dict[str, Any]) -> None:
            await computer.amount_server(server)
            await client.emit_update_config()

        async def remove(bundle_id: str) -> None:
            await computer.aunmount_server_by_id(bundle_id)
            await client.emit_update_config()

        await obey(
            {
                "add": add,
                "remove": remove,
                "update_config": client.emit_update_config,
                "update_tool_list": client.emit_update_tool_list,
                "leave": lambda: client.leave_office(office),
            }
        )
        await client.disconnect()
        await computer.shutdown()
        say(event="stopped")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
