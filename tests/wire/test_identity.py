"""Identity: the published vectors, the frame byte by byte, and what may be an id at all."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import bundle_id_of, derive_bundle_id, is_valid_bundle_id, read_server
from smcp_runtime.wire.errors import ConfigValidationError
from smcp_runtime.wire.identity import connection_frame, normalise_name

API = "https://api.example.com/mcp"
SSE = "https://api.example.com/sse"

VECTORS: list[tuple[str, str, dict[str, Any], str]] = [
    ("everything", "stdio", {"command": "npx", "args": ["-y", "everything"]}, "everything"),
    ("My Server!", "stdio", {"command": "npx"}, "My_Server"),
    ("a__b", "stdio", {"command": "x"}, "a_b"),
    ("a.b.c", "stdio", {"command": "x"}, "a_b_c"),
    ("a-b--c", "stdio", {"command": "x"}, "a-b--c"),
    ("__lead_trail__", "stdio", {"command": "x"}, "lead_trail"),
    ("MyServer", "stdio", {"command": "x"}, "MyServer"),
    ("whatever", "stdio", {"command": "x", "explicit": "custom_id"}, "custom_id"),
    ("你好世界", "stdio", {"command": "npx", "args": ["-y", "everything"]}, "bundle_8d2a9232fa76e8a5"),
    ("!!!@@@", "stdio", {"command": "uvx", "args": ["mcp-server-git"]}, "bundle_62515edd7632e701"),
    (
        "服务器",
        "stdio",
        {"command": "node", "args": ["a.js"], "env": {"TOKEN": "x", "DEBUG": "1"}},
        "bundle_05020ad7c2cc048d",
    ),
    ("", "streamable", {"url": API}, "bundle_b413b61fe2e77b15"),
    ("", "streamable", {"url": API, "headers": {"Authorization": "Bearer z"}}, "bundle_0706e7b45613df7a"),
    ("", "sse", {"url": SSE}, "bundle_e1d7b1216a270815"),
    (
        "",
        "stdio",
        {"command": "node", "args": ["server.js"], "env": {"API_KEY": "${input:api_key}"}},
        "bundle_68ae00fea9122c01",
    ),
    ("", "streamable", {"url": API, "headers": {"Authorization": "Bearer ${input:token}"}}, "bundle_6366b4fd89f56f6a"),
]


@pytest.mark.spec("W-ID-2", "W-ID-3", "W-ID-4", "W-ID-5", "W-ID-6", "R-MCP-6")
@pytest.mark.parametrize(("name", "transport", "connection", "bundle_id"), VECTORS)
def test_conformance_vector_gives_its_bundle_id(
    name: str, transport: str, connection: dict[str, Any], bundle_id: str
) -> None:
    assert derive_bundle_id(name, transport, **connection) == bundle_id


@pytest.mark.spec("W-ID-6", "R-MCP-6")
@pytest.mark.parametrize(("name", "transport", "connection", "bundle_id"), VECTORS)
def test_a_server_entry_gives_the_same_id_as_its_parts(
    name: str, transport: str, connection: dict[str, Any], bundle_id: str
) -> None:
    parameters = {key: value for key, value in connection.items() if key != "explicit"}
    entry = {
        "type": transport,
        "name": name,
        "bundleId": connection.get("explicit"),
        "server_parameters": parameters,
        "disabled": True,
        "forbidden_tools": ["x"],
        "vrl": "true",
    }
    assert bundle_id_of(read_server(entry)) == bundle_id


@pytest.mark.spec("W-ID-3", "R-MCP-6")
@pytest.mark.parametrize(
    ("name", "bundle_id"),
    [
        ("stdio srv (display)", "stdio_srv_display"),
        ("my.server", "my_server"),
        ("my server", "my_server"),
        ("my_server", "my_server"),
        ("my-server", "my-server"),
        ("a_-_b", "a_-_b"),
        ("--a--", "a"),
        ("-_a", "a"),
        ("a.", "a"),
        ("名a", "a"),
        ("😀a", "a"),
        ("a😀😀b", "a_b"),
        ("caf\u00e9", "caf"),
        ("cafe\u0301", "cafe"),
        ("ＡＢ１", "bundle_a9d91f81d8f0f21b"),
        ("_-_", "bundle_a9d91f81d8f0f21b"),
        ("-", "bundle_a9d91f81d8f0f21b"),
        ("é", "bundle_a9d91f81d8f0f21b"),
    ],
)
def test_further_names_give_their_bundle_id(name: str, bundle_id: str) -> None:
    assert derive_bundle_id(name, "stdio", command="x") == bundle_id


@pytest.mark.spec("W-ID-10", "W-ID-11", "W-ID-12", "W-ID-13")
def test_the_worked_example_is_encoded_byte_for_byte() -> None:
    frame = bytes.fromhex(
        "00000005 737464696f 00000003 6e7078 00000002 00000002 2d79 0000000a 65766572797468696e67 00000000"
    )
    assert connection_frame("stdio", "npx", ["-y", "everything"], {}) == frame
    assert len(frame) == 44


@pytest.mark.spec("W-ID-10")
def test_lengths_count_utf8_bytes() -> None:
    assert connection_frame("sse", "é") == b"\0\0\0\3sse" + b"\0\0\0\2\xc3\xa9" + b"\0\0\0\0"


@pytest.mark.spec("W-ID-12")
def test_map_entries_are_sorted_by_code_point_not_by_utf16_unit() -> None:
    high, astral = "\uffee", "\U0001f600"
    frame = connection_frame("sse", "u", None, {astral: "1", high: "2", "a": "3", "B": "4"})
    places = [frame.index(key.encode()) for key in ("B", "a", high, astral)]
    assert places == sorted(places)


@pytest.mark.spec("W-ID-13")
@pytest.mark.parametrize("transport", ["stdio", "streamable", "sse"])
def test_nothing_and_empty_are_the_same_count_of_zero(transport: str) -> None:
    assert connection_frame(transport, "x", None, None) == connection_frame(transport, "x", [], {})


@pytest.mark.spec("W-ID-11")
def test_the_order_of_arguments_matters_and_their_boundaries_do_too() -> None:
    frames = {connection_frame("stdio", "x", args) for args in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], [])}
    assert len(frames) == 5


@pytest.mark.spec("W-ID-14")
def test_only_connection_data_enters_the_digest() -> None:
    parameters = {"command": "x", "args": ["y"], "env": {"A": "b"}}
    bare = {"type": "stdio", "name": "!", "server_parameters": parameters}
    dressed = {
        **bare,
        "name": "?",
        "disabled": True,
        "tool_meta": {"t": {"alias": "a"}},
        "forbidden_tools": ["t"],
        "vrl": ".",
        "envFile": ".env",
        "server_parameters": {**parameters, "cwd": "/", "encoding": "latin-1", "encoding_error_handler": "ignore"},
    }
    assert bundle_id_of(read_server(bare)) == bundle_id_of(read_server(dressed))


@pytest.mark.spec("W-ID-14")
def test_times_of_an_http_server_do_not_enter_the_digest() -> None:
    def identity(**times: Any) -> str:
        entry = {"type": "streamable", "name": "!", "server_parameters": {"url": API, **times}}
        return bundle_id_of(read_server(entry))

    assert identity() == identity(timeout="PT1S", sse_read_timeout=3, terminate_on_close=False)


@pytest.mark.spec("W-ID-14")
@pytest.mark.parametrize("value", [1, True, None, 1.5, ["x"], {"x": "y"}, b"x", "\ud800"])
def test_a_header_that_is_no_text_is_a_configuration_error(value: Any) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        derive_bundle_id("", "streamable", url=API, headers={"X": value})
    assert caught.value.code == "not_text"


@pytest.mark.spec("W-ID-1", "W-ID-2")
@pytest.mark.parametrize("given_id", ["", "a.b", "a b", "a__b", "__", "é", "a/b", "a:b", "a\n", "\ud800", "ａ"])
def test_an_explicit_id_outside_the_grammar_is_a_configuration_error(given_id: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        derive_bundle_id("fine", "stdio", explicit=given_id, command="x")
    assert (caught.value.code, caught.value.field) == ("invalid_bundle_id", "bundle_id")


@pytest.mark.spec("W-ID-2")
@pytest.mark.parametrize("given_id", ["a", "_", "-", "a_", "_a", "-a-", "A-b_C", "0", "a-_-b"])
def test_an_explicit_id_inside_the_grammar_is_used_as_it_stands(given_id: str) -> None:
    assert derive_bundle_id("other name", "stdio", explicit=given_id, command="x") == given_id


@pytest.mark.spec("W-ID-1", "W-ID-3")
@given(name=st.text(max_size=20))
def test_a_normalised_name_is_empty_or_a_valid_id_that_stays_itself(name: str) -> None:
    normalised = normalise_name(name)
    assert normalised == "" or is_valid_bundle_id(normalised)
    assert normalise_name(normalised) == normalised


@pytest.mark.spec("W-ID-5")
@given(
    args=st.lists(st.text(max_size=5), max_size=3),
    env=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=4),
)
def test_the_digest_is_stable_valid_and_independent_of_the_order_of_a_map(args: list[str], env: dict[str, str]) -> None:
    turned = dict(reversed(env.items()))
    derived = derive_bundle_id("", "stdio", command="x", args=args, env=env)
    assert derived == derive_bundle_id("", "stdio", command="x", args=args, env=turned)
    assert re.fullmatch("bundle_[0-9a-f]{16}", derived)
    assert is_valid_bundle_id(derived)


@pytest.mark.spec("W-ID-10", "W-ID-11", "W-ID-12", "W-ID-13")
@given(
    args=st.lists(st.text(max_size=5), max_size=3),
    env=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=4),
)
def test_the_frame_can_be_read_back_so_no_two_connections_share_one(args: list[str], env: dict[str, str]) -> None:
    frame = connection_frame("stdio", "x", args, env)
    place = 0

    def number() -> int:
        nonlocal place
        place += 4
        return int.from_bytes(frame[place - 4 : place], "big")

    def text() -> str:
        nonlocal place
        length = number()
        place += length
        return frame[place - length : place].decode()

    assert (text(), text()) == ("stdio", "x")
    assert [text() for _ in range(number())] == args
    assert [(text(), text()) for _ in range(number())] == sorted(env.items())
    assert place == len(frame)


def test_the_fallback_is_the_first_half_of_sha256_of_the_frame() -> None:
    digest = hashlib.sha256(connection_frame("sse", "u")).hexdigest()
    assert derive_bundle_id("", "sse", url="u") == f"bundle_{digest[:16]}"
