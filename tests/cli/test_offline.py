"""Operations without a Computer: what a layer above keeps from being effective is said, as a Computer says it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.plugins.ids import parse_plugin_id
from smcp_runtime.actors.plugins.store import catalog_path, versions_path
from smcp_runtime.cli.offline import NEXT_START, Offline
from support.marketplaces import plugin, stdio
from support.plugin_home import Home

spec = pytest.mark.spec
AUDIT = "audit@acme"
SERVER = {"type": "stdio", "server_parameters": {"command": "true"}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def files(home: Home) -> Offline:
    return Offline(home.options)


def declare(home: Home, place: str, **servers: Any) -> Path:
    """Writes servers into a file of the home's; the file."""
    path = home.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"servers": servers}))
    return path


def settings_file(home: Home, scope: str) -> str:
    name = {"project": "settings.json", "local": "settings.local.json"}[scope]
    return str(home.root / "project/.tfrobot" / name)


@spec("R-FILE-13", "R-MGMT-4")
def test_enabling_a_server_that_a_project_disables_says_so(home: Home, files: Offline) -> None:
    declare(home, "project/.tfrobot/mcp.json", db=SERVER)
    home.say("project", disabledMcpjsonServers=["db"])
    home.say("local", enabledMcpjsonServers=["db"], disabledMcpjsonServers=["db"])
    result = files.carry_out("server.enable", {"bundle_id": "db"})
    assert (result["changed"], result["effective"]) == (True, False)
    assert result["shadowed_by"] == settings_file(home, "project")
    assert NEXT_START in result["warnings"]
    home.say("project")
    assert files.carry_out("server.enable", {"bundle_id": "db"})["effective"]


@spec("R-FILE-13", "R-GATE-12")
def test_an_approval_that_another_scope_defeats_says_so(home: Home, files: Offline) -> None:
    declare(home, "project/.tfrobot/mcp.json", db=SERVER)
    home.say("project", disabledMcpjsonServers=["db"])
    result = files.carry_out("server.approve", {"bundle_id": "db"})
    assert (result["effective"], result["shadowed_by"]) == (False, settings_file(home, "project"))
    assert files.carry_out("server.deny", {"bundle_id": "db"})["effective"]
    home.say("project")
    home.say("local")
    assert files.carry_out("server.approve", {"bundle_id": "db"})["effective"]


@spec("R-FILE-13", "R-MGMT-4")
def test_a_declaration_below_a_file_of_the_command_line_says_what_stands_above_it(home: Home) -> None:
    flag = declare(home, "flag.json", db=SERVER)
    files = Offline(dataclasses.replace(home.options, flag_mcp_config=(str(flag),)))
    result = files.carry_out("server.declare", {"server": {"name": "db", **SERVER}, "scope": "user"})
    assert (result["changed"], result["effective"], result["shadowed_by"]) == (True, False, str(flag))
    result = files.carry_out("server.declare", {"server": {"name": "other", **SERVER}, "scope": "user"})
    assert (result["effective"], result["written_scope"]) == (True, "user")


@spec("R-FILE-13", "T-MGMT-5", "R-MGMT-4")
def test_a_server_that_a_plugin_brings_too_is_said_to_be_there_when_the_users_is_removed(
    home: Home, files: Offline
) -> None:
    home.declare(home.marketplace("acme", plugin("audit", stdio("store", bundle_id="db"))))
    home.install(AUDIT)
    home.enable(AUDIT)
    declare(home, "config/mcp.json", db=SERVER)
    result = files.carry_out("server.remove", {"bundle_id": "db"})
    assert (result["changed"], result["effective"], result["shadowed_by"]) == (True, False, f"plugin:{AUDIT}")


@spec("R-FILE-13", "R-MGMT-4", "R-PLUGIN-9")
def test_a_marketplace_that_another_scope_declares_stays_when_it_is_removed_and_its_plugins_go(
    home: Home, files: Offline
) -> None:
    repository = home.marketplace("acme", plugin("audit"))
    home.declare(repository, scope="local")
    files.carry_out("marketplace.add", {"url": repository.url, "trust": True})
    files.carry_out("plugin.install", {"plugin_id": AUDIT})
    result = files.carry_out("marketplace.remove", {"name": "acme"})
    assert (result["changed"], result["effective"]) == (True, False)
    assert result["shadowed_by"] == settings_file(home, "local")
    assert catalog_path(home.home, "acme").is_dir()
    assert (home.ledger(), home.said()["installedPlugins"], home.said()["trustedMarketplaces"]) == ({}, [], [])
    assert not versions_path(home.home, parse_plugin_id(AUDIT)).exists()
    home.say("local")
    files.carry_out("marketplace.add", {"url": repository.url, "trust": True})
    assert files.carry_out("marketplace.remove", {"name": "acme"})["effective"]
    assert not catalog_path(home.home, "acme").exists()
