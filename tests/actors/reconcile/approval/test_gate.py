"""The approval gate, step by step, and what an answer writes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from smcp_runtime.actors.reconcile.approval.answers import approving, approving_all, denying
from smcp_runtime.actors.reconcile.approval.approved import FILE_NAME, MOST, read_approved, remember_approved
from smcp_runtime.actors.reconcile.approval.fingerprint import differences, fingerprint_of, shown_shape
from smcp_runtime.actors.reconcile.approval.gate import Rules, gate, judge, rules_of
from smcp_runtime.actors.reconcile.approval.requests import pending_approvals
from smcp_runtime.actors.reconcile.config.declaration import Declaration
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry, read_entry
from smcp_runtime.actors.reconcile.files.patch import patched
from smcp_runtime.actors.reconcile.scopes.settings import SettingsLayer, merge
from smcp_runtime.actors.reconcile.scopes.trust import TRUSTED_DECLARERS
from smcp_runtime.actors.reconcile.server_set import PRECEDENCE, Judgement, Layer, Origin, SetEntry, resolve_servers
from smcp_runtime.wire.errors import ConfigValidationError

spec = pytest.mark.spec
F1, F2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def entry(name: str = "x", **parameters: Any) -> ServerEntry:
    raw: dict[str, Any] = {"type": "stdio", "name": name, "server_parameters": {"command": "run", **parameters}}
    findings = Findings()
    read = read_entry(raw, "s", findings)
    assert read is not None, findings.faults
    return read


def member(origin: Origin, of: ServerEntry | None = None) -> SetEntry:
    return SetEntry(of or entry(), origin, f"{origin} file")


TABLE: dict[str, tuple[Rules, bool, Judgement]] = {
    "1 denied by policy": (
        Rules(denied=frozenset("x"), allowed=frozenset("x"), enabled=frozenset("x"), approve_all=True),
        True,
        Judgement("DISABLED", 1, "denied by policy"),
    ),
    "2 not among the allowed": (
        Rules(allowed=frozenset("y"), enabled=frozenset("x"), approve_all=True),
        True,
        Judgement("DISABLED", 2, "not among the servers that policy allows"),
    ),
    "3 disabled": (Rules(disabled=frozenset("x")), True, Judgement("DISABLED", 3, "disabled in settings")),
    "3 disabled and enabled": (
        Rules(disabled=frozenset("x"), enabled=frozenset("x"), approve_all=True),
        False,
        Judgement("DISABLED", 3, "disabled in settings"),
    ),
    "4 declared by who is trusted": (Rules(), True, Judgement("ENABLED", 4)),
    "4 an empty list of allowed ones allows all": (Rules(allowed=frozenset()), True, Judgement("ENABLED", 4)),
    "5 approved as it is": (
        Rules(enabled=frozenset("x"), fingerprints={"x": F1}),
        False,
        Judgement("ENABLED", 5),
    ),
    "5 approved by id alone": (Rules(enabled=frozenset("x")), False, Judgement("ENABLED", 5)),
    "6 all approved": (Rules(approve_all=True), False, Judgement("ENABLED", 6)),
    "6 all approved though this one changed": (
        Rules(enabled=frozenset("x"), fingerprints={"x": F2}, approve_all=True),
        False,
        Judgement("ENABLED", 6),
    ),
    "7 approved as it was": (
        Rules(enabled=frozenset("x"), fingerprints={"x": F2}),
        False,
        Judgement("PENDING", 7, "changed since it was approved"),
    ),
    "7 nobody said anything": (Rules(), False, Judgement("PENDING", 7, "not approved yet")),
    "7 a fingerprint without an approval is none": (
        Rules(fingerprints={"x": F1}),
        False,
        Judgement("PENDING", 7, "not approved yet"),
    ),
}


@spec("R-GATE-2", "T-GATE-1", "DEC-14")
@pytest.mark.parametrize(("rules", "is_trusted", "expected"), TABLE.values(), ids=TABLE)
def test_t_gate_1_the_first_step_that_applies_decides(rules: Rules, is_trusted: bool, expected: Judgement) -> None:
    assert judge("x", F1, rules, is_trusted=is_trusted) == expected


@spec("R-GATE-3", "R-SCOPE-5", "T-GATE-3")
@pytest.mark.parametrize("origin", [origin for origin in PRECEDENCE if origin != "plugin"])
def test_only_user_embed_flag_and_policy_are_trusted_to_declare(origin: Origin) -> None:
    verdict = gate(Rules())(member(origin)).verdict
    assert verdict == ("ENABLED" if origin in TRUSTED_DECLARERS else "PENDING")
    assert (origin in TRUSTED_DECLARERS) == (origin not in ("project", "local"))


@spec("R-GATE-3", "R-GATE-10", "T-GATE-9", "R-SEC-6")
@pytest.mark.parametrize("origin", PRECEDENCE)
def test_policy_can_deny_an_entry_of_any_origin(origin: Origin) -> None:
    judgement = gate(Rules(denied=frozenset("x")))(member(origin))
    assert (judgement.verdict, judgement.step) == ("DISABLED", 1)


@spec("R-GATE-10", "R-GATE-9")
def test_a_baseline_needs_an_approval_only_where_it_is_led_through_the_trust_steps() -> None:
    baseline = member("plugin")
    assert gate(Rules())(baseline).verdict == "ENABLED"
    assert gate(Rules(), needs_trust=lambda _: True)(baseline).verdict == "PENDING"


@spec("T-GATE-2", "T-GATE-3", "R-GATE-4", "R-GATE-13", "F-08")
@pytest.mark.parametrize(
    "criterion", [{"enabledMcpjsonServers": ["x"]}, {"enableAllProjectMcpServers": True}], ids=["list", "all"]
)
@pytest.mark.parametrize("origin", ["user", "local", "embed", "flag", "policy"])
def test_an_approval_counts_from_each_trusted_scope(origin: Origin, criterion: dict[str, Any]) -> None:
    rules = rules_of(merge([SettingsLayer(origin, "file", criterion)]))
    assert gate(rules)(member("project")).verdict == "ENABLED"


@spec("R-GATE-5", "R-SEC-7", "T-GATE-7")
def test_of_two_servers_of_one_name_only_the_one_whose_id_is_approved_may_run() -> None:
    raw = {"type": "stdio", "name": "filesystem", "server_parameters": {"command": "run"}}
    twins = tuple(
        found
        for bundle_id in ("fs_user", "fs_other")
        if (found := read_entry({**raw, "bundle_id": bundle_id}, "s", Findings())) is not None
    )
    rules = Rules(enabled=frozenset({"fs_user", "filesystem"}))
    servers = resolve_servers([Layer("project", Declaration("p", twins))], gate(rules))
    assert {id_: found.verdict for id_, found in servers.items()} == {"fs_other": "PENDING", "fs_user": "ENABLED"}


@spec("T-GATE-11", "R-GATE-11")
def test_t_gate_11_no_gate_knows_names_of_bundled_servers() -> None:
    root = Path(__file__).parents[4]
    sources = [path.read_text("utf-8") for path in (root / "actors" / "reconcile").rglob("*.py")]
    assert len(sources) > 20
    for text in sources:
        assert not re.search(r"bundled_(?:server_)?names|bundledMcpServers|plugin_server_names", text)
    gate_text = (root / "actors" / "reconcile" / "approval" / "gate.py").read_text("utf-8")
    assert not re.search(r"(?:ENABLED|PENDING)\"[^\n]*plugin", gate_text)
    assert not re.search(r"\.name\b", gate_text)


class TestFingerprint:
    @spec("DEC-32", "DEC-14")
    @pytest.mark.parametrize(
        "change",
        [
            {"command": "other"},
            {"args": ["-v"]},
            {"cwd": "/srv"},
            {"env": {"TOKEN": "a", "MORE": "b"}},
            {"env": None},
        ],
    )
    def test_it_changes_with_what_is_run(self, change: dict[str, Any]) -> None:
        assert fingerprint_of(entry(env={"TOKEN": "a"})) != fingerprint_of(entry(**{"env": {"TOKEN": "a"}, **change}))

    @spec("DEC-32")
    def test_it_stays_when_a_value_rotates_or_metadata_changes(self) -> None:
        before, after = entry(env={"A": "1", "B": "2"}), entry(env={"B": "9", "A": "${input:a}"})
        assert fingerprint_of(before) == fingerprint_of(after)
        tagged = msgspec.structs.replace(before, forbidden_tools=("x",), name="y", disabled=True)
        assert fingerprint_of(tagged) == fingerprint_of(before)

    @spec("DEC-32")
    def test_its_form_is_fixed(self) -> None:
        written = (
            '{"args":["é"],"command":"run","cwd":null,"env":["A","B"],"envFile":null,"headers":[],'
            '"type":"stdio","url":null}'
        )
        digest = hashlib.sha256(written.encode()).hexdigest()
        assert fingerprint_of(entry(args=["é"], env={"B": "", "A": ""})) == f"sha256:{digest}"

    @spec("R-GATE-12")
    def test_a_difference_names_field_and_both_sides(self) -> None:
        before, after = entry(args=["-v"]), entry(args=["-v", "--all"], env={"TOKEN": "x"})
        assert differences(shown_shape(before), shown_shape(after)) == (
            'args: ["-v"] -> ["-v", "--all"]',
            'env: nothing -> ["TOKEN"]',
        )
        assert differences(shown_shape(after), shown_shape(after)) == ()


class TestRequests:
    @spec("R-GATE-12", "R-GATE-7")
    def test_a_request_says_everything_to_decide_by_and_no_value(self) -> None:
        wanted = entry("My Server", args=["${input:token}", "a b"], env={"KEY": "${env:HOST_KEY}", "S": "sk-literal"})
        (request,) = pending_approvals(
            [SetEntry(wanted, "project", "/p/mcp.json", "PENDING", reason="not approved yet")], Rules(), {}
        )
        assert (request.bundle_id, request.name, request.origin) == ("My_Server", "My Server", "project")
        assert (request.source, request.target) == ("/p/mcp.json", "run '${input:token}' 'a b'")
        assert (request.inputs, request.variables) == (("token",), ("HOST_KEY",))
        assert "sk-literal" not in repr(request)

    @spec("R-GATE-12", "DEC-14")
    def test_a_changed_server_is_shown_with_its_difference_as_far_as_it_is_known(self) -> None:
        before, now = entry(args=["a"]), entry(args=["b"])
        rules = Rules(enabled=frozenset("x"), fingerprints={"x": fingerprint_of(before)})
        pending = [SetEntry(now, "project", "f", "PENDING")]
        (known,) = pending_approvals(pending, rules, {fingerprint_of(before): shown_shape(before)})
        assert known.differences == ('args: ["a"] -> ["b"]',)
        assert pending_approvals(pending, rules, {})[0].differences == ()

    def test_what_may_run_is_not_asked_about(self) -> None:
        assert pending_approvals([member("user")], Rules(), {}) == ()


class TestAnswers:
    @spec("R-GATE-12", "T-GATE-10", "R-GATE-13")
    def test_yes_records_id_and_fingerprint_once_and_takes_a_denial_back(self) -> None:
        tree = {"enabledMcpjsonServers": ["a", 5], "disabledMcpjsonServers": ["x", "y"], "mine": 1}
        once = patched(tree, approving("x", F1)(tree))
        assert once == {
            "enabledMcpjsonServers": ["a", 5, "x"],
            "disabledMcpjsonServers": ["y"],
            "approvedMcpServerFingerprints": {"x": F1},
            "mine": 1,
        }
        assert patched(once, approving("x", F1)(once)) == once

    @spec("R-GATE-12", "T-GATE-10")
    def test_no_records_the_id_once(self) -> None:
        once = patched({}, denying("x")({}))
        assert once == {"disabledMcpjsonServers": ["x"]}
        assert patched(once, denying("x")(once)) == once

    @spec("R-GATE-12", "T-GATE-10")
    def test_all_records_the_switch(self) -> None:
        assert approving_all({}) == {"enableAllProjectMcpServers": True}

    @spec("R-FILE-8")
    def test_a_list_that_is_none_is_left_for_who_broke_it(self) -> None:
        with pytest.raises(ConfigValidationError) as caught:
            denying("x")({"disabledMcpjsonServers": "y"})
        assert caught.value.code == "corrupt_file"

    @spec("T-GATE-10", "DEC-14")
    def test_what_was_approved_runs_at_the_next_start_and_what_changed_since_is_asked_about_again(self) -> None:
        approved = entry(args=["a"])
        written = patched({}, approving("x", fingerprint_of(approved))({}))
        rules = rules_of(merge([SettingsLayer("local", "f", written)]))
        assert gate(rules)(member("project", approved)).verdict == "ENABLED"
        assert gate(rules)(member("project", entry(args=["b"]))).verdict == "PENDING"

    @spec("R-GATE-12")
    def test_a_run_that_approves_everything_needs_nothing_written(self) -> None:
        assert gate(rules_of(merge([]), approve_all=True))(member("project")).verdict == "ENABLED"


class TestApprovedFile:
    @spec("DEC-32")
    def test_shapes_are_kept_privately_by_fingerprint_and_only_so_many(self, tmp_path: Path) -> None:
        remember_approved(tmp_path, {str(number): {"n": number} for number in range(MOST)})
        remember_approved(tmp_path, {"new": {"command": "x"}, "0": {"n": 0}})
        assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
        kept = read_approved(tmp_path)
        assert len(kept) == MOST
        assert kept["new"] == {"command": "x"}
        assert "0" in kept
        assert "1" not in kept

    @pytest.mark.parametrize("content", [b"{", b"[]", b'{"approved": 5}', b'{"approved": {"x": 5}}'])
    def test_a_file_that_cannot_be_read_is_an_empty_one(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / FILE_NAME).write_bytes(content)
        assert read_approved(tmp_path) == {}
        remember_approved(tmp_path, {"a": {"b": 1}})
        assert read_approved(tmp_path) == {"a": {"b": 1}}
