"""Kills an operation on plugins between every two writes, and looks what the next boot makes of what is left.

A process of its own (`python -m … ROOT OPERATION`): it forks for each point, so nothing else may run in it. The last
line it prints is a JSON object: how many points there were, and what was wrong at which of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


from support.marketplaces import Repository, plugin, skill, stdio
from support.plugin_home import Home

AUDIT = "audit@acme"
WRITES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.copyfile"}
CREATING = os.O_WRONLY | os.O_RDWR
PLACES = ("home", "config", "state", "project")


def prepare(home: Home, operation: str) -> None:
    """The state before the operation."""
    home.declare(home.marketplace("acme", plugin("audit", stdio("store", bundle_id="db")), plugin("tides")))
    if operation == "boot":
        home.say("user", **home.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
        return
    home.install("tides@acme")
    home.enable("tides@acme")
    if operation == "install":
        return
    home.install(AUDIT)
    if operation in ("disable", "uninstall", "refresh"):
        home.enable(AUDIT)
    if operation == "refresh":
        Repository(home.root / "repositories/acme").commit({"plugins/audit/skills/new/SKILL.md": skill("new")})


def perform(home: Home, operation: str) -> None:
    """The operation."""
    match operation:
        case "boot":
            home.boot()
        case "install":
            home.install(AUDIT)
        case "enable":
            home.enable(AUDIT)
        case "disable":
            home.enable(AUDIT, False)
        case "uninstall":
            home.uninstall(AUDIT)
        case "refresh":
            home.boot(refresh=frozenset({"acme"}))


def die_at(point: int, root: Path) -> None:
    """Has this process killed in front of its write number `point` below the user's places."""
    count = 0
    watched = tuple(str(root / place) for place in PLACES)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            path, _, flags = args
            if not isinstance(flags, int) or not flags & CREATING or str(path).endswith(".lock"):
                return
        elif event in WRITES:
            path = args[0]
        else:
            return
        if isinstance(path, str | os.PathLike) and str(path).startswith(watched):
            count += 1
            if count == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def state(home: Home) -> dict[str, Any]:
    """What the settings declare and what contributes, after a boot; raises when the two differ."""
    base = home.active()
    said = home.said()
    installed, enabled = said.get("installedPlugins", []), said.get("enabledPlugins", {})
    recovered = home.boot()
    faults = {str(one.id): one.fault.reason for one in recovered.plugins if one.fault is not None}
    assert not faults, faults
    assert [str(one.id) for one in recovered.plugins] == installed
    active = [str(one.plugin_id) for one in base.bundles]
    assert active == [one for one in installed if enabled.get(one) is True], (active, said)
    for bundle in base.bundles:
        assert (bundle.root / "skills/work/SKILL.md").is_file(), bundle.root
        servers = bundle.root / "mcp-servers"
        assert len(bundle.servers) == (len(list(servers.glob("*.json"))) if servers.is_dir() else 0)
    before = home.everything()
    home.boot()
    assert home.everything() == before, "a second boot wrote something"
    return {"installed": installed, "active": active, "servers": sorted(base.owners)}


def main(root: Path, operation: str) -> None:
    """Goes through all points."""
    template, work = root / "template", root / "work"
    work.mkdir()
    home = Home(work)
    prepare(home, operation)
    shutil.copytree(work, template, symlinks=True)
    problems: dict[int, str] = {}
    before, after = None, None
    point = 0
    while True:
        point += 1
        child = os.fork()
        if not child:
            try:
                die_at(point, work)
                perform(Home(work), operation)
            except BaseException:
                os._exit(3)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            found = state(Home(work))
            if ended == 0:
                after = found
            elif ended != -signal.SIGKILL:
                problems[point] = f"ended with {ended}"
            else:
                perform(Home(work), operation)
                again = state(Home(work))
                before = before or found
                assert found in (before, again), (before, found, again)
        except Exception as error:
            problems[point] = f"{type(error).__name__}: {error}"[:500]
        for place in PLACES:
            shutil.rmtree(work / place, ignore_errors=True)
            if (template / place).exists():
                shutil.copytree(template / place, work / place, symlinks=True)
        if ended == 0 or len(problems) > 5:
            break
    print(json.dumps({"points": point - 1, "problems": problems, "after": after}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
