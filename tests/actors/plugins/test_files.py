"""Marketplaces and plugins on disk, without a Computer: real git, real files, a home of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from smcp_runtime.actors.plugins import gc, marketplaces, operations
from smcp_runtime.actors.plugins.git import Git
from smcp_runtime.actors.plugins.ids import parse_plugin_id
from smcp_runtime.actors.plugins.store import catalog_path, legacy_path, plugin_path, versions_path
from smcp_runtime.actors.plugins.trees import remove_tree
from smcp_runtime.actors.skills.discover import scan_plugins
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.wire.errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    NetworkError,
    PolicyError,
    SmcpError,
)
from support.marketplaces import GUILD, Repository, catalog, fleet, harbour, plugin, skill, stdio, write
from support.plugin_home import Home

spec = pytest.mark.spec
AUDIT = "audit@acme"


def simple(home: Home, *servers: dict[str, Any], name: str = "audit", **more: Any) -> Any:
    return home.marketplace("acme", plugin(name, *servers, **more))


def skills_of(home: Home) -> list[str]:
    return [f"{one.plugin}" for one in home.active().skills]


# -- marketplaces -------------------------------------------------------------------------------


@spec("T-MKT-1", "R-PLUGIN-10")
def test_a_declared_marketplace_is_cloned_and_recorded_and_a_second_boot_does_nothing(home: Home) -> None:
    home.declare(simple(home))
    assert home.boot().catalogs.report.installed == ("acme",)
    record = json.loads((home.home / "known_marketplaces.json").read_text().partition("\n")[2])
    before = home.everything()
    assert home.boot().catalogs.report.up_to_date == ("acme",)
    assert home.everything() == before
    assert record["version"] == 1
    assert record["marketplaces"]["acme"].keys() == {"source", "installLocation", "lastUpdated", "commitSha"}


@spec("T-MKT-2")
def test_another_url_under_the_same_name_replaces_the_catalog(home: Home) -> None:
    home.declare(simple(home))
    home.boot()
    other = home.marketplace("other", plugin("pilot"))
    home.declare(other)
    found = home.boot()
    assert found.catalogs.report.updated == ("acme",)
    assert list(found.catalogs.catalogs["acme"].marketplace.plugins) == ["pilot"]


@spec("T-MKT-3", "R-PLUGIN-12")
def test_a_catalog_moves_on_at_a_boot_with_auto_update_at_a_refresh_and_never_otherwise(home: Home) -> None:
    repository = simple(home)

    def plugins(**how: Any) -> set[str]:
        return set(home.boot(**how).catalogs.catalogs["acme"].marketplace.plugins)

    home.declare(repository)
    assert plugins() == {"audit"}
    repository.commit(catalog("acme", "audit", "pilot"), plugin("pilot"))
    assert plugins() == {"audit"}
    assert plugins(refresh=frozenset({"acme"})) == {"audit", "pilot"}
    repository.commit(catalog("acme", "audit"))
    assert plugins() == {"audit", "pilot"}
    source = {"type": "git", "url": repository.url}
    home.say("user", extraKnownMarketplaces={"acme": {"source": source, "autoUpdate": True}})
    assert plugins() == {"audit"}


@spec("R-PLUGIN-7", "T-MKT-3")
def test_a_refresh_moves_a_clone_forward_and_clones_anew_where_history_was_rewritten(home: Home) -> None:
    repository = simple(home)
    home.declare(repository)
    home.boot()

    def refreshed() -> tuple[int, set[str]]:
        found = home.boot(refresh=frozenset({"acme"})).catalogs
        assert found.report.failed == {}
        path = found.catalogs["acme"].path
        counted = subprocess.run(
            ["git", "-C", str(path), "rev-list", "--count", "HEAD"], check=True, capture_output=True, text=True
        )
        assert not (path / ".git/hooks").exists()
        return int(counted.stdout), set(found.catalogs["acme"].marketplace.plugins)

    repository.commit(catalog("acme", "audit", "pilot"), plugin("pilot"))
    repository.commit({"README": "hello"})
    assert refreshed() == (3, {"audit", "pilot"})
    assert refreshed() == (3, {"audit", "pilot"})
    repository.git("reset", "--quiet", "--hard", "HEAD~2")
    repository.commit(catalog("acme", "audit", "tides"), plugin("tides"))
    assert refreshed() == (1, {"audit", "tides"})


@spec("T-MKT-4")
def test_what_is_not_declared_any_more_stays_until_it_is_pruned(home: Home) -> None:
    home.declare(simple(home), installedPlugins=[AUDIT])
    home.boot()
    home.say("user", extraKnownMarketplaces={}, installedPlugins=[])
    assert home.boot().catalogs.catalogs == {}
    assert catalog_path(home.home, "acme").is_dir()
    assert gc.prune(home.site, home.settings()) == ("acme",)
    assert not catalog_path(home.home, "acme").exists()
    assert home.ledger() == {}
    assert gc.prune(home.site, home.settings()) == ()


@spec("T-MKT-5", "R-PLUGIN-11")
def test_a_source_that_cannot_be_reached_costs_itself_only(home: Home) -> None:
    repository = simple(home)
    sources = {"acme": repository.url, "gone": f"file://{home.root}/nowhere"}
    declared = {name: {"source": {"type": "git", "url": url}} for name, url in sources.items()}
    home.say("user", extraKnownMarketplaces=declared)
    found = home.boot()
    assert set(found.catalogs.catalogs) == {"acme"}
    assert found.losses["marketplace", "gone"].category == "network"


@spec("R-PLUGIN-11")
def test_a_refresh_that_fails_keeps_the_good_catalog(home: Home) -> None:
    repository = simple(home)
    home.declare(repository)
    home.boot()
    shutil.move(repository.root, home.root / "moved")
    found = home.boot(refresh=frozenset({"acme"}))
    assert "audit" in found.catalogs.catalogs["acme"].marketplace.plugins
    assert found.catalogs.report.failed["acme"].category == "network"


@spec("T-MKT-6", "T-SEC-6", "R-PLUGIN-8")
def test_t_sec_6_a_source_nobody_trusted_is_not_touched_and_says_why(home: Home) -> None:
    repository = simple(home)
    home.declare(repository, scope="project", installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    found = home.boot()
    assert found.losses["marketplace", "acme"].category == "policy"
    assert found.losses["plugin", AUDIT].category == "policy"
    assert not catalog_path(home.home, "acme").exists()
    home.declare(repository, blockedMarketplaces=["acme"])
    assert home.boot().losses["marketplace", "acme"].code == "source_refused"
    assert not catalog_path(home.home, "acme").exists()


def test_an_application_may_refuse_a_source_and_a_hook_that_fails_refuses(home: Home) -> None:
    home.declare(simple(home))
    for hook in (lambda question: question["marketplace"] != "acme", lambda _: 1 / 0):
        home.site = msgspec.structs.replace(home.site, source_trust=hook)
        assert home.boot().losses["marketplace", "acme"].code == "source_refused"


def test_a_directory_without_version_control_is_a_marketplace_too(home: Home) -> None:
    root = write(home.root / "repositories/plain", {**catalog("acme", "audit"), **plugin("audit")})
    home.say("user", extraKnownMarketplaces={"acme": {"source": {"type": "git", "url": f"file://{root}"}}})
    home.install(AUDIT)
    home.enable(AUDIT)
    assert skills_of(home) == ["audit"]
    write(root, {"plugins/audit/skills/new/SKILL.md": skill("new")})
    home.boot(refresh=frozenset({"acme"}))
    (bundle,) = home.active().bundles
    assert (bundle.root / "skills/new/SKILL.md").is_file()


# -- hostile marketplaces -----------------------------------------------------------------------


@spec("R-PLUGIN-6", "F-114", "R-PLUGIN-32")
@pytest.mark.parametrize("where", ["plugin", "skills", "manifest", "server", "inputs"])
def test_a_link_out_of_the_tree_makes_the_plugin_unusable_and_reads_nothing(
    home: Home, outside: Path, where: str
) -> None:
    files = {**catalog("acme", "audit", "pilot"), **plugin("audit", stdio("store")), **plugin("pilot")}
    root = write(home.root / "repositories/evil", files)
    place = {
        "plugin": "plugins/audit",
        "skills": "plugins/audit/skills/stolen",
        "manifest": "plugins/audit/.tfrobot-plugin/plugin.json",
        "server": "plugins/audit/mcp-servers/store.json",
        "inputs": "plugins/audit/mcp-servers/inputs.json",
    }[where]
    target = root / place
    if target.is_dir():
        shutil.rmtree(target)
    target.unlink(missing_ok=True)
    target.symlink_to(outside if where in ("plugin", "skills") else outside / "secret.txt")
    home.declare(home.repository("evil"), installedPlugins=[AUDIT, "pilot@acme"], enabledPlugins={AUDIT: True})
    found = home.boot()
    assert found.losses["plugin", AUDIT].category == "validation"
    assert "do not read" not in str(found)
    assert ("plugin", "pilot@acme") not in found.losses
    assert not plugin_path(home.home, parse_plugin_id(AUDIT), "1.0.0").exists()


@spec("R-PLUGIN-7")
def test_submodules_and_hooks_of_a_repository_do_nothing(home: Home) -> None:
    inner = home.repository("inner", {"x.txt": "x"})
    repository = simple(home)
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", inner.url, "plugins/audit/skills/sub")
    repository.commit()
    hook = repository.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {home.root}/ran\n")
    hook.chmod(0o755)
    home.declare(repository)
    home.install(AUDIT)
    (installed,) = (one.bundle for one in home.boot().plugins)
    assert installed is not None
    assert list((installed.root / "skills/sub").iterdir()) == []
    assert not (home.root / "ran").exists()


@spec("R-PLUGIN-7")
@pytest.mark.parametrize("url", ["ext::sh -c 'touch ran'", "--upload-pack=x", "fd::3"])
def test_an_executable_url_is_refused_before_git_is_asked(home: Home, url: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        marketplaces.add_marketplace(home.site, home.settings, url, "evil", trust=True)
    assert caught.value.code == "bad_git_url"
    with pytest.raises(ConfigValidationError):
        home.site.git.fetch(url, home.root / "target")
    assert home.said() == {}


@spec("R-SEC-2")
@pytest.mark.parametrize("user", ["me:s3cret", "ghp_s3cret", "s3cret:x-oauth-basic"])
@pytest.mark.parametrize("path", ["x.git", "x.zip"])
def test_a_url_with_a_password_or_a_token_is_not_put_into_settings(home: Home, user: str, path: str) -> None:
    url = f"https://{user}@git.example/{path}"
    with pytest.raises(ConfigValidationError) as caught:
        marketplaces.add_marketplace(home.site, home.settings, url, "acme", trust=True, fetch=False)
    assert caught.value.code == "secret_in_url"
    assert "s3cret" not in str(caught.value)
    assert home.said() == {}


def test_a_tree_with_a_huge_file_is_refused_and_nothing_of_it_is_left(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smcp_runtime.actors.plugins.trees.MAX_FILE", 1000)
    home.declare(simple(home))
    home.boot()
    repository = home.marketplace("big", plugin("huge"), {"plugins/huge/data.bin": "x" * 2000})
    home.declare(repository, "big")
    with pytest.raises(ConfigValidationError) as caught:
        home.install("huge@big")
    assert caught.value.code == "too_large"
    assert "installedPlugins" not in home.said() or home.said()["installedPlugins"] == []
    assert list((home.home / "marketplace/.tmp").iterdir()) == []


def test_a_fetch_that_grows_beyond_its_size_is_given_up(home: Home) -> None:
    repository = home.marketplace("big", plugin("huge"), {"plugins/huge/data.bin": os.urandom(40_000).hex()})
    git = Git(os.environ, 20.0, max_bytes=10_000)
    with pytest.raises(ConfigValidationError) as caught:
        git.fetch(repository.url, home.root / "target")
    assert caught.value.code == "too_large"
    assert not (home.root / "target").exists()


@spec("F-119")
def test_a_marketplace_and_a_plugin_of_one_name_live_side_by_side(home: Home) -> None:
    home.declare(home.marketplace("same", plugin("same")), "same")
    home.install("same@same")
    home.boot()
    home.boot()
    (record,) = home.ledger()["same@same"]
    assert Path(record.install_path).is_dir()
    depths = [len(path.relative_to(home.home).parts) for path in home.home.rglob("*")]
    assert max(depths) < 12


@spec("F-119")
def test_a_source_that_holds_its_own_target_is_refused(home: Home) -> None:
    write(home.home, {**catalog("acme", "audit"), **plugin("audit")})
    home.say("user", extraKnownMarketplaces={"acme": {"source": {"type": "git", "url": f"file://{home.home}"}}})
    assert home.boot().losses["marketplace", "acme"].code == "recursive_copy"
    assert not catalog_path(home.home, "acme").exists()


@spec("T-SEC-5", "R-PLUGIN-32", "R-SEC-11")
def test_t_sec_5_nothing_outside_the_home_is_ever_deleted(home: Home, outside: Path) -> None:
    home.home.mkdir()
    for path in (outside, home.home / ".." / "outside", home.home, home.home / "..", Path("/")):
        with pytest.raises(PolicyError) as caught:
            remove_tree(path, home.home)
        assert caught.value.code == "outside_home"
    link = home.home / "link"
    link.symlink_to(outside)
    with pytest.raises(PolicyError):
        remove_tree(link / "skills", home.home)
    assert remove_tree(link, home.home)
    assert (outside / "secret.txt").read_text() == "do not read"


@spec("T-SEC-5")
def test_t_sec_5_doctored_records_lead_an_uninstall_nowhere(home: Home, outside: Path) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    path = home.home / "installed_plugins.json"
    head, _, body = path.read_text().partition("\n")
    tree = json.loads(body)
    tree["plugins"][AUDIT][0] |= {"installPath": str(outside), "projectPath": str(outside)}
    tree["plugins"]["../../outside@acme"] = tree["plugins"][AUDIT]
    path.write_text(head + "\n" + json.dumps(tree))
    home.uninstall(AUDIT)
    gc.collect(home.site, home.settings(), home.boot())
    assert (outside / "secret.txt").is_file()
    assert home.ledger() == {}


# -- plugins ------------------------------------------------------------------------------------


@spec("T-PLUG-1", "R-CORE-10", "R-CORE-3")
def test_installing_writes_the_intent_and_activates_nothing(home: Home) -> None:
    home.declare(simple(home, stdio("store")))
    made = home.install(AUDIT)
    assert made.changed
    assert home.said()["installedPlugins"] == [AUDIT]
    assert "enabledPlugins" not in home.said()
    assert home.active().bundles == ()


@spec("T-PLUG-11", "R-PLUGIN-13")
def test_installing_and_enabling_again_changes_nothing(home: Home) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    assert home.enable(AUDIT).changed
    before = home.everything()
    assert not home.install(AUDIT).changed
    assert not home.enable(AUDIT).changed
    assert home.everything() == before


@spec("T-PLUG-9", "R-PLUGIN-13", "R-PLUGIN-15")
@pytest.mark.parametrize(
    "files",
    [
        {"plugins/audit/mcp-servers/bad.json": "{"},
        {
            "plugins/audit/mcp-servers/bad.json": {
                "name": "other",
                "type": "stdio",
                "server_parameters": {"command": "c"},
            }
        },
        {"plugins/audit/mcp-servers/bad.json": {"name": "bad", "type": "stdio"}},
        {"plugins/audit/mcp-servers/bad.json": [1]},
        {"plugins/audit/mcp-servers/inputs.json": "{"},
        {
            "plugins/audit/mcp-servers/a.json": stdio("a", bundle_id="x"),
            "plugins/audit/mcp-servers/b.json": stdio("b", bundle_id="x"),
        },
    ],
)
def test_a_faulty_file_of_a_plugin_leaves_neither_intent_nor_tree(home: Home, files: dict[str, Any]) -> None:
    home.declare(home.marketplace("acme", plugin("audit", stdio("fine")), files))
    before = home.said()
    with pytest.raises(SmcpError) as caught:
        home.install(AUDIT)
    assert caught.value.category in ("validation", "conflict")
    assert home.said() | {"installedPlugins": []} == before | {"installedPlugins": []}
    assert not (home.home / "marketplace/.store").exists() or not list(
        (home.home / "marketplace/.store").rglob("*.json")
    )
    assert home.ledger() == {}


@spec("T-PLUG-10")
def test_an_unknown_marketplace_or_plugin_is_refused_before_anything_is_written(home: Home) -> None:
    home.declare(simple(home))
    home.boot()
    before = home.everything()
    for plugin_id, code in (("audit@nowhere", "unknown_marketplace"), ("nothing@acme", "unknown_plugin")):
        with pytest.raises(ConfigValidationError) as caught:
            home.install(plugin_id)
        assert caught.value.code == code
    assert home.everything() == before


@spec("T-PLUG-12", "R-PLUGIN-3")
def test_a_second_plugin_of_the_same_name_is_a_conflict_and_the_first_stays(home: Home) -> None:
    repositories = {"acme": simple(home), "other": home.marketplace("other", plugin("audit"))}
    declared = {name: {"source": {"type": "git", "url": one.url}} for name, one in repositories.items()}
    home.say("user", extraKnownMarketplaces=declared)
    home.install(AUDIT)
    with pytest.raises(ConflictError) as caught:
        home.install("audit@other")
    assert caught.value.code == "plugin_name_taken"
    home.say("user", extraKnownMarketplaces=declared, installedPlugins=[AUDIT, "audit@other"])
    assert home.boot().losses["plugin", "audit@other"].code == "plugin_name_taken"


@spec("T-PLUG-5", "R-CORE-4")
def test_the_next_boot_finds_each_plugin_in_the_state_that_was_declared(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("on"), plugin("off"), plugin("fresh"), plugin("gone")))
    for name in ("on", "off", "fresh", "gone"):
        home.install(f"{name}@acme")
    home.enable("on@acme")
    home.enable("off@acme")
    home.enable("off@acme", False)
    home.enable("gone@acme")
    home.uninstall("gone@acme")
    again = Home(home.root)
    assert [str(one.id) for one in again.boot().plugins] == ["on@acme", "off@acme", "fresh@acme"]
    assert skills_of(again) == ["on"]
    assert not (home.home / "marketplace/.store/acme/gone").exists()


@spec("T-PLUG-6", "R-PLUGIN-14")
def test_what_one_project_enables_is_nothing_to_another(home: Home) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    home.enable(AUDIT, scope="local")
    assert skills_of(home) == ["audit"]
    assert home.enable(AUDIT).scope == "local"
    shutil.rmtree(home.root / "project")
    assert skills_of(home) == []


@spec("T-PLUG-7", "R-CORE-7", "R-PLUGIN-16", "R-PLUGIN-17", "R-PLUGIN-24")
def test_everything_derived_can_be_lost_and_comes_back(home: Home) -> None:
    home.declare(simple(home, stdio("store", bundle_id="db")))
    home.install(AUDIT)
    home.enable(AUDIT)
    ledger = home.home / "installed_plugins.json"
    reference = home.ledger()
    ledger.unlink()
    assert skills_of(home) == ["audit"]
    assert {key: [one.mcp_servers for one in records] for key, records in home.ledger().items()} == {AUDIT: [["db"]]}
    shutil.rmtree(home.home / "marketplace/.store")
    assert skills_of(home) == ["audit"]
    old = {
        "version": 1,
        "plugins": {AUDIT: [{"scope": "user", "installPath": "/nowhere", "bundledMcpServers": ["store"]}]},
    }
    ledger.write_text(json.dumps(old))
    assert skills_of(home) == ["audit"]
    assert "bundledMcpServers" not in ledger.read_text()
    assert home.ledger()[AUDIT][0].install_path == reference[AUDIT][0].install_path
    shutil.rmtree(home.home)
    assert skills_of(home) == ["audit"]


@spec("R-FILE-10")
def test_a_corrupt_ledger_is_set_aside_and_made_anew(home: Home) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    (home.home / "installed_plugins.json").write_text("{")
    home.boot()
    assert AUDIT in home.ledger()
    assert len(list(home.home.glob("installed_plugins.json.corrupt-*.bak"))) == 1


@spec("R-PLUGIN-17")
def test_a_tree_that_does_not_parse_any_more_is_made_again(home: Home) -> None:
    home.declare(simple(home, stdio("store")))
    root = home.install(AUDIT).bundle.root
    (root / "mcp-servers/store.json").write_text("{")
    (one,) = home.boot().plugins
    assert one.fault is None
    assert json.loads((root / "mcp-servers/store.json").read_text())["name"] == "store"


@spec("T-ORIG-7", "R-PLUGIN-30")
def test_an_uninstall_knows_its_servers_from_the_ledger_when_the_tree_is_gone(home: Home) -> None:
    home.declare(simple(home, stdio("store", bundle_id="db")))
    root = home.install(AUDIT).bundle.root
    shutil.rmtree(root)
    departure = operations.withdraw(home.site, home.settings(), parse_plugin_id(AUDIT), None)
    assert departure.servers == ("db",)
    operations.discard(home.site, parse_plugin_id(AUDIT))
    assert home.said()["installedPlugins"] == []
    assert home.ledger() == {}


@spec("R-PLUGIN-29")
def test_an_uninstall_takes_every_opinion_along(home: Home) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    home.enable(AUDIT)
    home.enable(AUDIT, False, "local")
    home.uninstall(AUDIT)
    assert home.said().get("enabledPlugins", {}) == {}
    assert home.said("local").get("enabledPlugins", {}) == {}
    assert not home.uninstall(AUDIT).changed


@spec("R-PLUGIN-15", "R-PLUGIN-16")
def test_a_plugin_of_a_repository_of_its_own_is_fetched_once_and_kept_by_version(home: Home) -> None:
    own = home.repository("own", {"sub/skills/work/SKILL.md": skill("work")})
    first = own.git("rev-parse", "HEAD")
    entry = {"source": {"source": "git-subdir", "url": own.url, "path": "sub"}}
    market = home.repository("acme", catalog("acme", audit=entry))
    home.declare(market)
    bundle = home.install(AUDIT).bundle
    assert bundle.version == first
    assert bundle.root.name == first
    second = own.commit({"sub/skills/more/SKILL.md": skill("more")})
    assert [one.bundle.version for one in home.boot().plugins if one.bundle] == [first]
    found = home.boot(refresh=frozenset({"acme"}))
    assert [one.bundle.version for one in found.plugins if one.bundle] == [second]
    assert operations.sweep_versions(home.site, tuple(one.bundle for one in found.plugins if one.bundle))
    assert not bundle.root.exists()
    pinned = {"source": {**entry["source"], "sha": first}}
    market.commit(catalog("acme", audit=pinned))
    found = home.boot(refresh=frozenset({"acme"}))
    assert [one.bundle.version for one in found.plugins if one.bundle] == [first]


@spec("R-PLUGIN-26")
def test_a_plugin_that_cannot_be_fetched_stays_inert_with_its_reason(home: Home) -> None:
    entry = {"source": {"source": "url", "url": f"file://{home.root}/nowhere"}}
    home.declare(home.repository("acme", catalog("acme", audit=entry)), installedPlugins=[AUDIT])
    home.enable(AUDIT)
    assert home.boot().losses["plugin", AUDIT].category == "network"
    assert skills_of(home) == []


@spec("R-FILE-2")
def test_a_clone_an_official_sdk_made_is_used_instead_of_fetching(home: Home) -> None:
    own = home.repository("own", {"skills/work/SKILL.md": skill("work")})
    sha = own.git("rev-parse", "HEAD")
    entry = {"source": {"source": "url", "url": own.url, "sha": sha}}
    home.declare(home.repository("acme", catalog("acme", audit=entry)))
    home.boot()
    shutil.copytree(own.root, legacy_path(home.home, parse_plugin_id(AUDIT)))
    shutil.rmtree(own.root)
    assert home.install(AUDIT).bundle.version == sha


@spec("R-PLUGIN-5")
def test_a_strict_conflict_keeps_a_plugin_out(home: Home) -> None:
    files = {**plugin("audit"), "plugins/audit/.tfrobot-plugin/plugin.json": {"name": "audit", "skills": ["x"]}}
    entry = {"source": "audit", "strict": False}
    home.declare(home.repository("acme", catalog("acme", audit=entry), files))
    with pytest.raises(ConfigValidationError) as caught:
        home.install(AUDIT)
    assert caught.value.code == "strict_conflict"


@spec("R-INPUT-22")
def test_inputs_of_a_plugin_get_its_scope_and_a_faulty_one_costs_itself(home: Home) -> None:
    inputs = {"inputs": [{"type": "promptString", "id": "token", "description": "d"}, {"type": "nonsense", "id": "x"}]}
    home.declare(simple(home, stdio("store"), inputs=inputs))
    bundle = home.install(AUDIT).bundle
    assert [one.id for one in bundle.inputs] == ["audit@acme/token"]
    assert bundle.warnings


# -- administrators -----------------------------------------------------------------------------


@spec("R-GATE-8", "DEC-15", "T-GATE-6", "T-SEC-6")
@pytest.mark.parametrize(("scope", "field"), [("policy", "deniedMcpServers"), ("project", "disabledMcpjsonServers")])
def test_a_denied_server_suppresses_all_of_its_plugin_and_keeps_the_intent(home: Home, scope: str, field: str) -> None:
    home.declare(simple(home, stdio("store", bundle_id="db")))
    home.install(AUDIT)
    home.enable(AUDIT)
    home.say(scope, **{field: ["db"]})
    base = home.active()
    assert base.bundles == ()
    assert base.suppressed[AUDIT].category == "policy"
    assert home.said()["enabledPlugins"] == {AUDIT: True}
    home.say(scope)
    assert skills_of(home) == ["audit"]


@spec("R-SEC-6")
def test_policy_decides_about_a_plugin_and_nobody_else_then(home: Home) -> None:
    home.declare(simple(home))
    home.install(AUDIT)
    home.say("policy", enabledPlugins={AUDIT: False})
    with pytest.raises(PolicyError) as caught:
        home.enable(AUDIT)
    assert caught.value.code == "policy_forced"
    home.say("policy", enabledPlugins={AUDIT: True})
    for act in (lambda: home.enable(AUDIT, False), lambda: home.uninstall(AUDIT)):
        with pytest.raises(PolicyError):
            act()
    assert skills_of(home) == ["audit"]


@spec("F-111", "R-PLUGIN-22")
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_of_two_plugins_with_one_server_the_first_installed_supplies_it_and_the_clash_is_shown(
    home: Home, order: tuple[str, str]
) -> None:
    servers = {name: stdio(name, bundle_id="db", tools=tools) for name, tools in (("one", "echo"), ("two", "add"))}
    home.declare(home.marketplace("acme", *(plugin(name, server) for name, server in servers.items())))
    for name in order:
        home.install(f"{name}@acme")
        home.enable(f"{name}@acme")
    base = home.active()
    assert base.owners == {"db": f"{order[0]}@acme"}
    assert [finding.code for finding in base.findings] == ["bundled_twice"]


@spec("R-PLUGIN-4", "R-PLUGIN-13")
def test_a_version_can_be_asked_for_wherever_it_stands(home: Home) -> None:
    """In the entry, else in the plugin's own manifest, else it is the commit."""
    bare = {"plugins/bare/skills/work/SKILL.md": skill("work")}
    entry = {"tides": {"source": "tides", "version": "2.0.0"}}
    manifest = catalog("acme", "audit", "bare", **entry)
    repository = home.repository("acme", manifest, plugin("audit"), plugin("tides"), bare)
    home.declare(repository)
    commit = repository.git("rev-parse", "HEAD")
    for name, version in (("audit", "1.0.0"), ("tides", "2.0.0"), ("bare", commit)):
        with pytest.raises(ConfigValidationError) as caught:
            home.install(f"{name}@acme", "0.9.0")
        assert caught.value.code == "unknown_version"
        assert caught.value.plugin_id == f"{name}@acme"
        assert f"{name}@acme" not in home.said().get("installedPlugins", [])
        assert not versions_path(home.home, parse_plugin_id(f"{name}@acme")).exists()
        assert home.install(f"{name}@acme", version).bundle.version == version


