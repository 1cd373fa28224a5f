"""What an Agent sees of the configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.config_projection import project_config
from smcp_runtime.actors.reconcile.server_set import Judgement, Layer, Verdict, resolve_inputs, resolve_servers
from smcp_runtime.wire.config import GetComputerConfigRet, read_config

spec = pytest.mark.spec


def projected(servers: Any, inputs: Any = (), *, verdict: Verdict = "ENABLED", budget: int = 900_000) -> dict[str, Any]:
    config = parse_computer_config({"name": "d", "servers": servers, "inputs": list(inputs)}).config
    layers = [Layer("embed", config.declaration)]
    body, _ = project_config(
        resolve_servers(layers, lambda _: Judgement(verdict)), resolve_inputs(layers).values(), budget
    )
    assert len(body) <= budget
    seen: dict[str, Any] = json.loads(body)
    return seen


def test_an_empty_configuration_has_both_members() -> None:
    assert projected({}) == {"servers": {}, "inputs": []}


@spec("W-CFG-1", "R-PROJ-2", "R-FIX-1")
def test_servers_are_keyed_by_their_identity_and_repeat_it() -> None:
    servers = projected({"echo srv (display)": {"command": "c"}})["servers"]
    assert {key: (value["bundle_id"], value["name"]) for key, value in servers.items()} == {
        "echo_srv_display": ("echo_srv_display", "echo srv (display)")
    }


@spec("W-CFG-5", "W-REL-2")
@pytest.mark.parametrize(
    ("raw", "parameters"),
    [
        ({"command": "c"}, {"command", "args", "env", "cwd", "encoding", "encoding_error_handler"}),
        ({"url": "http://u", "type": "http"}, {"url", "headers", "timeout", "sse_read_timeout", "terminate_on_close"}),
        ({"url": "http://u", "type": "sse"}, {"url", "headers", "timeout", "sse_read_timeout"}),
    ],
)
def test_every_field_is_there_with_its_default(raw: dict[str, Any], parameters: set[str]) -> None:
    server = projected({"s": raw})["servers"]["s"]
    assert set(server["server_parameters"]) == parameters
    assert set(server) == {
        "name",
        "bundle_id",
        "type",
        "disabled",
        "forbidden_tools",
        "tool_meta",
        "default_tool_meta",
        "vrl",
        "server_parameters",
    }


@spec("W-CFG-2", "R-PROJ-2", "T-PROJ-1")
def test_placeholders_stay_literal_and_literals_do_not_leave() -> None:
    server = {
        "command": "c",
        "args": ["--k", "${input:t}"],
        "env": {"A": "${input:t}", "B": "sk-1", "C": "Bearer ${env:X}"},
    }
    shown = projected({"s": server})["servers"]["s"]["server_parameters"]
    assert shown["args"] == ["--k", "${input:t}"]
    assert shown["env"] == {"A": "${input:t}", "B": "[REDACTED]", "C": "Bearer ${env:X}"}


@spec("W-CFG-4", "DEC-19", "DEC-30")
def test_urls_and_headers_are_masked() -> None:
    server = {"type": "http", "url": "https://u:p@h/mcp?k=v", "headers": {"Authorization": "Bearer sk-1"}}
    shown = projected({"s": server})["servers"]["s"]["server_parameters"]
    assert shown["url"] == "https://%5BREDACTED%5D@h/mcp?k=%5BREDACTED%5D"
    assert shown["headers"] == {"Authorization": "[REDACTED]"}


@spec("W-CFG-3", "R-PROJ-2", "W-CFG-13")
def test_local_keys_never_leave() -> None:
    stdio = {
        "command": "c",
        "envFile": "/secret/.env",
        "health_check": {"interval_secs": 9},
        "reconnect": {"max_retries": 7},
    }
    http = {"type": "http", "url": "http://u", "oauth": {"mode": "authorizationCode", "clientName": "cn"}}
    text = json.dumps(projected({"a": stdio, "b": http}))
    for word in (
        "secret",
        "envFile",
        "env_file",
        "health",
        "reconnect",
        "oauth",
        "authorizationCode",
        "embed",
        "config",
    ):
        assert word not in text


@spec("W-CFG-2", "R-MCP-17")
def test_disabled_servers_are_shown_as_disabled() -> None:
    assert projected({"s": {"command": "c", "disabled": True}})["servers"]["s"]["disabled"] is True


@spec("R-GATE-7", "R-PROJ-8")
@pytest.mark.parametrize("verdict", ["DISABLED", "PENDING"])
def test_servers_without_approval_are_not_shown(verdict: Verdict) -> None:
    assert projected({"s": {"command": "c"}}, verdict=verdict)["servers"] == {}


@spec("W-CFG-3", "R-INPUT-2", "R-INPUT-3")
def test_inputs_are_definitions_only() -> None:
    inputs = [
        {"id": "p", "description": "d", "type": "promptString", "password": True, "default": "hunter2"},
        {"id": "n", "description": "d", "type": "number", "default": 3},
    ]
    assert projected({}, inputs)["inputs"] == [
        {"id": "p", "description": "d", "type": "promptString", "password": True},
        {"id": "n", "description": "d", "type": "promptString", "default": "3"},
    ]


@spec("W-REL-2")
def test_a_placeholder_in_a_numeric_field_does_not_break_a_peers_validator() -> None:
    sse = {"type": "sse", "server_parameters": {"url": "http://u", "timeout": "${input:t}"}}
    http = {"type": "http", "server_parameters": {"url": "http://u", "terminate_on_close": "${input:b}"}}
    servers = projected({"a": sse, "b": http})["servers"]
    assert servers["a"]["server_parameters"]["timeout"] == 5.0
    assert servers["b"]["server_parameters"]["terminate_on_close"] is True


@spec("W-CFG-1", "W-CFG-12")
def test_our_own_reader_takes_the_projection_without_setting_anything_aside() -> None:
    sse = {"url": "http://u", "type": "sse"}
    servers = {"a": {"command": "c"}, "b": {"url": "http://u", "timeout": 90.5}, "c": sse}
    config, notes = read_config(projected(servers))
    assert isinstance(config, GetComputerConfigRet)
    assert (sorted(config.servers), notes) == (["a", "b", "c"], ())


@spec("DEC-33", "DEC-18")
def test_the_largest_entries_are_left_out_of_an_oversized_answer() -> None:
    servers = {"small": {"command": "c"}, "big": {"command": "c", "args": ["x" * 5_000]}}
    assert list(projected(servers, budget=3_000)["servers"]) == ["small"]


@spec("DEC-5")
def test_the_same_set_gives_the_same_bytes_whatever_its_order() -> None:
    one = {"a": {"command": "c"}, "b": {"command": "c"}}
    other = dict(reversed(one.items()))
    assert json.dumps(projected(one)) == json.dumps(projected(other))
