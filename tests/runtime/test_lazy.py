"""A server that becomes lazy, and stops being so, while its Computer runs (F-68)."""

from __future__ import annotations

from pathlib import Path

import pytest

from smcp_runtime.runtime import Computer
from support.stack import light
from support.waiting import until

from .test_plugins import Yard, connected, seen

pytestmark = pytest.mark.anyio


async def idles(computer: Computer) -> None:
    async def does() -> bool:
        return [one.reason for one in (await computer.diagnostics()).servers] == ["idle"]

    await until(does, 10.0)


@pytest.mark.spec("F-68")
async def test_settings_make_a_server_lazy_and_take_that_back(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    async with yard.computer({"name": "desk", "mcp_servers": [light("db", tools="echo")]}) as computer:
        await connected(computer, "db")
        yard.say("user", mcpServerRuntime={"servers": {"db": {"lazy": True, "idle_stop_secs": 0.2}}})
        await computer.manage.reload()
        await idles(computer)
        assert (await seen(computer)).tools == {"smcp_call_tool", "smcp_describe_tool", "smcp_search_tools"}
        yard.say("user")
        await computer.manage.reload()
        await connected(computer, "db")
        assert (await seen(computer)).tools == {"db__echo"}
