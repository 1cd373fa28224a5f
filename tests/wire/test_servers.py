"""Server entries: what is understood, and the one form in which it is written."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.wire import InvalidPayload, StdioServer, StreamableServer, read_config, read_server, to_wire
from smcp_runtime.wire.servers import FIELD_ALIASES, TRANSPORT_SPELLINGS
from support.wire_tables import PROMPT, STDIO


def streamable(**parameters: Any) -> dict[str, Any]:
    return {"type": "streamable", "name": "web", "server_parameters": {"url": "https://x", **parameters}}


@pytest.mark.spec("W-CFG-10")
def test_type_name_and_url_make_a_complete_entry() -> None:
    server = read_server(streamable())
    assert isinstance(server, StreamableServer)
    assert (server.disabled, server.bundle_id, server.server_parameters.timeout) == (False, None, "PT30S")


@pytest.mark.spec("W-CFG-10", "R-MCP-2")
def test_a_command_alone_implies_stdio() -> None:
    assert isinstance(read_server({"server_parameters": {"command": "x"}}, name="n"), StdioServer)


@pytest.mark.spec("R-MCP-2")
@pytest.mark.parametrize("entry", [{"server_parameters": {"url": "u"}}, {"type": "tcp"}, {"type": 3}, {}])
def test_a_transport_that_is_not_stated_or_unknown_is_a_fault_of_type(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload) as caught:
        read_server({"name": "n", **entry})
    assert caught.value.field == "type"


@pytest.mark.spec("W-CFG-11")
@pytest.mark.parametrize(("spelling", "canonical"), sorted(TRANSPORT_SPELLINGS.items()))
def test_every_spelling_of_a_transport_is_read_and_one_is_written(spelling: str, canonical: str) -> None:
    entry = {"type": spelling, "server_parameters": {"command": "x", "url": "u"}}
    assert to_wire(read_server(entry, name="n"))["type"] == canonical


@pytest.mark.spec("W-CFG-11")
def test_every_spelling_of_a_field_is_read_and_one_is_written() -> None:
    entry = {
        "type": "stdio",
        "name": "n",
        "bundleId": "b",
        "forbiddenTools": ["t"],
        "toolMeta": {"t": {}},
        "defaultToolMeta": {"tags": ["x"]},
        "serverParameters": {"command": "x"},
        "env_file": ".env",
        "healthCheck": {},
        "reconnectPolicy": {},
    }
    assert set(FIELD_ALIASES) <= set(entry)
    written = to_wire(read_server(entry))
    assert not set(FIELD_ALIASES) & set(written)
    assert (written["bundle_id"], written["forbidden_tools"]) == ("b", ("t",))


@pytest.mark.spec("W-CFG-3")
def test_local_keys_do_not_survive_into_the_wire_form() -> None:
    entry = STDIO | {"envFile": "/home/u/.env", "oauth": {"mode": "x"}, "health_check": {}, "reconnect": {}}
    assert set(to_wire(read_server(entry))) == set(STDIO)


@pytest.mark.spec("W-CFG-12")
@pytest.mark.parametrize(
    ("given", "written"), [(10, "PT10S"), (90.5, "PT1M30.5S"), ("PT90S", "PT1M30S"), (93600, "P1DT2H"), (None, "PT30S")]
)
def test_streamable_times_are_read_in_both_forms_and_written_in_one(given: Any, written: str) -> None:
    server = read_server(streamable(timeout=given))
    assert isinstance(server, StreamableServer)
    assert server.server_parameters.timeout == written


@pytest.mark.spec("W-CFG-12")
@pytest.mark.parametrize("given", ["30s", -1, True, [], "PT"])
def test_a_time_that_is_no_duration_is_named(given: Any) -> None:
    with pytest.raises(InvalidPayload) as caught:
        read_server(streamable(sse_read_timeout=given))
    assert caught.value.field == "server_parameters.sse_read_timeout"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"disabled": "yes"}, "disabled"),
        ({"disabled": 1}, "disabled"),
        ({"name": None}, "name"),
        ({"server_parameters": None}, "server_parameters"),
        ({"server_parameters": {"command": ""}}, "server_parameters.command"),
        ({"server_parameters": {"command": "x", "args": "y"}}, "server_parameters.args"),
        ({"server_parameters": {"command": "x", "env": {"A": 1}}}, "server_parameters.env[...]"),
        (
            {"server_parameters": {"command": "x", "encoding_error_handler": "x"}},
            "server_parameters.encoding_error_handler",
        ),
        ({"tool_meta": {"t": 1}}, "tool_meta[...]"),
    ],
)
def test_a_fault_in_an_entry_is_named_by_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        read_server(STDIO | change)
    assert caught.value.field == field


def test_the_key_of_the_map_is_the_name_only_when_none_is_given() -> None:
    assert read_server(STDIO, name="key").name == STDIO["name"]
    assert read_server(STDIO | {"name": None}, name="key").name == "key"


@pytest.mark.spec("W-CFG-1")
def test_a_configuration_is_read_under_its_bundle_ids() -> None:
    config, notes = read_config({"servers": {"git": STDIO}, "inputs": [PROMPT]})
    assert config.servers["git"].bundle_id == "git"
    assert config.inputs is not None
    assert config.inputs[0].id == "i"
    assert notes == ()


@pytest.mark.spec("W-CFG-11", "W-GEN-2")
def test_one_entry_in_a_form_we_do_not_know_hides_no_other() -> None:
    ret = {
        "servers": {"http": streamable() | {"type": "http"}, "odd": {"type": "carrier-pigeon"}, "git": STDIO},
        "inputs": [{"type": "number", "id": "n", "description": "d"}, PROMPT],
    }
    config, notes = read_config(ret)
    assert list(config.servers) == ["http", "git"]
    assert [item.id for item in config.inputs or ()] == ["i"]
    assert notes == (
        "server odd set aside: type is not one of stdio, streamable, sse",
        "input 0 set aside: type is not one of promptString, pickString, command",
    )


@pytest.mark.parametrize("value", [None, {}, {"servers": []}, {"servers": None}, {"servers": {}, "inputs": {}}])
def test_a_configuration_without_its_outline_is_refused(value: Any) -> None:
    with pytest.raises(InvalidPayload):
        read_config(value)


def test_inputs_that_are_absent_stay_absent() -> None:
    assert read_config({"servers": {}})[0].inputs is None
