"""The examples of the documentation run as they stand, without a key."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.peers import Peers

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "anthropic_messages", "plain"])
def test_an_example_prints_the_models_answer_and_ends(peers: Peers, name: str) -> None:
    example = peers.start([sys.executable, EXAMPLES / f"{name}.py"])
    assert example.wait_exit(timeout=50) == 0
    assert example.lines[-1] == "The sum is 42.0."
    assert example.errors == []