@spec("R-PLUGIN-13")
def test_a_plugin_stays_as_it_is_when_another_version_of_it_is_asked_for_in_vain(home: Home) -> None:
    own = home.repository("own", {"skills/work/SKILL.md": skill("work")})
    manifest = catalog("acme", "audit", own={"source": {"source": "url", "url": own.url}})
    repository = home.repository("acme", manifest, plugin("audit"))
    home.declare(repository)
    for name in ("audit", "own"):
        home.install(f"{name}@acme")
    own.commit()
    before = home.everything()
    for name in ("audit", "own"):
        with pytest.raises(ConfigValidationError) as caught:
            home.install(f"{name}@acme", "0.9.0")
        assert caught.value.code == "unknown_version"
    assert home.everything() == before
    newest = own.git("rev-parse", "HEAD")
    assert home.install("own@acme", newest).bundle.version == newest


# -- marketplaces by hand -----------------------------------------------------------------------


@spec("R-FILE-6", "F-112")
def test_operations_of_several_processes_at_once_all_succeed(home: Home) -> None:
    """Each worker has a home object of its own, as a command has: adds the same marketplace, installs its plugin."""
    names = [f"ship-{number}" for number in range(6)]
    repository = home.marketplace("acme", *(plugin(name, stdio(name)) for name in names))

    def work(name: str) -> None:
        own = Home(home.root)
        marketplaces.add_marketplace(own.site, own.settings, repository.url, "acme", trust=True)
        own.install(f"{name}@acme")
        own.install(f"{names[0]}@acme")
        own.enable(f"{name}@acme")
        own.boot(refresh=frozenset({"acme"}))

    with ThreadPoolExecutor(len(names)) as pool:
        for done in [pool.submit(work, name) for name in names]:
            done.result(60)
    assert sorted(home.said()["installedPlugins"]) == [f"{name}@acme" for name in names]
    assert {bundle.plugin_id.plugin for bundle in home.active().bundles} == set(names)
    assert set(home.ledger()) == {f"{name}@acme" for name in names}
    assert list((home.home / "marketplace/.tmp").iterdir()) == []


