"""One user's files, written by the official SDK and by us: each reads what the other wrote."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.approval.answers import approving
from smcp_runtime.actors.reconcile.approval.fingerprint import fingerprint_of
from smcp_runtime.actors.reconcile.config.computer_config import ComputerConfig
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.files.intent import change_intent
from smcp_runtime.actors.reconcile.loading import places_for
from smcp_runtime.actors.reconcile.management.declaring import declare
from smcp_runtime.actors.reconcile.management.operations import changed_settings
from smcp_runtime.actors.reconcile.management.preview import Preview, preview
from smcp_runtime.actors.reconcile.values.value_store import ValueStore
from smcp_runtime.runtime import Computer
from support.marketplaces import Repository, catalog, plugin, stdio

spec = pytest.mark.spec
HOME = Path(__file__).with_name("official") / "home.py"


class Shared:
    """A user and a project, and both sides' view of them."""

    def __init__(self, root: Path, python: Path) -> None:
        self.root, self.python = root, python
        self.project = root / "project"
        self.project.mkdir()
        self.environ = {"HOME": str(root), "PATH": os.environ["PATH"]}
        self.options = settle(RuntimeOptions(env=self.environ, project_root=str(self.project)))[0]
        self.places = places_for(self.options)

    def official(self, verb: str) -> Any:
        done = subprocess.run(
            [self.python, str(HOME), verb],
            env=self.environ,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout.splitlines()[-1]) if verb == "read" else None

    def ours(self) -> Preview:
        return preview(ComputerConfig(name="desk"), self.options)

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*.json")}


@pytest.fixture
def shared(tmp_path: Path, official_python: Path) -> Shared:
    made = Shared(tmp_path, official_python)
    made.official("write")
    return made


@spec("R-FILE-1", "R-FILE-2", "DEC-32", "R-SCOPE-7")
def test_files_of_the_official_sdk_work_unchanged(shared: Shared) -> None:
    before = shared.files()
    seen = shared.ours()
    assert seen.picture.findings == ()
    assert {id_: (member.origin, member.verdict, member.step) for id_, member in seen.picture.servers.items()} == {
        "user_srv": ("user", "ENABLED", 4),
        "approved_srv": ("project", "ENABLED", 5),
        "denied_srv": ("project", "DISABLED", 3),
        "open_srv": ("project", "PENDING", 7),
        "local_srv": ("local", "PENDING", 7),
    }
    assert seen.picture.settings.merged["landingRoot"] == "/srv/landing"
    assert ValueStore(shared.places.state).read() == {"region": "eu"}
    assert shared.files() == before


class Installed(Shared):
    """A user whose official SDK has added a marketplace and installed what it offers."""

    def __init__(self, root: Path, python: Path, market: Repository) -> None:
        super().__init__(root, python)
        for words in (
            ("marketplace", "add", market.url, "--name", "acme", "--trust"),
            ("plugin", "install", "audit@acme"),
            ("plugin", "enable", "audit@acme"),
            ("plugin", "install", "idle@acme"),
        ):
            self.sdk(*words)

    def sdk(self, *words: str) -> Any:
        """What the official command prints."""
        command = [str(self.python.with_name("a2c-computer")), *words, "--json"]
        done = subprocess.run(
            command, env=self.environ, cwd=self.project, capture_output=True, text=True, check=True, timeout=60
        )
        return json.loads(done.stdout[done.stdout.index("\n[" if "\n[" in done.stdout else "{") :])

    def ledger(self) -> Any:
        text = (self.root / ".a2c" / "skills" / "installed_plugins.json").read_text()
        return json.loads("\n".join(line for line in text.splitlines() if not line.startswith("//")))


@spec("R-FILE-2", "R-FILE-16", "R-CORE-7", "R-PLUGIN-26", "R-INPUT-22")
@pytest.mark.anyio
async def test_a_home_of_the_official_sdk_with_plugins_works_unchanged_and_stays_one(
    tmp_path: Path, official_python: Path
) -> None:
    token = {"type": "promptString", "id": "token", "description": "d", "password": True}
    server = {**stdio("store", bundle_id="db")}
    server["server_parameters"] = {**server["server_parameters"], "env": {"TOKEN": "${input:token}"}}
    market = Repository(
        tmp_path / "acme", catalog("acme", "audit", "idle"), plugin("audit", server, inputs=[token]), plugin("idle")
    )
    shared = Installed(tmp_path, official_python, market)
    before = shared.sdk("plugin", "list")
    made = Computer.from_config(
        {"name": "desk"},
        RuntimeOptions(
            env=shared.environ, project_root=str(shared.project), auto_start=False, secret_providers=["memory"]
        ),
    )
    async with made:
        plugins = {one.id: one.state for one in await made.manage.plugins.list()}
        assert plugins == {"audit@acme": "installed_enabled", "idle@acme": "installed_disabled"}
        (view,) = await made.manage.servers()
        assert (view.bundle_id, view.owner, view.verdict) == ("db", "plugin:audit", "ENABLED")
        (wanted,) = await made.manage.inputs()
        assert (wanted.id, wanted.servers) == ("audit@acme/token", ("db",))
        assert wanted.variables == ("A2C_SMCP_audit_acme_token_db", "A2C_SMCP_audit_acme_token")
        assert [skill.name for skill in (await made.skills()).skills] == ["audit:work"]
        assert (await made.diagnostics()).findings == ()
    assert shared.sdk("plugin", "list") == before
    assert {*shared.ledger()["plugins"]} == {"audit@acme", "idle@acme"}


@spec("R-FILE-5", "R-FILE-9", "DEC-32", "R-GATE-14")
def test_what_we_write_the_official_sdk_reads_without_a_fault(shared: Shared) -> None:
    open_srv = shared.ours().picture.servers["open_srv"].entry
    local = shared.places.settings("local")
    change_intent(local, "settings", approving("open_srv", fingerprint_of(open_srv)))
    changed_settings(
        shared.places.settings("user"), "user", {"landingRoot": "/srv/other"}, shared.ours().picture.settings, None
    )
    raw = {"name": "new_srv", "type": "stdio", "server_parameters": {"command": "echo"}}
    declare(raw, "project", shared.places, None)
    ValueStore(shared.places.state).put("count", 7)
    seen = shared.official("read")
    assert seen["errors"] == []
    assert seen["settings"]["landingRoot"] == "/srv/other"
    assert seen["settings"]["enabledPlugins"] == {"audit@acme": False}
    assert seen["values"] == {"region": "eu", "count": 7}
    assert seen["statuses"] == {
        "user_srv": "enabled",
        "approved_srv": "enabled",
        "denied_srv": "disabled",
        "open_srv": "enabled",
        "local_srv": "pending",
        "new_srv": "enabled",
    }
