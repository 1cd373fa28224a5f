"""The door of a running Computer: a private socket that is gone, with its folder, when it closes."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smcp_runtime.cli.control import door, open_door

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