@spec("R-FILE-3")
def test_a_home_that_an_operation_makes_is_private(home: Home) -> None:
    repository = simple(home)
    marketplaces.add_marketplace(home.site, home.settings, repository.url, "acme", trust=True)
    assert stat.S_IMODE(home.home.stat().st_mode) == 0o700


@spec("R-PLUGIN-9")
def test_adding_needs_an_explicit_word_of_trust_and_removing_takes_it_back(home: Home) -> None:
    repository = simple(home)
    with pytest.raises(PolicyError) as caught:
        marketplaces.add_marketplace(home.site, home.settings, repository.url, "acme")
    assert caught.value.code == "trust_needed"
    added = marketplaces.add_marketplace(home.site, home.settings, repository.url, "acme", trust=True)
    assert added.notes == ("acme offers 1 plugins",)
    assert home.said()["trustedMarketplaces"] == ["acme"]
    marketplaces.undeclare_marketplace(home.site, home.settings(), "acme")
    marketplaces.forget_marketplace(home.site, "acme")
    assert home.said() == {"installedPlugins": [], "extraKnownMarketplaces": {}, "trustedMarketplaces": []} or not any(
        home.said().values()
    )
    assert not catalog_path(home.home, "acme").exists()


def test_a_marketplace_that_cannot_be_fetched_leaves_no_trace(home: Home) -> None:
    for url, kind in (
        (f"file://{home.root}/nowhere", NetworkError),
        (home.repository("empty").url, ConfigValidationError),
    ):
        with pytest.raises((kind, AuthError)):
            marketplaces.add_marketplace(home.site, home.settings, url, "acme", trust=True)
        assert not any(home.said().values())
        assert not catalog_path(home.home, "acme").exists()


