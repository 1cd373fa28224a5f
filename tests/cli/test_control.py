"""The door of a running Computer: a private socket that is gone, with its folder, when it closes."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from smcp_runtime.cli.control import door, doors, managed, open_door
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import NetworkError
from support.stack import options
from support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("length", [1, 150])
async def test_a_door_leaves_nothing_behind_wherever_its_socket_had_to_be(tmp_path: Path, length: int) -> None:
    home = tmp_path / ("h" * length)
    computer: Any = SimpleNamespace(name=tmp_path.name, home=home)
    path = door(home, computer.name)
    assert (home in path.parents) is (length == 1)
    async with open_door(computer):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()


async def test_a_door_stays_in_a_folder_that_others_still_use(tmp_path: Path) -> None:
    first: Any = SimpleNamespace(name="one", home=tmp_path)
    second: Any = SimpleNamespace(name="two", home=tmp_path)
    async with open_door(first):
        async with open_door(second):
            pass
        assert door(tmp_path, "one").exists()
    assert not door(tmp_path, "one").parent.exists()


async def test_whoever_hangs_up_calls_the_operation_off(tmp_path: Path) -> None:
    """A Computer that fetches from a host which never answers is free again once the command was interrupted."""
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"git://127.0.0.1:{silent.getsockname()[1]}/acme.git"
    places = {name: str(tmp_path / name) for name in ("home", "user_config_dir", "state_dir", "project_root")}
    (tmp_path / "project_root").mkdir()
    computer = Computer.from_config({"name": "desk"}, options(**places, policy_source=str(tmp_path / "managed")))
    told: list[Any] = []
    with silent, anyio.fail_after(20):
        async with computer, open_door(computer):
            path = door(computer.home, "desk")
            async with anyio.create_task_group() as group:
                words = {"url": url, "trust": True}
                group.start_soon(managed, path, "marketplace.add", words, told.append)
                await until(lambda: bool(told))
                group.cancel_scope.cancel()
            assert await managed(path, "marketplace.list", {}) == []
            assert (await managed(path, "marketplace.prune", {}))["changed"] is False
            settings = tmp_path / "user_config_dir/settings.json"
            await until(lambda: "acme" not in settings.read_text())


@pytest.mark.parametrize("shape", ["open", "link"])
async def test_nothing_is_said_at_a_door_in_a_folder_that_is_not_ours_alone(tmp_path: Path, shape: str) -> None:
    """In the temporary directory anybody may have been there first, with a door of his own."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.close()

    path = door(tmp_path, "desk")
    real = tmp_path / "theirs"
    real.mkdir(mode=0o700)
    if shape == "link":
        path.parent.symlink_to(real)
    else:
        path.parent.mkdir(mode=0o755)
    server = await asyncio.start_unix_server(listen, path)
    async with server:
        with pytest.raises(NetworkError):
            await managed(path, "input.set", {"input_id": "token", "value": "s3cret"})
        assert await doors(tmp_path) == {}
    assert heard == []
