"""The rules of plugins that need no disk: names, urls, paths, manifests, trust, recycling, migrations."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from smcp_runtime.actors.plugins.containment import path_fault
from smcp_runtime.actors.plugins.git_urls import (
    expanded,
    holds_credentials,
    is_git_url,
    over_https,
    protocols_of,
    without_credentials,
)
from smcp_runtime.actors.plugins.ids import PluginId, check_marketplace_name, parse_plugin_id
from smcp_runtime.actors.plugins.manifest import (
    Entry,
    PluginManifest,
    Source,
    containers_of,
    read_marketplace,
    read_plugin_manifest,
    read_source,
    strict_conflict,
)
from smcp_runtime.actors.plugins.migrations import migration
from smcp_runtime.actors.plugins.recycling import reclaimed
from smcp_runtime.actors.plugins.store import plugin_path, segment
from smcp_runtime.actors.plugins.trust import is_trust_enabled, refusal
from smcp_runtime.actors.reconcile.config.declaration import Declaration
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import read_entry
from smcp_runtime.actors.reconcile.scopes.settings import Settings, SettingsLayer, merge
from smcp_runtime.actors.reconcile.server_set import Layer, Origin
from smcp_runtime.wire.errors import ConfigValidationError

spec = pytest.mark.spec
ESCAPES = [
    "..",
    "../x",
    "./a/../../x",
    "/etc/passwd",
    "C:/x",
    "c:\\x",
    "a\\..\\..\\x",
    "%2e%2e/x",
    "%252e%252e/x",
    "a/%2e%2e/%2e%2e/x",
    "..%2fx",
    "%2fetc",
    "~/x",
    "a\x00b",
    "",
    ".git/hooks",
    "a/.GIT/x",
]


@spec("R-PLUGIN-1")
@pytest.mark.parametrize(
    "text", ["audit", "@acme", "audit@", "Audit@acme", "a--b@m", "-a@m", "a@m@n", "a/b@m", "a" * 65 + "@m"]
)
def test_an_id_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        parse_plugin_id(text)
    assert caught.value.code == "bad_plugin_id"


@spec("R-PLUGIN-1")
def test_both_names_of_an_id_are_strict_kebab_case() -> None:
    assert parse_plugin_id("audit-2@acme") == PluginId("audit-2", "acme")
    with pytest.raises(ConfigValidationError):
        check_marketplace_name("Acme")


@spec("R-PLUGIN-2")
@pytest.mark.parametrize(
    "url",
    ["https://h/x.git", "http://h/x", "ssh://git@h/x", "git://h/x", "file:///srv/x", "git@github.com:owner/repo.git"],
)
def test_the_five_schemes_and_the_short_ssh_form_are_git_urls(url: str) -> None:
    assert is_git_url(url)


@spec("R-PLUGIN-2", "R-SEC-12")
@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "ext::sh",
        "fd::17",
        "--upload-pack=touch /tmp/x",
        "-x",
        "ssh://-oProxyCommand=touch/x",
        "git@-oProxyCommand=x:y",
        "file://host/x",
        "https://",
        "https://h/a b",
        "https://h/\nx",
        "/srv/x",
        "owner/repo",
        "",
        "https://me:pw@[h/x",
        "https://h:port/x",
    ],
)
def test_nothing_else_is_a_git_url(url: str) -> None:
    assert not is_git_url(url)


@spec("R-PLUGIN-2")
def test_owner_and_repository_mean_github_and_nothing_else_is_expanded() -> None:
    assert expanded("owner/repo") == "https://github.com/owner/repo.git"
    assert expanded("https://h/x") == "https://h/x"


@spec("R-PLUGIN-7")
def test_an_ssh_url_has_a_form_over_https() -> None:
    assert over_https("git@h:o/r.git") == "https://h/o/r.git"
    assert over_https("ssh://git@h:22/o/r") == "https://h/o/r"
    assert over_https("https://h/o/r") is None


@spec("R-PLUGIN-6", "F-114")
@pytest.mark.parametrize("text", ESCAPES)
def test_a_path_that_could_leave_its_tree_is_refused_in_every_field_before_any_read(text: str) -> None:
    assert path_fault(text) is not None
    places: list[dict[str, Any]] = [
        {"metadata": {"pluginRoot": text}},
        {"plugins": [{"name": "a", "source": text}]},
        {"plugins": [{"name": "a", "source": "a", "skills": text}]},
        {"plugins": [{"name": "a", "source": "a", "skills": ["fine", text]}]},
        {"plugins": [{"name": "a", "source": {"source": "git-subdir", "url": "o/r", "path": text}}]},
    ]
    for place in places:
        findings = Findings()
        read_marketplace({"name": "m", "owner": {"name": "o"}, "plugins": [], **place}, findings)
        assert findings.faults, place
    findings = Findings()
    assert read_plugin_manifest({"name": "a", "skills": text}, findings).skills == ()
    assert findings.faults


@spec("R-PLUGIN-6")
@pytest.mark.parametrize("text", ["x", "./plugins", "a/b c/d", "a.b/..c", "größe", "%41"])
def test_ordinary_paths_pass(text: str) -> None:
    assert path_fault(text) is None


@spec("R-PLUGIN-4")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("./tools/x", Source("./tools/x")),
        ("x", Source("./plugins/x")),
        ({"source": "url", "url": "https://h/x.git", "ref": "v1"}, Source(url="https://h/x.git", ref="v1")),
        ({"source": "github", "repo": "o/r"}, Source(url="https://github.com/o/r.git")),
        ({"source": "cnb", "repo": "g/p/q"}, Source(url="https://cnb.cool/g/p/q.git")),
        (
            {"source": "git-subdir", "url": "o/r", "path": "sub/x", "sha": "a" * 40},
            Source("sub/x", "https://github.com/o/r.git", None, "a" * 40),
        ),
    ],
)
def test_every_form_of_a_plugin_source_is_understood(raw: Any, expected: Source) -> None:
    findings = Findings()
    assert read_source(raw, "source", findings) == expected
    assert not findings.faults


@spec("R-PLUGIN-4", "R-PLUGIN-2")
@pytest.mark.parametrize(
    "raw",
    [
        5,
        "a/b",
        {"source": "npm", "package": "x"},
        {"source": "url"},
        {"source": "url", "url": "ext::sh -c x"},
        {"source": "url", "url": "https://h/x", "ref": "--upload-pack=x"},
        {"source": "url", "url": "https://h/x", "ref": "a..b"},
        {"source": "url", "url": "https://h/x", "sha": "abc"},
        {"source": "github", "repo": "-o/r"},
        {"source": "github", "repo": "o/../r"},
        {"source": "git-subdir", "url": "https://h/x"},
    ],
)
def test_a_source_of_another_form_is_a_fault_with_its_place(raw: Any) -> None:
    findings = Findings()
    assert read_source(raw, "plugins[0].source", findings) is None
    assert all(fault.field.startswith("plugins[0].source") for fault in findings.faults)
    assert findings.faults


@spec("R-PLUGIN-6")
def test_of_two_entries_with_one_name_the_first_counts_and_a_faulty_one_costs_itself_only() -> None:
    findings = Findings()
    entries = [
        {"name": "a", "source": "one"},
        {"name": "a", "source": "two"},
        {"name": "B"},
        {"name": "c", "source": "c"},
    ]
    found = read_marketplace({"name": "m", "owner": {"name": "o"}, "plugins": entries}, findings)
    assert found is not None
    assert {name: entry.source.path for name, entry in found.plugins.items()} == {
        "a": "./plugins/one",
        "c": "./plugins/c",
    }
    assert [warning.code for warning in findings.warnings] == ["duplicate_plugin"]
    assert {fault.field for fault in findings.faults} == {"plugins[2].name", "plugins[2].source"}


@spec("R-PLUGIN-5")
@pytest.mark.parametrize("component", ["commands", "agents", "hooks", "skills", "mcpServers", "lspServers"])
def test_an_entry_that_is_not_strict_excludes_components_in_the_plugins_own_manifest(component: str) -> None:
    manifest = read_plugin_manifest({"name": "a", component: ["x"]}, Findings())
    assert strict_conflict(Entry("a", Source(), strict=False), manifest)
    assert strict_conflict(Entry("a", Source()), manifest) is None


@spec("R-PLUGIN-5", "C-SKILL-52")
def test_containers_are_the_usual_one_the_entrys_and_when_strict_the_plugins() -> None:
    manifest = PluginManifest("a", skills=("mine", "skills"))
    assert containers_of(Entry("a", Source(), skills=("more",)), manifest) == ("skills", "more", "mine")
    assert containers_of(Entry("a", Source(), skills=("more",), strict=False), manifest) == ("skills", "more")


@spec("R-PLUGIN-16")
@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.2.0", "1.2.0"), ("v1+b", "v1_b-"), ("../../x", "_.._x-"), (".hidden", "hidden-"), ("x" * 80, "x" * 64 + "-")],
)
def test_a_version_names_one_directory_and_never_leaves_it(version: str, expected: str) -> None:
    made = segment(version)
    assert made == expected if expected == version else made.startswith(expected)
    assert "/" not in made
    assert not made.startswith(".")


@spec("R-PLUGIN-16")
def test_versions_that_look_alike_get_different_directories(tmp_path: Any) -> None:
    one, other = (plugin_path(tmp_path, PluginId("a", "m"), version) for version in ("1/2", "1_2"))
    assert one != other
    assert one.parent == other.parent == tmp_path / "marketplace/.store/m/a"


# -- trust --------------------------------------------------------------------------------------


def settings(*layers: tuple[Origin, dict[str, Any]]) -> Settings:
    return merge(SettingsLayer(origin, origin, values) for origin, values in layers)


def known(url: str = "https://h/m") -> dict[str, Any]:
    return {"extraKnownMarketplaces": {"m": {"source": {"type": "git", "url": url}}}}


@spec("R-PLUGIN-8", "T-MKT-6")
@pytest.mark.parametrize(
    ("layers", "fetched"),
    [
        ([("user", known())], True),
        ([("local", known())], True),
        ([("embed", known())], True),
        ([("project", known())], False),
        ([("project", known()), ("user", {"trustedMarketplaces": ["m"]})], True),
        ([("user", known()), ("project", known("https://evil/m"))], False),
        ([("user", {**known(), "trustedMarketplaces": ["m"]}), ("project", known("https://evil/m"))], False),
        ([("user", known()), ("project", {"blockedMarketplaces": ["m"]})], False),
        ([("user", {**known(), "trustedMarketplaces": ["m"], "blockedMarketplaces": ["m"]})], False),
        ([("user", {**known(), "strictKnownMarketplaces": True})], False),
        ([("user", {**known(), "trustedMarketplaces": ["m"], "strictKnownMarketplaces": True})], True),
        ([("policy", {**known(), "strictKnownMarketplaces": True})], True),
    ],
)
def test_a_marketplace_is_fetched_only_on_the_word_of_somebody_trusted(layers: Any, fetched: bool) -> None:
    assert (refusal("m", settings(*layers)) is None) is fetched


@spec("R-GATE-9")
@pytest.mark.parametrize(
    ("layers", "trusted"),
    [
        ([("project", True)], False),
        ([("user", True)], True),
        ([("user", True), ("project", True)], True),
        ([("user", True), ("project", False)], False),
        ([("user", True), ("project", False), ("local", True)], True),
        ([("user", False), ("project", True)], False),
        ([], False),
    ],
)
def test_a_plugin_is_enabled_with_trust_when_a_judge_says_so_and_nobody_above_objects(
    layers: Any, trusted: bool
) -> None:
    said = settings(*((origin, {"enabledPlugins": {"a@m": value}}) for origin, value in layers))
    assert is_trust_enabled("a@m", said) is trusted


# -- recycling ----------------------------------------------------------------------------------


def layer(origin: Origin) -> Layer:
    raw = {"name": "x", "type": "stdio", "server_parameters": {"command": "c"}, "bundle_id": "X"}
    entry = read_entry(raw, "", Findings())
    assert entry is not None
    return Layer(origin, Declaration(origin, (entry,)))


@spec("R-PLUGIN-27", "R-PLUGIN-28", "T-ORIG-1", "T-ORIG-2", "T-ORIG-3", "T-ORIG-4", "T-ORIG-6")
@pytest.mark.parametrize(
    ("origins", "expected"),
    [
        (["flag"], ()),
        (["embed"], ()),
        (["plugin"], ("X",)),
        (["plugin", "flag"], ()),
        (["plugin", "user"], ()),
        (["user"], ()),
        (["project"], ()),
        (["local"], ()),
        (["policy"], ()),
    ],
)
def test_a_server_is_reclaimed_only_when_no_other_origin_declares_it(origins: list[Origin], expected: Any) -> None:
    assert reclaimed(["X"], {}, [layer(origin) for origin in origins]) == expected


@spec("R-PLUGIN-27", "T-ORIG-5")
def test_a_server_two_plugins_declare_is_reclaimed_with_the_second() -> None:
    assert reclaimed(["X"], {"b@m": ["X"]}, [layer("plugin")]) == ()
    assert reclaimed(["X"], {}, [layer("plugin")]) == ("X",)


# -- migrations ---------------------------------------------------------------------------------


@spec("R-FILE-15")
def test_what_the_ledger_of_an_earlier_version_holds_becomes_intent_once() -> None:
    patch = migration({}, ["off@m"], ["on@m", "off@m", "Not An Id"], {})
    assert patch["installedPlugins"] == ["on@m", "off@m"]
    assert patch["enabledPlugins"] == {"on@m": True}
    assert "installedPlugins" not in migration({"installedPlugins": []}, [], ["on@m"], {})


@spec("R-FILE-16")
def test_marketplaces_that_only_the_records_know_are_adopted_when_the_user_refers_to_them() -> None:
    source = {"type": "git", "url": "https://h/x"}
    records = {
        "trusted": {"source": source, "autoUpdate": True},
        "used": {"source": source},
        "stray": {"source": source},
        "odd": {"source": {"url": "ext::sh"}},
    }
    user = {"trustedMarketplaces": ["trusted", "odd"], "installedPlugins": ["a@used"]}
    assert migration(user, [], [], records) == {
        "extraKnownMarketplaces": {"trusted": {"source": source, "autoUpdate": True}, "used": {"source": source}}
    }
    assert migration({**user, "extraKnownMarketplaces": {}}, [], [], records) == {}


@spec("R-PLUGIN-7", "R-SEC-12")
@pytest.mark.parametrize(
    ("url", "spoken"),
    [
        ("https://a.example/x", "https:ssh"),
        ("ssh://git@a.example/x", "ssh:https"),
        ("git@a.example:x", "ssh:https"),
        ("file:///srv/x", "file"),
    ],
)
def test_git_speaks_no_protocol_that_a_url_does_not_call_for(url: str, spoken: str) -> None:
    assert protocols_of(url) == spoken


@spec("R-SEC-12")
def test_a_password_in_a_url_is_in_no_list_of_processes_and_goes_to_its_host_alone() -> None:
    shown, (named,) = without_credentials("https://me:s3%2Fcret@git.example:8443/x.git")
    assert shown == "https://git.example:8443/x.git"
    assert named["GIT_CONFIG_KEY_0"] == "http.https://git.example:8443/.extraHeader"
    assert base64.b64decode(named["GIT_CONFIG_VALUE_0"].rpartition(" ")[2]) == b"me:s3/cret"
    for url in ("https://git.example/x.git", "ssh://git@git.example/x.git", "git@git.example:x.git"):
        assert without_credentials(url) == (url, ({},))


@spec("R-SEC-1", "R-SEC-12")
def test_a_user_alone_is_first_a_name_and_then_a_token_and_in_no_list_of_processes() -> None:
    shown, (name, token) = without_credentials("https://t%2Fk@git.example/x.git")
    assert shown == "https://git.example/x.git"
    assert (name["GIT_CONFIG_KEY_0"], name["GIT_CONFIG_VALUE_0"]) == ("credential.https://git.example.username", "t/k")
    assert base64.b64decode(token["GIT_CONFIG_VALUE_0"].rpartition(" ")[2]) == b"t/k:"
    for url in ("https://t%00k@git.example/x.git", "https://t%0Ak@git.example/x.git"):
        shown, (token,) = without_credentials(url)
        assert shown == "https://git.example/x.git"
        assert token["GIT_CONFIG_KEY_0"] == "http.https://git.example/.extraHeader"


@spec("R-SEC-2")
@pytest.mark.parametrize(
    ("url", "holds"),
    [
        ("https://ghp_token@h/x", True),
        ("http://me@h/x", True),
        ("https://me:@h/x", True),
        ("https://me:pw@h/x", True),
        ("ssh://me:pw@h/x", True),
        ("ssh://git@h/x", False),
        ("git@h:x", False),
        ("https://h:8443/x@1", False),
        ("https://@h/x", False),
        ("file:///srv/a:b@c", False),
    ],
)
def test_over_http_a_user_alone_is_a_credential_and_elsewhere_a_password_is(url: str, holds: bool) -> None:
    assert holds_credentials(url) is holds
