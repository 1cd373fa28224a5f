"""All worlds by name, and how many schedules of each a test run plays."""

from __future__ import annotations

from collections.abc import Iterator

from .health import health
from .kernel import kernel
from .line import line
from .play import Broken, World, perform
from .reconcile import reconcile
from .server import server
from .supervision import supervision

WORLDS: dict[str, World] = {
    "kernel": kernel,
    "supervision": supervision,
    "line": line,
    "server": server,
    "health": health,
    "reconcile": reconcile,
}
SEEDS = {"kernel": 750, "supervision": 750, "line": 750, "server": 5000, "health": 2000, "reconcile": 750}
"""10,000 altogether."""


def failures(name: str, seeds: range) -> Iterator[tuple[int, Broken]]:
    """The seeds of a world that break a claim."""
    for seed in seeds:
        try:
            perform(WORLDS[name], seed)
        except Broken as broken:
            yield seed, broken


def replay(name: str, seed: int) -> str:
    """The command that plays one schedule again and shows what happens in it."""
    return f"python -m tests.sim --world {name} --seed {seed}"