# -- garbage ------------------------------------------------------------------------------------


def test_a_collection_deletes_records_without_intent_and_reports_the_rest(home: Home) -> None:
    home.declare(home.marketplace("acme", plugin("kept"), plugin("orphan")))
    home.install("kept@acme")
    home.install("orphan@acme")
    said = home.said()
    broken = [*said["installedPlugins"], "nothing@acme", "x@nowhere"]
    home.say("user", **{**said, "installedPlugins": [one for one in broken if one != "orphan@acme"]})
    found = gc.collect(home.site, home.settings(), home.boot())
    assert found.removed[0] == "orphan@acme"
    assert found.dangling == {"nothing@acme": "entry-missing", "x@nowhere": "marketplace-not-added"}
    assert set(home.ledger()) == {"kept@acme"}
    assert "x@nowhere" in home.said()["installedPlugins"]
    found = gc.collect(home.site, home.settings(), home.boot(), prune_dangling=True)
    assert set(found.pruned) == {"nothing@acme", "x@nowhere"}
    assert home.said()["installedPlugins"] == ["kept@acme"]


# -- published formats --------------------------------------------------------------------------


def test_a_marketplace_in_the_published_layout_is_read_as_it_is(home: Home) -> None:
    home.declare(harbour(home.root / "repositories/harbour"), "harbour")
    audit, tides = home.install("audit@harbour").bundle, home.install("tides@harbour").bundle
    assert audit.bundle_ids == ("acme_audit_db",)
    assert [one.id for one in audit.inputs] == ["audit@harbour/token"]
    assert audit.version == "1.2.0"
    assert tides.containers == ("skills", "./extra")
    assert len(tides.version) == 40


