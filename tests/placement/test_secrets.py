"""What a worker is given crosses the bus alone, and a worker keeps nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.authorization_server import protected
from support.peers import Peers
from support.placed import open_placed
from support.stack import light
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

SECRET = "s3cret-of-the-input"


def written_below(*roots: Path) -> Iterator[tuple[Path, bytes]]:
    for root in roots:
        for path in root.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()


@pytest.mark.spec("R-SEC-12", "R-INPUT-23", "DEC-8")
@pytest.mark.parametrize("placement", ["process", "external"])
async def test_a_rendered_secret_is_in_no_argument_variable_or_file_of_worker_and_launcher(
    placement: str, peers: Peers, own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = light("one", tools="env,echo")
    server["server_parameters"]["env"] = {"TOKEN": "${input:token}"}
    monkeypatch.setenv("SESSION_COOKIE", "of-the-computer")
    token = {"type": "promptString", "id": "token", "description": "A token", "password": True}
    providers = [lambda request: SECRET]
    async with open_placed(placement, peers, server, inputs=[token], secret_providers=providers) as placed:
        await placed.stack.until_listed("one__env", timeout=30)
        assert "s3cret" in await placed.stack.text("one__env", name="TOKEN")
        host = await placed.worker("one")
        launcher = psutil.Process(await placed.pid("one")).parent()
        assert launcher is not None
        assert not any(SECRET in word for process in (host, launcher) for word in process.cmdline())
        if placement == "process":
            assert SECRET not in str(host.environ())
            assert "SESSION_COOKIE" not in host.environ()
        assert SECRET not in str(launcher.environ())
        bus = [Path(placed.endpoint.removeprefix("ipc://")).parent] if placed.endpoint else []
        for path, text in written_below(own_places, *bus):
            assert SECRET.encode() not in text, path
        assert SECRET not in str(await placed.stack.computer.operations.view())


@pytest.mark.spec("R-MCP-25")
async def test_a_worker_gets_authorizations_from_the_computer_and_has_renewed_ones_kept_there(
    peers: Peers, own_places: Path
) -> None:
    async with protected() as world:
        server: dict[str, Any] = {
            "name": "web",
            "type": "streamable",
            "server_parameters": {"url": world.url},
            "default_tool_meta": {"auto_apply": True},
        }
        changes = {"browser": world.browse, "token_store": "memory"}
        async with open_placed("process", peers, server, **changes) as placed:
            stack = placed.stack

            async def waits() -> bool:
                (status,) = (await stack.computer.diagnostics()).servers
                return status.connection == "authorization_required"

            await until(waits, 20)
            await stack.computer.manage.authorize("web")
            await stack.until_listed("web__echo")
            assert await stack.text("web__echo", text="authorized") == "authorized"
            world.tokens.clear()
            assert await stack.text("web__echo", text="renewed by the worker") == "renewed by the worker"
            assert stack.computer.kill_actor("mcp/web")
            await until(lambda: _serves(stack), 20)
            assert len(world.pages) == 1
            for path, text in written_below(own_places):
                assert b"access-" not in text, path
                assert b"refresh-" not in text, path


async def _serves(stack: Any) -> bool:
    result = await stack.call("web__echo", text="by the next worker")
    return not result.is_error
