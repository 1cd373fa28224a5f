"""One simulated schedule: where its chance comes from, what happened, and what must not have.

Everything random in a run is drawn from its seed, the order in which trio runs tasks and the jitter
of the code under test included, so equal seeds give equal traces.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import trio
import trio.testing

T = TypeVar("T")


class Broken(AssertionError):
    """Something that must hold did not. `trace` says what led to it."""

    def __init__(self, what: str, trace: Sequence[str]) -> None:
        super().__init__(what)
        self.trace = tuple(trace)


class Play:
    """One run of a world.

    Args:
        now: The clock that the trace shows; a world that moves its own passes it.
    """

    def __init__(self, seed: int, now: Callable[[], float] | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.trace: list[str] = []
        self.broken: Broken | None = None
        self.now: Callable[[], float] = now or anyio.current_time

    def note(self, text: str) -> None:
        """Adds a line to the trace."""
        self.trace.append(f"{self.now():10.4f}  {text}")

    def claim(self, holds: object, what: str) -> None:
        """Ends the run when something does not hold."""
        if not holds:
            broken = Broken(f"{what} (at {self.now():.4f} s)", self.trace)
            # Kept too, since an actor that raises it has only failed as far as its supervisor is concerned.
            self.broken = self.broken or broken
            raise broken

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.random.random() < probability

    def pick(self, *choices: T) -> T:
        """One of these."""
        return self.random.choice(choices)

    def span(self, shortest: float, longest: float) -> float:
        """A duration; short ones are as likely as long ones, whatever the order of magnitude."""
        return float(shortest * (longest / shortest) ** self.random.random())


World = Callable[[Play], None]
"""Runs one schedule; raises `Broken`."""


def on_trio(main: Callable[[Play], Awaitable[Any]]) -> World:
    """A world that runs on trio's virtual clock: time jumps to the next deadline as soon as nothing else can happen."""

    def world(play: Play) -> None:
        core = trio._core._run
        # Private, and the only way to repeat an order of tasks; pytest-trio and Hypothesis reach for the same two.
        core._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
        core._r.seed(play.seed)
        try:
            trio.run(main, play, clock=trio.testing.MockClock(autojump_threshold=0))
        except BaseExceptionGroup as group:
            raise _first(group) from group
        finally:
            core._ALLOW_DETERMINISTIC_SCHEDULING = False  # type: ignore[misc]

    return world


def perform(world: World, seed: int) -> Play:
    """Runs one schedule to its end.

    Raises:
        Broken: It broke a claim, or crashed.
    """
    play = Play(seed, lambda: 0.0)
    play.now = _now
    state = random.getstate()
    random.seed(seed)
    logging.disable(logging.CRITICAL)  # thousands of actors die here, and each death is logged
    try:
        world(play)
    except Exception as error:
        if play.broken is None:
            raise Broken(f"{type(error).__name__}: {error}", play.trace) from error
    finally:
        random.setstate(state)
        logging.disable(logging.NOTSET)
    if play.broken is not None:
        raise play.broken
    return play


def _now() -> float:
    try:
        return anyio.current_time()
    except anyio.NoEventLoopError:
        return 0.0


def _first(error: BaseException) -> BaseException:
    """The first broken claim inside task-group wrappers, else the first error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_first(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, Broken)), leaves[0])
