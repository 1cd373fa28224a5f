"""A headless Chromium, driven over its DevTools protocol: open a page, wait for what it shows, take its picture."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from .waiting import until

COMMANDS = ("chromium", "chromium-browser", "google-chrome")
START_LIMIT = 40.0
MESSAGE_MAX = 64 * 1024 * 1024


def executable() -> str:
    """The browser's command; without one the test fails, it does not skip."""
    found = next((path for name in COMMANDS if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("no Chromium here: install it, on Debian with `apt-get install chromium` (see docs/testing.md)")
    return found


class Page:
    """One tab.

    Attributes:
        complaints: What the page's console and the browser reported as errors.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def go(self, url: str) -> None:
        """Opens a URL; what it loads comes when it comes."""
        answer = await self.send("Page.navigate", url=url)
        assert "errorText" not in answer, answer

    async def value(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, expression: str, timeout: float = 20.0) -> None:
        """Waits until a JavaScript expression is true."""

        async def holds() -> bool:
            return bool(await self.value(expression))

        await until(holds, timeout)

    async def picture(self, file: Path, *, width: int, height: int, dark: bool = False) -> None:
        """Stores what it looks like in a window of this size."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=scheme)
        shot = await self.send("Page.captureScreenshot", format="png")
        await anyio.Path(file).write_bytes(base64.b64decode(shot["data"]))

    async def send(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol."""
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        with anyio.fail_after(20):
            return await answer

    async def listen(self) -> None:
        """Takes in what the browser says."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                waiting = self._waiting.pop(said["id"])
                if not waiting.done():
                    waiting.set_result(said.get("result", said.get("error")))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.complaints.append(said["params"]["entry"]["text"])
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(said["params"]["exceptionDetails"])[:500])


@asynccontextmanager
async def open_page() -> AsyncIterator[Page]:
    """An empty tab of a browser of its own, which ends with the context."""
    with tempfile.TemporaryDirectory(prefix="smcp-browser-", ignore_cleanup_errors=True) as profile:
        command = [
            executable(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--remote-debugging-port=0",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        # A group of its own, since the browser is many processes.
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        try:
            port = Path(profile) / "DevToolsActivePort"
            await until(lambda: port.exists() and port.read_text().count("\n") >= 1, START_LIMIT)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port.read_text().splitlines()[0]}/json/list") as answer:
                    tab = next(target for target in await answer.json() if target["type"] == "page")
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=MESSAGE_MAX) as socket:
                    page = Page(socket)
                    listening = asyncio.create_task(page.listen())
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send(f"{domain}.enable")
                    try:
                        yield page
                    finally:
                        listening.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                _end(process.pid)
                await process.wait()


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, 9)