@spec("R-PLUGIN-4", "R-PLUGIN-26")
def test_a_plugin_of_a_branch_moves_with_a_refresh_and_one_of_a_commit_never(home: Home) -> None:
    own = home.repository("own", {"skills/one/SKILL.md": skill("one")})
    commit = own.git("rev-parse", "HEAD")
    own.git("tag", "v1")
    sources = {"moving": {"ref": "main"}, "tagged": {"ref": "v1"}, "pinned": {"ref": "main", "sha": commit}}
    entries = {name: {"source": {"source": "url", "url": own.url, **at}} for name, at in sources.items()}
    home.declare(home.repository("acme", catalog("acme", **entries)))
    for name in sources:
        home.install(f"{name}@acme")

    def skills(**how: Any) -> dict[str, set[str]]:
        bundles = (one.bundle for one in home.boot(**how).plugins)
        return {one.plugin_id.plugin: {path.name for path in (one.root / "skills").iterdir()} for one in bundles if one}

    before = {name: {"one"} for name in sources}
    assert skills() == before
    own.commit({"skills/two/SKILL.md": skill("two")})
    assert skills() == before
    moved = skills(refresh=frozenset({"acme"}))
    assert moved == {"moving": {"one", "two"}, "tagged": {"one"}, "pinned": {"one"}}
    assert skills() == moved
    shutil.rmtree(own.root)
    assert skills(refresh=frozenset({"acme"})) == moved


