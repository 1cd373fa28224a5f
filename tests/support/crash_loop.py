"""Every state in which a kill can leave the disk during an operation on plugins, and what the next boot makes of it.

A process of its own (`python … ROOT`): it forks, so nothing else may run in it. An operation runs once; in front of
each of its writes the user's places are copied, which is what a process killed at that moment leaves behind. That this
is so is checked too: for some of the points a forked child performs the operation and is really killed there. The last
line printed is a JSON object with a report for each operation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


from smcp_runtime.actors.plugins import gc, marketplaces
from smcp_runtime.actors.plugins.ids import parse_plugin_id
from smcp_runtime.actors.plugins.recovery import recover
from support.marketplaces import Repository, catalog, plugin, skill, stdio
from support.plugin_home import Home

AUDIT, TIDES, PILOT = "audit@acme", "tides@acme", "pilot@other"
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.copyfile"}
CREATING = os.O_WRONLY | os.O_RDWR
PLACES = ("home", "config", "state", "project")
KILLED = (2, -1)
"""Points, by their place among all of an operation, at which a process is killed in earnest."""
RANDOM = re.compile(r"(?<=[-.])(?:\d+[-.])?[0-9a-f]{8,12}(?=$|[/.])")


class Watch:
    """Calls `notice` in front of each write of this process below some directories. Its hook cannot be taken out."""

    def __init__(self) -> None:
        self._below: tuple[str, ...] = ()
        self._notice: Callable[[], None] | None = None
        sys.addaudithook(self._hook)

    def run(self, root: Path, notice: Callable[[], None], work: Callable[[], object]) -> None:
        self._below, self._notice = tuple(str(root / place) for place in PLACES), notice
        try:
            work()
        finally:
            self._notice = None

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._notice is None:
            return
        if event == "open":
            path, _, flags = args
            if not isinstance(flags, int) or not flags & CREATING or str(path).endswith(".lock"):
                return
        elif event in WRITES:
            path = args[0]
        else:
            return
        if isinstance(path, str | os.PathLike) and str(path).startswith(self._below):
            notice, self._notice = self._notice, None
            notice()
            self._notice = notice


WATCH = Watch()


# -- operations ----------------------------------------------------------------------------------


def _boot(home: Home) -> None:
    home.say("user", **home.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})


def _tides(home: Home) -> None:
    home.install(TIDES)
    home.enable(TIDES)


def _installed(home: Home) -> None:
    _tides(home)
    home.install(AUDIT)


def _enabled(home: Home) -> None:
    _installed(home)
    home.enable(AUDIT)


def _changed_upstream(home: Home) -> None:
    _enabled(home)
    Repository(home.root / "repositories/acme").commit({"plugins/audit/skills/new/SKILL.md": skill("new")})


def _both(home: Home) -> None:
    """Two marketplaces, a plugin of each."""
    _tides(home)
    _add(home)
    home.install(PILOT)
    home.enable(PILOT)


def _orphaned(home: Home) -> None:
    """A plugin and a marketplace that nobody stands for any more, with everything that was fetched for them."""
    _both(home)
    said = home.said()
    home.say(
        "user",
        extraKnownMarketplaces={"acme": said["extraKnownMarketplaces"]["acme"]},
        installedPlugins=[TIDES],
        enabledPlugins={TIDES: True},
    )


def _add(home: Home) -> None:
    url = f"file://{home.root}/repositories/other"
    marketplaces.add_marketplace(home.site, home.settings, url, "other", trust=True)


def _remove(home: Home) -> None:
    settings = home.settings()
    if "other" in settings.merged.get("extraKnownMarketplaces", {}):
        marketplaces.undeclare_marketplace(home.site, settings, "other", [parse_plugin_id(PILOT)])
    home.uninstall(PILOT)
    marketplaces.forget_marketplace(home.site, "other")


def _collect(home: Home) -> None:
    gc.collect(home.site, home.settings(), recover(home.site, home.settings()))
    gc.prune(home.site, home.settings())


Step = Callable[[Home], object]
OPERATIONS: dict[str, tuple[Step, Step]] = {
    "boot": (_boot, lambda home: home.boot()),
    "install": (_tides, lambda home: home.install(AUDIT)),
    "enable": (_installed, lambda home: home.enable(AUDIT)),
    "disable": (_enabled, lambda home: home.enable(AUDIT, False)),
    "uninstall": (_enabled, lambda home: home.uninstall(AUDIT)),
    "refresh": (_changed_upstream, lambda home: home.boot(refresh=frozenset({"acme"}))),
    "add": (_tides, _add),
    "remove": (_both, _remove),
    "collect": (_orphaned, _collect),
}
"""What each operation begins with, and the operation."""


# -- states --------------------------------------------------------------------------------------


def state(home: Home) -> dict[str, Any]:
    """What the settings declare and what contributes, after a boot; raises when the two differ."""
    base = home.active()
    said = home.said()
    installed, enabled = said.get("installedPlugins", []), said.get("enabledPlugins", {})
    active = [str(one.plugin_id) for one in base.bundles]
    assert active == [one for one in installed if enabled.get(one) is True], (active, said)
    for bundle in base.bundles:
        assert (bundle.root / "skills/work/SKILL.md").is_file(), bundle.root
        servers = bundle.root / "mcp-servers"
        assert len(bundle.servers) == (len(list(servers.glob("*.json"))) if servers.is_dir() else 0)
    before = home.everything()
    recovered = home.boot()
    faults = {str(one.id): one.fault.reason for one in recovered.plugins if one.fault is not None}
    assert not faults, faults
    assert [str(one.id) for one in recovered.plugins] == installed
    assert home.everything() == before, "a second boot wrote something"
    marketplaces = sorted(said.get("extraKnownMarketplaces", {}))
    return {"installed": installed, "active": active, "servers": sorted(base.owners), "marketplaces": marketplaces}


def take(source: Path, target: Path) -> None:
    """Makes the user's places at `target` those at `source`."""
    for place in PLACES:
        shutil.rmtree(target / place, ignore_errors=True)
        if (source / place).exists():
            shutil.copytree(source / place, target / place, symlinks=True)


