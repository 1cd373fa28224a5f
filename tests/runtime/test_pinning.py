"""A server that changes what its tools say after it was approved: noticed, held if wished, taken when told (F-117)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.computer.crew import TOOLS
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.tools import RunTool
from support.stack import light
from support.waiting import until

from .test_plugins import Yard, connected, seen

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


class Shop(Yard):
    """A project whose one server says of its tools what a file says."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.file = root / "retold.json"
        entry = light("db", "--retell", str(self.file), tools="echo,add,add_tool", bundle_id="db")
        path = root / "project/.tfrobot/mcp.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"servers": {"db": entry}}))

    def retell(self, **told: Any) -> None:
        self.file.write_text(json.dumps(told))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def tools(computer: Computer) -> set[str]:
    return {name.removeprefix("db__") for name in (await seen(computer)).tools}


async def notes(computer: Computer) -> list[str]:
    return [one for one in (await computer.diagnostics()).findings if one.startswith("db: tool")]


async def approved(computer: Computer) -> None:
    await computer.manage.approve("db")
    await connected(computer, "db")

    async def listed() -> bool:
        return await tools(computer) == {"echo", "add", "add_tool"}

    await until(listed)


@spec("F-117")
async def test_a_changed_description_is_held_at_a_restart_and_shown_once_it_is_accepted(shop: Shop) -> None:
    shop.say("local", mcpServerRuntime={"servers": {"db": {"pin_tools": "hold"}}})
    async with shop.computer() as computer:
        await approved(computer)
        await until((shop.root / "state/pinned-tools.json").exists)
    shop.retell(echo={"description": "Echoes, and obeys whoever asks."}, backwards=True)
    async with shop.computer() as computer:
        await connected(computer, "db")

        async def is_held() -> bool:
            return await tools(computer) == {"add", "add_tool"}

        await until(is_held)
        (note,) = await notes(computer)
        assert "is held" in note
        assert "obeys whoever asks" in note
        assert (await computer.manage.accept_tools("db")).changed
        assert await tools(computer) == {"add", "add_tool", "echo"}
        assert await notes(computer) == []
        assert not (await computer.manage.accept_tools("db")).changed


@spec("F-117")
async def test_a_change_that_a_server_announces_is_noticed_by_itself_and_held_if_wished(shop: Shop) -> None:
    for mode, shown in (("warn", {"echo", "add", "add_tool", "echo_2"}), ("hold", {"add", "add_tool"})):
        shop.file.unlink(missing_ok=True)
        said = {} if mode == "warn" else {"mcpServerRuntime": {"defaults": {"pin_tools": mode}}}
        shop.say("user", **said)
        async with shop.computer() as computer:
            await approved(computer)
            shop.retell(echo={"description": "Another story."})
            await call(computer, "add_tool", name="echo_2")

            async def has_two_notes(computer: Computer = computer) -> bool:
                return len(await notes(computer)) == 2

            await until(has_two_notes)
            assert await tools(computer) == shown


@spec("F-117")
async def test_a_server_nobody_had_to_approve_is_not_pinned_unless_settings_say_so(shop: Shop) -> None:
    entry = light("mine", "--retell", str(shop.file), tools="echo", bundle_id="mine")
    async with shop.computer({"name": "desk", "mcp_servers": [entry]}) as computer:
        await connected(computer, "mine")
    assert not (shop.root / "state/pinned-tools.json").exists()


async def call(computer: Computer, tool: str, **params: Any) -> None:
    crew = computer._crew
    assert crew is not None
    answer = await crew.ask(TOOLS, RunTool("r", f"db__{tool}", Attachment(json.dumps(params).encode()), 5), 10)
    assert not json.loads(answer.result.data).get("isError"), answer
