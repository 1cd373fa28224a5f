"""Plays schedules from the command line, at the root of the repository.

python -m tests.sim --seed N                     one schedule of every world; a broken one is shown in full
python -m tests.sim --world kernel --seed N      one schedule of one world, shown in full
python -m tests.sim --seeds 0:100000             many, for a night
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from .play import Broken, perform
from .worlds import WORLDS, failures, replay


def show(name: str, seed: int, *, in_full: bool) -> bool:
    """Plays one schedule; whether it broke."""
    try:
        play = perform(WORLDS[name], seed)
    except Broken as broken:
        print(*broken.trace, sep="\n")
        print(f"{name} {seed}: BROKEN: {broken}")
        return True
    if in_full:
        print(*play.trace, sep="\n")
    print(f"{name} {seed}: holds")
    return False


def search(name: str, seeds: range, most: int) -> bool:
    """Plays many schedules; whether one of them broke."""
    began = time.monotonic()
    broken = list(itertools.islice(failures(name, seeds), most))
    for seed, error in broken:
        print(f"{error}\n    {replay(name, seed)}")
    print(f"{name}: {len(seeds)} schedules in {time.monotonic() - began:.1f} s, {len(broken)} broken")
    return bool(broken)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Plays simulated failure schedules.")
    parser.add_argument("--world", choices=[*WORLDS, "all"], default="all")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="the one schedule to play")
    which.add_argument("--seeds", help="FIRST:END, many schedules")
    words = parser.parse_args()
    names = list(WORLDS) if words.world == "all" else [words.world]
    if words.seeds is None:
        broke = [show(name, words.seed, in_full=len(names) == 1) for name in names]
    else:
        first, _, end = words.seeds.partition(":")
        broke = [search(name, range(int(first), int(end)), most=10) for name in names]
    sys.exit(any(broke))


if __name__ == "__main__":
    main()
