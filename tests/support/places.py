"""A user's places for one test: home and XDG directories of its own, so that no test reads or writes the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = {
    "HOME": ".",
    "XDG_DATA_HOME": "share",
    "XDG_CONFIG_HOME": "config",
    "XDG_STATE_HOME": "state",
    "A2C_SKILL_HOME": None,
}


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that is home for the test and for what it starts."""
    folder = tmp_path_factory.mktemp("home")
    for name, below in VARIABLES.items():
        if below is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(folder / below))
    return folder
