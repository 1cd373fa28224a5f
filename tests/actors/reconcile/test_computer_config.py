"""Configurations of a Computer: many forms, one intent, and all faults at once."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.computer_config import (
    ComputerConfig,
    ParsedConfig,
    canonical,
    parse_computer_config,
)
from smcp_runtime.actors.reconcile.config.declaration import read_mcp_file
from smcp_runtime.actors.reconcile.config.findings import findings_of
from smcp_runtime.wire.errors import (
    ConfigValidationError,
    ConflictError,
    PolicyError,
    SmcpError,
    from_failure,
    to_failure,
)

spec = pytest.mark.spec
FIXTURES = Path(__file__).parents[3] / "fixtures" / "configs"


def parse(**raw: Any) -> ParsedConfig:
    return parse_computer_config({"name": "desk", **raw})


def config(**raw: Any) -> ComputerConfig:
    return parse(**raw).config


def error(raw: Any) -> SmcpError:
    with pytest.raises(SmcpError) as caught:
        parse_computer_config(raw)
    return caught.value


def places(**raw: Any) -> list[str]:
    return [finding.field for finding in findings_of(error({"name": "desk", **raw}))]


class TestForms:
    @spec("T-CFG-1", "R-CFG-1", "T-START-1")
    def test_the_least_configuration_is_a_name_and_reading_it_touches_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("touched the world")

        for holder, name in ((socket, "socket"), (subprocess, "Popen"), (Path, "open"), (Path, "write_text")):
            monkeypatch.setattr(holder, name, refuse)
        assert config() == ComputerConfig(name="desk")

    @spec("T-CFG-5", "R-CFG-7")
    def test_t_cfg_5_snake_camel_list_and_map_forms_give_the_same_intent(self) -> None:
        server = {"type": "stdio", "server_parameters": {"command": "c"}}
        snake = {
            "name": "desk",
            "display": {"title": "t"},
            "mcp_servers": [{"name": "a", **server}],
            "skills": ["/s"],
            "marketplaces": {"acme": {"source": {"type": "git", "url": "https://h/r.git"}}},
            "trusted_marketplaces": ["acme"],
            "strict_known_marketplaces": True,
            "installedPlugins": ["p@acme"],
            "enabledPlugins": {"p@acme": True},
            "settings_policy": {"landingRoot": "/l"},
            "connection": {"url": "http://h:1", "office_id": "o", "socketio_path": "/p", "auto_connect": True},
        }
        camel = {
            "computerName": "desk",
            "displayMetadata": {"title": "t"},
            "mcpServers": {"a": {"command": "c"}},
            "skillRoots": {"roots": ["/s"]},
            "extraKnownMarketplaces": snake["marketplaces"],
            "trustedMarketplaces": ["acme"],
            "strictKnownMarketplaces": True,
            "installed_plugins": ["p@acme"],
            "plugin_enablement": {"p@acme": True},
            "settings": {"landingRoot": "/l"},
            "connection": {"serverUrl": "http://h:1", "officeId": "o", "socketioPath": "/p", "autoConnect": True},
        }
        assert parse_computer_config(snake).config == parse_computer_config(camel).config

    @spec("R-CFG-4")
    def test_a_name_and_its_alias_may_both_stand_when_they_agree(self) -> None:
        assert config(computerName="desk").name == "desk"
        assert places(computerName="other") == ["computerName"]
        assert places(mcp_servers=[], servers={"a": {"command": "c"}}) == ["servers"]

    @spec("R-MCP-1")
    def test_the_two_file_forms_of_servers_are_merged(self) -> None:
        both = config(servers={"a": {"command": "c"}}, mcpServers={"b": {"command": "c"}})
        assert [entry.bundle_id for entry in both.servers] == ["a", "b"]

    @spec("R-CFG-5")
    def test_unknown_top_level_keys_are_kept_and_reported(self) -> None:
        parsed = parse(future={"x": 1})
        assert parsed.config.extra == {"future": {"x": 1}}
        assert [warning.field for warning in parsed.warnings] == ["future"]
        assert canonical(parsed.config)["future"] == {"x": 1}

    @pytest.mark.parametrize(
        "name", ["minimal", "demo", "degraded", "forbidden", "same_tool", "secret", "stdio", "twin"]
    )
    def test_the_canonical_form_reads_back_as_the_same_intent(self, name: str) -> None:
        parsed = parse_computer_config((FIXTURES / f"{name}.json").read_bytes()).config
        assert parse_computer_config(json.dumps(canonical(parsed))).config == parsed

    @spec("R-MCP-8", "R-FIX-2")
    def test_equal_names_with_different_ids_are_two_servers(self) -> None:
        parsed = parse_computer_config((FIXTURES / "twin.json").read_bytes()).config
        assert [(entry.name, entry.bundle_id) for entry in parsed.servers] == [
            ("filesystem", "fs_user"),
            ("filesystem", "fs_other"),
        ]

    @spec("F-109", "R-MCP-8")
    def test_one_command_with_different_variables_is_two_servers(self) -> None:
        servers = {name: {"command": "c", "env": {"X": name}} for name in ("a", "b")}
        assert len(config(servers=servers).servers) == 2


class TestFaults:
    @spec("T-CFG-2", "R-CFG-2")
    def test_t_cfg_2_a_wrong_shape_names_field_and_expectation(self) -> None:
        refused = error({"name": "desk", "mcp_servers": 5})
        assert isinstance(refused, ConfigValidationError)
        assert (refused.category, refused.field) == ("validation", "mcp_servers")
        assert "must be an array or an object of servers, not a number" in refused.message

    @spec("R-CFG-2")
    def test_one_error_carries_every_fault_with_its_path(self) -> None:
        refused = error((FIXTURES / "bad_fields.json").read_bytes())
        assert [finding.field for finding in findings_of(refused)] == [
            "name",
            "mcp_servers[0].type",
            "mcp_servers[1].forbiden_tools",
            "mcp_servers[2].bundle_id",
            "inputs[0].description",
            "inputs[0].type",
        ]

    @spec("R-CFG-2")
    def test_findings_survive_the_bus(self) -> None:
        refused = error({"name": "", "mcp_servers": 5})
        assert findings_of(from_failure(to_failure(refused))) == findings_of(refused)

    @spec("R-CFG-3", "T-CFG-4")
    def test_t_cfg_4_the_error_text_lacks_every_value(self) -> None:
        refused = error((FIXTURES / "bad_command.json").read_bytes())
        assert "sk-very-secret" not in f"{refused} {refused!r} {refused.details}"
        assert "mcp_servers[1].server_parameters.command" in refused.message

    @spec("T-CFG-3", "R-PLUGIN-1")
    def test_t_cfg_3_a_bad_plugin_id_is_refused_at_its_element(self) -> None:
        assert places(installedPlugins=["ok@acme", "Audit@acme", "audit"]) == [
            "installedPlugins[1]",
            "installedPlugins[2]",
        ]
        assert places(enabledPlugins={"audit": True}) == ["enabledPlugins.audit"]
        assert places(enabledPlugins={"a@b": 1}) == ["enabledPlugins.a@b"]

    @spec("T-CFG-6", "R-MCP-7", "W-ID-23")
    def test_t_cfg_6_two_entries_of_one_identity_are_a_conflict_that_names_both_and_the_way_out(self) -> None:
        refused = error((FIXTURES / "duplicate.json").read_bytes())
        assert isinstance(refused, ConflictError)
        assert refused.code == "duplicate_bundle_id"
        for word in ("'my.server'", "'my_server'", "bundleId"):
            assert word in refused.message

    @spec("R-MCP-7", "W-ID-23")
    def test_a_literally_repeated_key_is_a_conflict(self) -> None:
        refused = error('{"name": "d", "servers": {"a": {"command": "c"}, "a": {"command": "d"}}}')
        assert (refused.category, refused.code) == ("conflict", "duplicate_bundle_id")

    @spec("R-MCP-7")
    def test_the_two_file_forms_count_as_one_source(self) -> None:
        assert places(servers={"a b": {"command": "c"}}, mcpServers={"a_b": {"command": "d"}}) == ["mcpServers.a_b"]

    def test_a_repeated_key_elsewhere_is_no_silent_loss(self) -> None:
        text = '{"name": "d", "servers": {"a": {"command": "c", "env": {"K": "1", "K": "2"}}}}'
        assert [(f.field, f.code) for f in findings_of(error(text))] == [("servers.a.env", "repeated_key")]

    @spec("T-ENV-2", "R-INPUT-18", "F-10")
    def test_inputs_that_share_a_variable_are_a_conflict(self) -> None:
        prompt = {"description": "d", "type": "promptString"}
        refused = error({"name": "d", "inputs": [{"id": "figma-token", **prompt}, {"id": "figma_token", **prompt}]})
        assert (refused.category, refused.code) == ("conflict", "env_name_collision")
        assert "A2C_SMCP_figma_token" in refused.message

    @spec("R-CFG-2")
    def test_faults_of_several_categories_are_one_validation_error(self) -> None:
        refused = error({"name": "", "settings_policy": {"deniedMcpServers": ["a"]}})
        assert isinstance(refused, ConfigValidationError)
        assert {finding.category for finding in refused.findings} == {"validation", "policy"}

    @spec("R-SCOPE-10")
    def test_a_policy_only_field_is_refused_as_policy(self) -> None:
        refused = error({"name": "d", "settings_policy": {"allowedMcpServers": []}})
        assert isinstance(refused, PolicyError)
        assert refused.field == "settings_policy.allowedMcpServers"

    @pytest.mark.parametrize(
        ("raw", "field"),
        [
            ({"name": "a\nb"}, "name"),
            ({"name": 3}, "name"),
            ({"display": {"title": 1}}, "display.title"),
            ({"skills": ["relative"]}, "skills[0]"),
            ({"skills": {"roots": 1}}, "skills.roots"),
            ({"marketplaces": {"Bad": {}}}, "marketplaces.Bad"),
            ({"marketplaces": {"m": {"source": {"type": "git", "url": "nope"}}}}, "marketplaces.m.source.url"),
            ({"marketplaces": {"m": {"source": {"type": "npm", "url": "https://h/r"}}}}, "marketplaces.m.source.type"),
            (
                {"marketplaces": {"m": {"source": {"type": "git", "url": "https://h/r", "ref": "x"}}}},
                "marketplaces.m.source.ref",
            ),
            ({"trusted_marketplaces": [1]}, "trusted_marketplaces[0]"),
            ({"strict_known_marketplaces": "yes"}, "strict_known_marketplaces"),
            ({"settings": {"landingRoot": "here"}}, "settings.landingRoot"),
            ({"settings": {"disabledMcpjsonServers": ["my.server"]}}, "settings.disabledMcpjsonServers[0]"),
            ({"settings": {"mcpServerRuntime": {"defaults": {"x": 1}}}}, "settings.mcpServerRuntime.defaults.x"),
            ({"connection": {"url": "ftp://h"}}, "connection.url"),
            ({"connection": {"namespace": "smcp"}}, "connection.namespace"),
            ({"connection": {"surprise": 1}}, "connection.surprise"),
            ({"connection": {"headers": {"h": 1}}}, "connection.headers.h"),
            ({"connection": {"auth": {"deep": {}}}}, "connection.auth.deep"),
        ],
    )
    def test_each_family_names_the_place_of_its_fault(self, raw: dict[str, Any], field: str) -> None:
        assert places(**raw) == [field]

    @spec("R-LIFE-22", "T-CONN-1")
    def test_a_role_in_auth_is_refused_and_no_auth_value_is_shown(self) -> None:
        refused = error({"name": "d", "connection": {"auth": {"role": "computer", "token": "tok-123", "x": []}}})
        assert [finding.field for finding in findings_of(refused)] == ["connection.auth.role", "connection.auth.x"]
        assert "tok-123" not in str(refused)

    @spec("R-GATE-5", "T-GATE-4")
    def test_a_display_name_in_a_gate_list_gets_the_hint_of_its_id(self) -> None:
        refused = error({"name": "d", "settings": {"enabledMcpjsonServers": ["my.server"]}})
        assert "'my_server'" in refused.message

    def test_the_repr_of_a_configuration_shows_no_values(self) -> None:
        shown = repr(config(connection={"url": "http://h", "auth": {"token": "tok-123"}}))
        assert "tok-123" not in shown


class TestMcpFiles:
    def test_the_native_and_the_ecosystem_form_are_read(self) -> None:
        for name in ("mcp_native", "mcp_ecosystem"):
            declaration, findings = read_mcp_file((FIXTURES / f"{name}.json").read_bytes(), name)
            assert findings.faults == []
            assert declaration.servers

    @spec("R-MCP-7", "T-CFG-6", "R-SCOPE-13", "DEC-15")
    def test_of_a_tolerated_file_neither_twin_is_registered_and_the_rest_stays(self) -> None:
        text = json.dumps({"servers": {name: {"command": "c"} for name in ("my.server", "my_server", "fine")}})
        declaration, findings = read_mcp_file(text, "user mcp.json")
        assert [entry.bundle_id for entry in declaration.servers] == ["fine"]
        assert (findings.faults[0].code, findings.faults[0].source) == ("duplicate_bundle_id", "user mcp.json")

    @spec("R-SCOPE-13", "W-CFG-13")
    def test_one_bad_entry_costs_itself(self) -> None:
        declaration, findings = read_mcp_file(
            json.dumps({"servers": {"a": {"command": 1}, "b": {"command": "c"}}}), "f"
        )
        assert [entry.bundle_id for entry in declaration.servers] == ["b"]
        assert findings.faults[0].field == "servers.a.command"

    @spec("R-INPUT-18")
    def test_colliding_inputs_are_all_excluded(self) -> None:
        prompt = {"description": "d", "type": "promptString"}
        inputs = [{"id": name, **prompt} for name in ("a-b", "a_b", "c")]
        declaration, findings = read_mcp_file(json.dumps({"inputs": inputs}), "f")
        assert [definition.id for definition in declaration.inputs] == ["c"]
        assert findings.faults[0].code == "env_name_collision"

    @pytest.mark.parametrize("text", ["[]", '{"servers": 1}', '{"inputs": {}}'])
    def test_a_wrong_shape_leaves_nothing_and_one_fault(self, text: str) -> None:
        declaration, findings = read_mcp_file(text, "f")
        assert (declaration.servers, declaration.inputs, len(findings.faults)) == ((), (), 1)
