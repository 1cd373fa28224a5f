"""Eight processes write one file, killed at random: it is always valid, and no finished change is lost (F-112)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.files.intent import read_intent

spec = pytest.mark.spec

WRITER = """
import sys
from itertools import islice
from pathlib import Path
from smcp_runtime.actors.reconcile.files.intent import change_intent
from smcp_runtime.wire.errors import ConflictError

path, name, first, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for number in range(first, last):
    while True:
        try:
            change_intent(path, "settings", lambda tree: {"done": {name: number}, "count": tree.get("count", 0) + 1})
            break
        except ConflictError:
            continue
    print(number, flush=True)
"""
PROCESSES, CHANGES, KILLS = 8, 200, 16


class Writer:
    """One writer, and the number of the last change it reported; its process is replaced when it is killed."""

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.name, self.reported = file, name, -1
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", WRITER, str(self.file), self.name, str(self.reported + 1), str(CHANGES)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def hear(self, lines: int) -> None:
        """Reads so many reports, or all there are."""
        assert self.process.stdout is not None
        if self.process.stdout.closed:
            return
        for line in islice(self.process.stdout, lines):
            self.reported = int(line)

    def kill_and_replace(self) -> None:
        """Kills it wherever it is."""
        self.process.send_signal(signal.SIGKILL)
        self.finish()
        self.process = self._start()

    def finish(self) -> None:
        """Hears everything it said, to its end."""
        with self.process:
            self.hear(CHANGES)
            self.process.wait(30)


@pytest.mark.timeout(180)
@spec("F-112", "R-FILE-4", "R-FILE-6", "T-SCOPE-3")
def test_t_scope_3_no_finished_change_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    """A writer that dies goes on behind the last change it reported; that change must be in the file."""
    file, chance = tmp_path / "settings.json", random.Random(112)
    file.write_text('{"mine": {"kept": [1, 2]}, "unknown": null}\n', "utf-8")
    writers = [Writer(file, f"w{number}") for number in range(PROCESSES)]
    try:
        for _ in range(KILLS):
            victim = chance.choice(writers)
            victim.hear(chance.randrange(1, 20))
            victim.kill_and_replace()
            tree = read_intent(file, "settings").tree
            assert tree["done"][victim.name] >= victim.reported
            assert tree["mine"] == {"kept": [1, 2]}
        for writer in writers:
            writer.finish()
            assert writer.process.returncode == 0
    finally:
        for writer in writers:
            writer.process.kill()
            writer.finish()
    tree = read_intent(file, "settings").tree
    assert tree["done"] == {writer.name: CHANGES - 1 for writer in writers}
    assert tree["count"] >= PROCESSES * CHANGES
    assert tree["unknown"] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["settings.json", "settings.json.lock"]
