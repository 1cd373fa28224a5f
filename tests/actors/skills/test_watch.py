"""What changes on disk mean, and hearing of them: roots that come and go, storms, and systems that tell nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from smcp_runtime.actors.skills import watch as watch_module
from smcp_runtime.actors.skills.file_events import Meaning, OwnWrites, meaning_of
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.actors.skills.rounds import Rounds
from smcp_runtime.actors.skills.watch import DropInWatch, WatchRules
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
FORBIDDEN = ForbiddenNames()
FAST = {"quiet": 0.05, "longest": 1.0, "poll": 0.1}


class TestMeaning:
    def of(self, *paths: str, own: OwnWrites | None = None, now: float = 0.0) -> Meaning:
        return meaning_of(paths, ["/r/one", "/r/two"], FORBIDDEN, own or OwnWrites(2.0), now)

    @spec("C-SKILL-76")
    def test_a_change_in_any_readable_file_counts_for_its_directory(self) -> None:
        assert self.of("/r/one/a/docs/x.md", "/r/two/b") == Meaning(True, frozenset({"a", "b"}))

    @spec("C-SKILL-76")
    def test_forbidden_names_and_what_lies_elsewhere_do_not_count(self) -> None:
        assert (
            self.of("/r/one/a/.skillenv", "/r/one/.git/index", "/r/one/a/.ENV", "/r/three/x", "/r/onemore") == Meaning()
        )

    @spec("C-SKILL-76")
    def test_the_root_itself_means_everything(self) -> None:
        assert self.of("/r/one") == Meaning(True, frozenset(), everything=True)

    @spec("C-SKILL-76")
    def test_our_own_writes_do_not_count_for_a_while(self) -> None:
        own = OwnWrites(2.0)
        own.note("/r/one/a", 10.0)
        assert self.of("/r/one/a/x", "/r/one/a", own=own, now=11.9) == Meaning()
        assert self.of("/r/one/ab/x", own=own, now=11.9).rescan
        assert self.of("/r/one/a/x", own=own, now=12.0).rescan


class Heard:
    """Batches of changed paths; `None` for a look at everything."""

    def __init__(self) -> None:
        self.batches: list[frozenset[str] | None] = []

    def __call__(self, paths: frozenset[str] | None) -> None:
        self.batches.append(paths)

    @property
    def names(self) -> set[str]:
        return {os.path.basename(path) for batch in self.batches if batch for path in batch}

    @property
    def paths(self) -> set[str]:
        return {path for batch in self.batches if batch for path in batch}

    @property
    def changes(self) -> list[frozenset[str]]:
        return [batch for batch in self.batches if batch]


@asynccontextmanager
async def watching(*roots: Path, **rules: Any) -> AsyncIterator[tuple[DropInWatch, Heard]]:
    heard = Heard()
    made = DropInWatch(WatchRules(**{**FAST, **rules}), heard)
    made.want([str(root) for root in roots])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        yield made, heard
        group.cancel_scope.cancel()


@spec("C-SKILL-76")
@pytest.mark.parametrize("polling", [False, True])
async def test_creating_changing_moving_and_deleting_is_heard_at_any_depth(tmp_path: Path, polling: bool) -> None:
    (tmp_path / "a" / "docs").mkdir(parents=True)
    (tmp_path / "a" / "old.md").write_text("x")
    async with watching(tmp_path, polling=polling) as (watch, heard):
        await until(lambda: watch.watching)
        assert heard.batches == [None]
        (tmp_path / "a" / "docs" / "new.md").write_text("x")
        await until(lambda: "new.md" in heard.names)
        (tmp_path / "a" / "old.md").rename(tmp_path / "a" / "moved.md")
        await until(lambda: "moved.md" in heard.names)
        (tmp_path / "a" / "docs" / "new.md").unlink()
        shutil.rmtree(tmp_path / "a")
        await until(lambda: "a" in heard.names)


@spec("C-SKILL-76")
async def test_a_root_that_appears_later_and_one_that_is_replaced_are_picked_up(tmp_path: Path) -> None:
    root = tmp_path / "later"
    async with watching(root) as (watch, heard):
        await anyio.wait_all_tasks_blocked()
        assert not watch.watching
        root.mkdir()
        await until(lambda: watch.watching)
        assert heard.batches == [None]
        (root / "a").mkdir()
        await until(lambda: "a" in heard.names)
        root.rename(tmp_path / "away")
        await until(lambda: not watch.watching)
        await until(lambda: str(root) in heard.paths)
        root.mkdir()
        await until(lambda: watch.watching)
        (root / "b").mkdir()
        await until(lambda: "b" in heard.names)


@spec("C-SKILL-76")
async def test_other_roots_replace_the_ones_before(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    async with watching(one) as (watch, heard):
        await until(lambda: watch.watching)
        watch.want([str(two)])
        await until(lambda: watch.watching and watch.roots == (str(two),))
        (one / "a").mkdir()
        (two / "b").mkdir()
        await until(lambda: "b" in heard.names)
        assert "a" not in heard.names


@spec("C-SKILL-76", "C-GEN-13")
async def test_a_storm_of_ten_thousand_changes_is_one_batch(quick_disk: Path) -> None:
    (quick_disk / "a").mkdir()
    storm = "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(5_000): os.close(os.open(f'{n}.md', os.O_CREAT))"
    async with watching(quick_disk, quiet=0.5, longest=30.0) as (watch, heard):
        await until(lambda: watch.watching)
        await anyio.run_process([sys.executable, "-c", storm, str(quick_disk / "a")])
        await until(lambda: heard.changes, timeout=20)
        shutil.rmtree(quick_disk / "a")
        (quick_disk / "end").mkdir()
        await until(lambda: "end" in heard.names, timeout=20)
    assert len(heard.changes) == 2
    assert len(heard.names) > 5_000


@spec("C-SKILL-76")
async def test_where_the_system_tells_nothing_it_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on watches is a setting of the whole machine, so the library is made to hit it."""
    real = watch_module.watch

    def limited(*paths: str, **options: Any) -> Any:
        if not options["force_polling"]:
            raise OSError(28, "no space left on device (inotify watches)")
        return real(*paths, **options)

    monkeypatch.setattr(watch_module, "watch", limited)
    async with watching(tmp_path) as (watch, heard):
        await until(lambda: watch.watching)
        (tmp_path / "a").mkdir()
        await until(lambda: "a" in heard.names)


