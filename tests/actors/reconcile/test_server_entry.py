"""One server entry in every accepted form, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry, canonical, read_entry
from smcp_runtime.actors.tools.vrl import EngineMissing

spec = pytest.mark.spec
STDIO = {"name": "s", "type": "stdio", "server_parameters": {"command": "c"}}
HTTP = {"name": "s", "type": "streamable", "server_parameters": {"url": "https://h/mcp"}}
SIGNED = {"type": "clientCredentialsJwt", "client_id": "c", "private_key_input": "k"}


def entry(raw: dict[str, Any], key: str | None = None) -> ServerEntry:
    findings = Findings()
    read = read_entry(raw, "e", findings, key=key)
    assert findings.faults == []
    assert read is not None
    return read


def faults(raw: Any, key: str | None = None) -> list[tuple[str, str]]:
    findings = Findings()
    assert read_entry(raw, "e", findings, key=key) is None
    return [(fault.field, fault.code) for fault in findings.faults]


def with_parameters(base: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    return {**base, "server_parameters": {**base["server_parameters"], **parameters}}


class TestForms:
    @spec("W-CFG-10")
    def test_type_name_and_target_alone_are_complete(self) -> None:
        assert entry(HTTP).parameters == {
            "url": "https://h/mcp",
            "headers": None,
            "timeout": "PT30S",
            "sse_read_timeout": "PT5M",
            "terminate_on_close": True,
        }

    def test_defaults_of_stdio_and_sse_parameters(self) -> None:
        assert entry(STDIO).parameters == {
            "command": "c",
            "args": [],
            "env": None,
            "cwd": None,
            "encoding": "utf-8",
            "encoding_error_handler": "strict",
        }
        sse = entry({"name": "s", "type": "sse", "server_parameters": {"url": "http://u"}})
        assert (sse.parameters["timeout"], sse.parameters["sse_read_timeout"]) == (5.0, 300.0)

    @spec("R-MCP-2")
    def test_a_command_alone_implies_stdio(self) -> None:
        assert entry({"name": "s", "server_parameters": {"command": "c"}}).type == "stdio"

    @spec("R-MCP-2")
    def test_a_native_url_without_type_is_ambiguous(self) -> None:
        assert faults({"name": "s", "server_parameters": {"url": "http://u"}}) == [("e.type", "missing")]

    @spec("R-MCP-1")
    @pytest.mark.parametrize(
        ("flat", "transport"),
        [
            ({"command": "c", "args": ["a"], "env": {"K": "v"}, "cwd": "/"}, "stdio"),
            ({"url": "http://u", "headers": {"H": "v"}, "timeout": 3}, "streamable"),
            ({"url": "http://u", "type": "sse", "timeout": 3}, "sse"),
            ({"url": "http://u", "type": "http"}, "streamable"),
        ],
    )
    def test_flat_entries_are_read_like_native_ones(self, flat: dict[str, Any], transport: str) -> None:
        native = {"type": transport, "server_parameters": {k: v for k, v in flat.items() if k != "type"}}
        assert entry(flat, key="k") == entry(native, key="k")

    @spec("R-MCP-1")
    def test_a_flat_entry_with_command_and_url_is_ambiguous(self) -> None:
        assert faults({"command": "c", "url": "http://u"}, key="k") == [("e", "ambiguous_transport")]

    @spec("R-MCP-1")
    def test_only_transport_keys_move_out_of_a_flat_entry(self) -> None:
        assert faults({"command": "c", "encoding": "utf-8"}, key="k") == [("e.encoding", "unknown_key")]

    @spec("R-MCP-1")
    def test_a_key_of_another_transport_is_refused_where_it_stands(self) -> None:
        assert faults({"command": "c", "headers": {}}, key="k") == [("e.headers", "unknown_key")]

    @spec("W-CFG-11")
    @pytest.mark.parametrize("spelled", ["http", "HTTP", "streamable-http", "streamable_http", "streamableHttp"])
    def test_every_spelling_of_streamable_is_one_type(self, spelled: str) -> None:
        assert entry({**HTTP, "type": spelled}) == entry(HTTP)

    @spec("W-CFG-11")
    def test_camel_case_and_snake_case_give_the_same_entry(self) -> None:
        meta = {"x": {"tags": ["t"]}}
        snake = {
            **STDIO,
            "bundle_id": "b",
            "forbidden_tools": ["f"],
            "tool_meta": meta,
            "default_tool_meta": {"auto_apply": True},
            "env_file": ".env",
            "health_check": {"interval_secs": 3},
            "reconnect": {"max_retries": 1},
        }
        camel = {
            "name": "s",
            "type": "STDIO",
            "serverParameters": STDIO["server_parameters"],
            "bundleId": "b",
            "forbiddenTools": ["f"],
            "toolMeta": meta,
            "defaultToolMeta": {"auto_apply": True},
            "envFile": ".env",
            "healthCheck": {"intervalSecs": 3},
            "reconnectPolicy": {"maxRetries": 1},
        }
        assert entry(snake) == entry(camel)

    @spec("R-CFG-4")
    def test_two_spellings_of_one_field_must_agree(self) -> None:
        assert entry({**STDIO, "bundle_id": "b", "bundleId": "b"}).bundle_id == "b"
        assert faults({**STDIO, "bundle_id": "b", "bundleId": "c"}) == [("e.bundleId", "alias_conflict")]

    @spec("W-CFG-12")
    @pytest.mark.parametrize(("written", "canonical_form"), [(10, "PT10S"), (90.5, "PT1M30.5S"), ("PT26H", "P1DT2H")])
    def test_durations_are_read_in_both_forms_and_kept_as_iso(self, written: Any, canonical_form: str) -> None:
        assert entry(with_parameters(HTTP, timeout=written)).parameters["timeout"] == canonical_form

    @spec("R-INPUT-6")
    @pytest.mark.parametrize("field", ["timeout", "sse_read_timeout", "terminate_on_close"])
    def test_a_pure_input_may_stand_for_a_value_that_is_no_text(self, field: str) -> None:
        assert entry(with_parameters(HTTP, **{field: "${input:x}"})).parameters[field] == "${input:x}"

    @spec("W-CFG-15")
    def test_the_canonical_form_reads_back_as_the_same_entry_and_holds_no_derived_id(self) -> None:
        read = entry(with_parameters(HTTP, headers={"A": "${input:x}"}))
        assert "bundle_id" not in canonical(read)
        assert entry(canonical(read)) == read


class TestIdentity:
    @spec("R-MCP-5", "R-MCP-6", "R-FIX-1", "W-ID-3")
    def test_the_id_is_derived_from_the_name(self) -> None:
        assert entry({**STDIO, "name": "stdio srv (display)"}).bundle_id == "stdio_srv_display"

    @spec("W-ID-5", "W-ID-6", "R-MCP-6")
    def test_without_a_usable_name_the_raw_connection_gives_the_id(self) -> None:
        raw = {"command": "node", "args": ["server.js"], "env": {"API_KEY": "${input:api_key}"}}
        assert entry(raw, key="").bundle_id == "bundle_68ae00fea9122c01"

    @spec("W-ID-2")
    @pytest.mark.parametrize("wrong", ["a.b", "a__b", "", "é"])
    def test_an_explicit_id_that_breaks_the_grammar_is_refused(self, wrong: str) -> None:
        assert faults({**STDIO, "bundle_id": wrong}) == [("e.bundle_id", "invalid_bundle_id")]

    @spec("R-MCP-8")
    def test_a_null_id_is_derived(self) -> None:
        assert entry({**STDIO, "bundle_id": None}).explicit_id is None

    def test_in_a_map_the_name_must_equal_the_key(self) -> None:
        assert entry(STDIO, key="s").name == "s"
        assert faults(STDIO, key="other") == [("e.name", "name_differs_from_key")]


class TestFaults:
    @spec("R-CFG-2", "R-CFG-5", "W-CFG-13", "W-ID-14", "R-MCP-17")
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            (5, ("e", "wrong_type")),
            ({**STDIO, "forbiden_tools": []}, ("e.forbiden_tools", "unknown_key")),
            (with_parameters(STDIO, command=7), ("e.server_parameters.command", "wrong_type")),
            (with_parameters(STDIO, command=" "), ("e.server_parameters.command", "empty")),
            (with_parameters(STDIO, args="x"), ("e.server_parameters.args", "wrong_type")),
            (with_parameters(STDIO, args=["x", 1]), ("e.server_parameters.args[1]", "wrong_type")),
            (with_parameters(STDIO, env={"K": 1}), ("e.server_parameters.env.K", "wrong_type")),
            (with_parameters(STDIO, env={"": "x"}), ('e.server_parameters.env[""]', "bad_environment")),
            (with_parameters(STDIO, env={"A=B": "x"}), ('e.server_parameters.env["A=B"]', "bad_environment")),
            (with_parameters(STDIO, env={"A": "x\0"}), ("e.server_parameters.env.A", "bad_environment")),
            (with_parameters(STDIO, encoding="klingon"), ("e.server_parameters.encoding", "bad_choice")),
            (with_parameters(HTTP, url="ftp://h/mcp"), ("e.server_parameters.url", "bad_url")),
            (with_parameters(HTTP, url="localhost:3000/mcp"), ("e.server_parameters.url", "bad_url")),
            (with_parameters(HTTP, url="http://h:port/mcp"), ("e.server_parameters.url", "bad_url")),
            (with_parameters(STDIO, url="u"), ("e.server_parameters.url", "unknown_key")),
            (
                with_parameters(STDIO, encoding_error_handler="x"),
                ("e.server_parameters.encoding_error_handler", "bad_choice"),
            ),
            (with_parameters(HTTP, headers={"a.b": 1}), ('e.server_parameters.headers["a.b"]', "wrong_type")),
            (with_parameters(HTTP, timeout="soon"), ("e.server_parameters.timeout", "bad_duration")),
            (with_parameters(HTTP, terminate_on_close="no"), ("e.server_parameters.terminate_on_close", "wrong_type")),
            ({"name": "s", "type": "stdio"}, ("e.server_parameters", "missing")),
            ({**STDIO, "type": "carrier pigeon"}, ("e.type", "bad_choice")),
            ({**STDIO, "disabled": "false"}, ("e.disabled", "wrong_type")),
            ({**STDIO, "tool_meta": {"x": {"tags": "t"}}}, ("e.tool_meta.x.tags", "wrong_type")),
            ({**STDIO, "default_tool_meta": []}, ("e.default_tool_meta", "wrong_type")),
            ({**STDIO, "health_check": {"interval_secs": 0}}, ("e.health_check.interval_secs", "bad_policy")),
            ({**STDIO, "oauth": {"mode": "x"}}, ("e.oauth", "unknown_key")),
            ({**HTTP, "oauth": {"mode": "x"}}, ("e.oauth.mode.type", "bad_choice")),
            ({**HTTP, "oauth": {}}, ("e.oauth.mode", "missing")),
            ({**HTTP, "oauth": {"mode": 5}}, ("e.oauth.mode", "wrong_type")),
            (
                {**HTTP, "oauth": {"mode": {"type": "client_credentials", "clientSecretInput": "s"}}},
                ("e.oauth.mode.clientId", "missing"),
            ),
            (
                {**HTTP, "oauth": {"mode": {"type": "private_key_jwt", "clientId": "c"}}},
                ("e.oauth.mode.privateKeyInput", "missing"),
            ),
            (
                {**HTTP, "oauth": {"mode": {**SIGNED, "clientSecretInput": "s"}}},
                ("e.oauth.mode.clientSecretInput", "unknown_key"),
            ),
            (
                {**HTTP, "oauth": {"mode": {**SIGNED, "signingAlgorithm": "none"}}},
                ("e.oauth.mode.signingAlgorithm", "bad_choice"),
            ),
            (
                {**HTTP, "oauth": {"mode": {"type": "authorizationCode", "client_secret": "s"}}},
                ("e.oauth.mode.client_secret", "unknown_key"),
            ),
            (
                {**HTTP, "oauth": {"mode": {"type": "authorizationCode", "registration": "preregistered"}}},
                ("e.oauth.mode.clientId", "missing"),
            ),
            ({k: v for k, v in STDIO.items() if k != "name"}, ("e.name", "missing")),
        ],
    )
    def test_a_fault_names_path_and_code(self, raw: Any, expected: tuple[str, str]) -> None:
        assert faults(raw) == [expected]

    @spec("R-CFG-3", "T-CFG-4", "W-CFG-13")
    def test_no_finding_quotes_a_value(self) -> None:
        findings = Findings()
        raw = with_parameters(STDIO, env={"TOKEN": ["sk-secret"]}, surprise="sk-secret", command=7)
        read_entry({**raw, "apiKey": "sk-secret"}, "e", findings)
        assert len(findings.faults) == 4
        assert "sk-secret" not in str(findings.faults)

    @spec("W-CFG-14", "R-MCP-19", "T-CFG-7")
    def test_t_cfg_7_a_syntax_error_in_vrl_is_found_at_load(self) -> None:
        assert faults({**STDIO, "vrl": "foo bar("}) == [("e.vrl", "vrl_syntax")]

    @spec("R-MCP-19")
    def test_a_script_without_an_engine_is_a_fault_and_a_blank_one_is_off(self) -> None:
        def missing(_: str) -> str | None:
            raise EngineMissing

        findings = Findings()
        assert read_entry({**STDIO, "vrl": ".a = 1"}, "e", findings, check=missing) is None
        assert findings.faults[0].code == "vrl_unavailable"
        blank = read_entry({**STDIO, "vrl": "  "}, "e", Findings(), check=missing)
        assert blank is not None
        assert blank.vrl is None

    @spec("W-META-14", "R-MCP-15", "DEC-22")
    def test_a_default_alias_is_a_warning(self) -> None:
        findings = Findings()
        assert read_entry({**STDIO, "default_tool_meta": {"alias": "a"}}, "e", findings) is not None
        assert [(warning.field, warning.code) for warning in findings.warnings] == [
            ("e.default_tool_meta.alias", "default_alias")
        ]

    @spec("R-MCP-4")
    def test_an_env_file_of_an_http_server_is_ignored_with_a_warning(self) -> None:
        findings = Findings()
        read = read_entry({**HTTP, "envFile": ".env"}, "e", findings)
        assert read is not None
        assert (read.env_file, findings.warnings[0].code) == (None, "env_file_ignored")

    def test_the_repr_of_an_entry_shows_no_values(self) -> None:
        assert "sk-1" not in repr(entry(with_parameters(STDIO, env={"T": "sk-1"})))
