"""The live page in a real browser, over a whole stack with something going wrong in it."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import Undeliverable
from smcp_runtime.wire.messages.mcp import ListResources
from support.browser import Page, open_page
from support.stack import Stack, config, light, open_stack, options
from support.tree import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

TOKEN = "an-operator-token-of-some-length"
LIVE = "document.getElementById('connection')?.textContent === 'live'"
PICTURE = ROOT / "docs" / "ops-page.png"


@asynccontextmanager
async def watched(tmp_path: Path, token: str | None = None) -> AsyncIterator[tuple[Stack, Page, str]]:
    """A stack whose Computer has the operator endpoint, and a browser."""
    broken = {"name": "search", "type": "stdio", "server_parameters": {"command": "no-such-command", "args": []}}
    configuration = config(light("clock"), light("files"), broken, name="workshop")
    runtime = options(ops="127.0.0.1:0", ops_token=token, home=str(tmp_path), start_wait_s=1.0)
    async with open_stack(configuration, runtime=runtime) as stack:
        await stack.until_listed("clock__echo", "files__echo")
        url = stack.computer.operations.url
        assert url is not None
        async with open_page() as page:
            yield stack, page, url


async def rows(page: Page, table: str) -> list[list[str]]:
    """The cells of a table on the page."""
    script = f"[...document.querySelectorAll('#{table} tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    found: list[list[str]] = await page.value(script)
    return found


async def test_the_page_shows_calls_servers_actors_and_dead_letters_as_they_happen(tmp_path: Path) -> None:
    async with watched(tmp_path) as (stack, page, url):
        await page.go(url)
        await page.until(LIVE)

        for _ in range(5):
            assert await stack.text("clock__echo", text="x") == "x"
        await stack.call("no__such__tool")
        assert stack.computer.kill_actor("desktop")
        with pytest.raises(Undeliverable):
            await stack.computer._crew.ask(Address("mcp/gone"), ListResources(), 1.0)  # type: ignore[union-attr]

        await page.until("document.querySelector('#letters')?.textContent.includes('mcp/gone')")
        await page.until("document.querySelector('#calls')?.textContent.includes('unknown tool')")
        servers = {row[0]: row for row in await rows(page, "servers")}
        assert servers["clock"][1] == "ready"
        assert servers["search"][1].startswith("parked")
        assert "no-such-command" in servers["search"][-1]
        actors = {row[0]: row for row in await rows(page, "actors")}
        assert actors["tools"][1] == "up"
        assert actors["desktop"][8] == "1"
        assert [row[3] for row in await rows(page, "calls")] == ["unknown tool", *["ok"] * 5]
        assert {"RunTool", "CallTool"} <= {row[0] for row in await rows(page, "messages")}
        assert await page.value("document.getElementById('state').textContent") == "degraded"
        assert page.complaints == []


async def test_the_page_follows_the_computer_through_the_death_of_its_own_actor(tmp_path: Path) -> None:
    async with watched(tmp_path) as (stack, page, url):
        await page.go(url)
        await page.until(LIVE)
        assert stack.computer.kill_actor("ops")
        await page.until("document.getElementById('connection').textContent !== 'live'")
        await page.until(LIVE, timeout=30)
        actors = {row[0]: row for row in await rows(page, "actors")}
        assert actors["ops"][8] == "1"
        assert stack.computer.operations.url == url


async def test_names_that_hold_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    async with watched(tmp_path) as (stack, page, url):
        await page.go(url)
        await stack.call("<img src=x onerror=alert(1)>")
        await page.until("document.querySelector('#calls')?.textContent.includes('<img src=x')")
        assert await page.value("document.querySelectorAll('#calls img').length") == 0
        assert page.complaints == []


async def test_with_a_token_the_page_asks_for_it_and_then_shows_the_same(tmp_path: Path) -> None:
    async with watched(tmp_path, TOKEN) as (_, page, url):
        await page.go(url)
        await page.until("document.querySelector('input[type=password]') !== null")
        await page.value("document.querySelector('input').value = 'wrong'; document.querySelector('form').submit()")
        await page.until(
            "document.querySelector('input[type=password]') && document.querySelector('input').value === ''"
        )
        await page.value(f"document.querySelector('input').value = '{TOKEN}'; document.querySelector('form').submit()")
        await page.until(LIVE)
        assert await page.value("document.cookie") == ""
        assert TOKEN not in await page.value("location.href")


async def test_the_docs_hold_a_picture_of_the_page(tmp_path: Path) -> None:
    """Takes it anew each time; `SMCP_UPDATE_PICTURES=1` also puts it into the docs."""
    taken = tmp_path / "page.png"
    async with watched(tmp_path) as (stack, page, url), anyio.create_task_group() as load:

        async def call(tool: str, pause: float) -> None:
            while True:
                await stack.call(tool, text="x" * 400)
                await anyio.sleep(pause)

        await page.go(url)
        await page.until(LIVE)
        for tool, pause in (("clock__echo", 0.02), ("clock__echo", 0.05), ("files__echo", 0.04), ("files__find", 0.3)):
            load.start_soon(call, tool, pause)
        await page.until("moments.length >= 4", timeout=60)
        stack.computer.kill_actor("desktop")
        with pytest.raises(Undeliverable):
            await stack.computer._crew.ask(Address("mcp/gone"), ListResources(), 1.0)  # type: ignore[union-attr]
        await page.until("moments.length >= 12", timeout=60)
        await page.picture(taken, width=1440, height=1390)
        load.cancel_scope.cancel()
    if os.environ.get("SMCP_UPDATE_PICTURES"):
        PICTURE.write_bytes(taken.read_bytes())
    assert size_of(taken) == size_of(PICTURE) == (1440, 1390)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height in the header of a PNG file."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
