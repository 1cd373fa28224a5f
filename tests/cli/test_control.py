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
async def test_a_door_leaves_nothing_behind_wherever_its_socket_had_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("s" * length)))
    computer: Any = SimpleNamespace(name=tmp_path.name)
    path = door(computer.name)
    async with open_door(computer):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()


async def test_a_door_stays_in_a_folder_that_others_still_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, two = (SimpleNamespace(name=name) for name in ("one", "two"))
    first: Any = one
    second: Any = two
    async with open_door(first):
        async with open_door(second):
            pass
        assert door("one").exists()
    assert not door("one").parent.exists()
