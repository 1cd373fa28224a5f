"""The derived records: what they may say, who writes them, and that nothing is decided by them (03 §7.6)."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from smcp_runtime.actors.plugins import gc
from support.marketplaces import catalog, plugin, stdio
from support.plugin_home import Home

spec = pytest.mark.spec
AUDIT, TIDES = "audit@acme", "tides@acme"


def versioned(version: str) -> dict[str, Any]:
    entry = {"name": "audit", "source": "audit", "version": version}
    manifest = {"name": "acme", "owner": {"name": "tests"}, "plugins": [entry]}
    return {".tfrobot-plugin/marketplace.json": manifest}


def ledger_text(home: Home) -> dict[str, Any]:
    """The ledger as it lies on disk."""
    body = (home.home / "installed_plugins.json").read_text().partition("\n")[2]
    return dict(json.loads(body)["plugins"])


def write_ledger(home: Home, plugins: Any) -> None:
    home.home.mkdir(exist_ok=True)
    (home.home / "installed_plugins.json").write_text("// kept\n" + json.dumps({"version": 1, "plugins": plugins}))


@spec("R-CORE-8", "R-CORE-7")
def test_what_is_installed_is_what_the_marketplace_offers_and_no_record_pins_an_older_version(home: Home) -> None:
    repository = home.repository("acme", versioned("1.0.0"), plugin("audit"))
    home.declare(repository)
    home.install(AUDIT)
    former = ledger_text(home)
    assert [record["version"] for record in former[AUDIT]] == ["1.0.0"]
    repository.commit(versioned("1.1.0"))
    shutil.rmtree(home.home)
    write_ledger(home, former)
    (found,) = home.boot().plugins
    assert found.bundle is not None
    assert found.bundle.version == "1.1.0"
    assert [record["version"] for record in ledger_text(home)[AUDIT]] == ["1.1.0"]


@spec("R-PLUGIN-23")
def test_a_record_holds_identities_of_servers_and_nothing_about_the_moment_of_installing(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("audit", stdio("store", bundle_id="db")), plugin("tides")))
    for plugin_id in (AUDIT, TIDES):
        home.install(plugin_id)
        home.enable(plugin_id)
    (audit,), (tides,) = ledger_text(home)[AUDIT], ledger_text(home)[TIDES]
    known = {"scope", "installPath", "version", "commitSha", "installedAt", "lastUpdated", "mcpServers"}
    assert audit.keys() == tides.keys() == known
    assert (audit["mcpServers"], tides["mcpServers"]) == (["db"], [])


@spec("R-PLUGIN-23", "R-CORE-2")
def test_nothing_a_record_says_of_servers_is_believed(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("audit", stdio("store", bundle_id="db"))))
    home.install(AUDIT)
    home.enable(AUDIT)
    said = ledger_text(home)
    said[AUDIT][0] |= {"mcpServers": ["somebody_elses"], "introducedBy": "user", "alreadyPresent": ["db"]}
    write_ledger(home, said)
    assert [bundle.bundle_ids for bundle in home.active().bundles] == [("db",)]
    assert ledger_text(home)[AUDIT][0]["mcpServers"] == ["db"]
    assert not {"introducedBy", "alreadyPresent"} & ledger_text(home)[AUDIT][0].keys()


@spec("R-PLUGIN-25")
def test_only_what_makes_a_plugin_ready_writes_its_record(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("audit"), plugin("tides")))
    home.install(AUDIT)
    path = home.home / "installed_plugins.json"
    before = path.read_bytes()
    home.enable(AUDIT)
    home.enable(AUDIT, False)
    home.boot()
    assert path.read_bytes() == before
    path.unlink()
    home.boot()
    assert ledger_text(home).keys() == {AUDIT}


@spec("R-PLUGIN-25")
def test_a_record_without_an_intent_makes_nothing_happen_until_it_is_collected(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("audit"), plugin("tides")))
    for plugin_id in (AUDIT, TIDES):
        home.install(plugin_id)
    home.say("user", **{**home.said(), "installedPlugins": [AUDIT], "enabledPlugins": {TIDES: True}})
    found = home.boot()
    assert [str(one.id) for one in found.plugins] == [AUDIT]
    assert home.active().bundles == ()
    assert ledger_text(home).keys() == {AUDIT, TIDES}
    assert gc.collect(home.site, home.settings(), found).removed[0] == TIDES
    assert ledger_text(home).keys() == {AUDIT}


@spec("R-PLUGIN-24")
def test_a_catalog_that_is_not_there_any_more_is_fetched_for_whoever_declares_it(home: Home) -> None:
    home.declare(home.repository("acme", catalog("acme", "audit"), plugin("audit")))
    home.install(AUDIT)
    shutil.rmtree(home.home)
    write_ledger(home, {AUDIT: [{"bundledMcpServers": ["Display Name"]}]})
    (found,) = home.boot().plugins
    assert found.fault is None
    assert "bundledMcpServers" not in (home.home / "installed_plugins.json").read_text()