@spec("C-GEN-14")
async def test_watching_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    with anyio.fail_after(1.0):
        async with watching(tmp_path, poll=30.0, quiet=0.05):
            await anyio.lowlevel.checkpoint()


class TestRounds:
    @spec("C-GEN-12")
    async def test_what_is_asked_for_during_a_round_makes_exactly_one_more(self) -> None:
        began: list[int] = []
        gate = anyio.Event()

        async def work() -> None:
            began.append(1)
            await gate.wait()

        async with anyio.create_task_group() as group:
            rounds = Rounds(work, group.start_soon)
            first = rounds.mark()
            await until(lambda: began)
            later = [rounds.mark() for _ in range(50)]
            assert not first.is_set()
            assert not rounds.idle
            gate.set()
            with anyio.fail_after(5):
                await first.wait()
                for event in later:
                    await event.wait()
            await until(lambda: rounds.idle)
        assert len(began) == 2

    @spec("C-GEN-12")
    async def test_rounds_go_on_after_one_was_idle(self) -> None:
        began: list[int] = []

        async def work() -> None:
            began.append(1)

        async with anyio.create_task_group() as group:
            rounds = Rounds(work, group.start_soon)
            with anyio.fail_after(5):
                await rounds.mark().wait()
                await rounds.mark().wait()
        assert len(began) == 2