def test_the_layouts_that_published_marketplaces_have_are_read_as_they_are(home: Home) -> None:
    """Several plugins of one root, folders of own and of others' plugins, folders and commits of other repositories."""
    others = home.repository("others", plugin("ferry-desk", stdio("desk")), {"skills/rain/SKILL.md": skill("rain")})
    commit = others.git("rev-parse", "HEAD")
    guild = Repository(shutil.copytree(GUILD, home.root / "repositories/guild"))
    manifest = guild.root / ".tfrobot-plugin/marketplace.json"
    text = re.sub(r"https://git\.example\.org/[a-z-]+/[a-z]+\.git", others.url, manifest.read_text())
    guild.commit({".tfrobot-plugin/marketplace.json": re.sub(r"(1{40}|2{40})", commit, text)})
    home.declare(guild, "guild")
    names = ("paper-work", "rope-work", "compass", "lanterns", "ferry-desk", "weather")
    for name in names:
        home.install(f"{name}@guild")
        home.enable(f"{name}@guild")
    found = home.boot()
    assert list(found.catalogs.catalogs["guild"].marketplace.plugins) == list(names)
    assert [(one.field, one.code) for one in found.findings] == [("plugins[6].source.source", "bad_choice")]
    bundles = {bundle.plugin_id.plugin: bundle for bundle in home.active().bundles}
    skills = {
        name: {Path(one.ref.path).name for one in scan.skills}
        for name, scan in zip(
            bundles, scan_plugins(list(enumerate(home.active().skills)), ForbiddenNames()), strict=True
        )
    }
    everything = {"charts", "knots", "signals"}
    assert skills == {
        "paper-work": everything,
        "rope-work": everything,
        "compass": {"bearing"},
        "lanterns": set(),
        "ferry-desk": {"work"},
        "weather": {"rain"},
    }
    assert bundles["lanterns"].bundle_ids == ("guild_lantern_keeper",)
    assert [one.id for one in bundles["lanterns"].inputs] == ["lanterns@guild/token"]
    assert bundles["compass"].version == "0.3.0"
    assert (bundles["ferry-desk"].version, bundles["weather"].version) == ("1.0.0", commit)


