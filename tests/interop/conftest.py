"""The official SDK as peers of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.official import Official
from support.peers import Peers


@pytest.fixture
def official(official_python: Path, peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Official:
    """Starts official Servers, Computers and Agents; all of them end with the test."""
    return Official(official_python, peers, tmp_path_factory.mktemp("official"))
