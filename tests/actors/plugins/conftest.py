"""A home, and a place that is none of its business."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.marketplaces import write
from support.plugin_home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the home that nobody may touch."""
    return write(tmp_path / "outside", {"secret.txt": "do not read", "skills/x/SKILL.md": "---\ndescription: x\n---\n"})