def test_fifty_plugins_boot_with_everything_they_bring(home: Home) -> None:
    repository = fleet(home.root / "repositories/fleet")
    ids = [f"ship-{number:02d}@fleet" for number in range(50)]
    home.declare(repository, "fleet", installedPlugins=ids, enabledPlugins=dict.fromkeys(ids, True))
    base = home.active()
    assert len(base.bundles) == 50
    assert len(base.owners) == 100


@spec("R-FILE-15", "R-FILE-16")
def test_a_home_of_an_earlier_version_keeps_what_was_active(home: Home) -> None:
    repository = simple(home)
    home.home.mkdir()
    header = "// Maintained automatically by a2c-computer. DO NOT EDIT.\n"
    known = {
        "source": {"source": "git", "url": repository.url},
        "installLocation": "/x",
        "lastUpdated": "2025-01-01T00:00:00Z",
    }
    (home.home / "known_marketplaces.json").write_text(
        header + json.dumps({"version": 1, "marketplaces": {"acme": known}})
    )
    old = {"version": 1, "plugins": {AUDIT: [{"scope": "user", "bundledMcpServers": ["x"]}]}}
    (home.home / "installed_plugins.json").write_text(header + json.dumps(old))
    home.say("user", trustedMarketplaces=["acme"])
    assert skills_of(home) == ["audit"]
    said = home.said()
    assert said["installedPlugins"] == [AUDIT]
    assert said["enabledPlugins"] == {AUDIT: True}
    assert said["extraKnownMarketplaces"]["acme"]["source"]["url"] == repository.url
    assert skills_of(home) == ["audit"]
    assert home.said() == said