def names(root: Path) -> set[str]:
    """All paths of the user's places, without what differs from run to run."""
    paths = (path for place in PLACES for path in (root / place).rglob("*") if path.suffix != ".lock")
    return {RANDOM.sub("*", str(path.relative_to(root))) for path in paths if "objects" not in path.parts}


def outside_workshop(root: Path) -> dict[str, bytes]:
    """All files of the user's places but those that something was being built of."""
    paths = (path for place in PLACES for path in (root / place).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if ".tmp" not in path.parts}


def copies(root: Path, work: Path, perform: Callable[[], object]) -> Iterator[Path]:
    """Performs an operation; the state in front of each of its writes, as the death of this process would leave it."""
    found: list[Path] = []
    dead = _dead_process()

    def notice() -> None:
        copy = root / f"point-{len(found) + 1}"
        take(work, copy)
        for rest in copy.glob(f"home/marketplace/.tmp/*-{os.getpid()}-*"):
            rest.rename(rest.with_name(rest.name.replace(f"-{os.getpid()}-", f"-{dead}-")))
        found.append(copy)

    WATCH.run(work, notice, perform)
    yield from found


def killed(work: Path, point: int, perform: Callable[[], object]) -> None:
    """Has a child perform an operation and kills it in front of its write number `point`."""
    child = os.fork()
    if not child:
        seen = 0

        def notice() -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            WATCH.run(work, notice, perform)
        finally:
            os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == -signal.SIGKILL, ended


def explore(root: Path, operation: str) -> dict[str, Any]:
    """Goes through all points of one operation."""
    prepare, perform = OPERATIONS[operation]
    work, template = root / "work", root / "template"
    work.mkdir(parents=True)
    home = Home(work)
    home.declare(home.marketplace("acme", plugin("audit", stdio("store", bundle_id="db")), plugin("tides")))
    home.repository("other", catalog("other", "pilot"), plugin("pilot"))
    prepare(home)
    take(work, template)
    points = list(copies(root, work, lambda: perform(Home(work))))
    after = state(Home(work))
    take(template, work)
    before = state(Home(work))
    problems: dict[str, str] = {}
    beyond: dict[str, bytes] = {}
    for number, point in enumerate(points, 1):
        take(point, work)
        former, beyond = beyond, outside_workshop(point)
        try:
            found = state(Home(work))
            assert found in (before, after), (before, found, after)
            if beyond != former:  # a boot sweeps the workshop, whatever was built in it
                perform(Home(work))
                again = state(Home(work))
                assert again == after, (again, after)
        except Exception as error:
            problems[str(number)] = f"{type(error).__name__}: {error}"[:500]
    for index in KILLED:
        point = points[min(index, len(points) - 1)]
        take(template, work)
        killed(work, points.index(point) + 1, lambda: perform(Home(work)))
        if names(work) != names(point):
            problems[f"killed at {point.name}"] = str(sorted(names(work) ^ names(point)))[:500]
    shutil.rmtree(root)
    return {"points": len(points), "problems": problems, "before": before, "after": after}


def _dead_process() -> int:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return child


if __name__ == "__main__":
    print(json.dumps({name: explore(Path(sys.argv[1]) / name, name) for name in sys.argv[2:] or OPERATIONS}))
