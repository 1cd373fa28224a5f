"""Published MCP servers on the PATH of the test, as on the machine of a user who installed them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def published_commands(real_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the published servers are found by name."""
    monkeypatch.setenv("PATH", real_environment["PATH"])
