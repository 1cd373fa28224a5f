"""Messages as bytes: composed by us, read leniently from others."""

from __future__ import annotations

import json

import msgspec
import pytest

from smcp_runtime.actors.mcp.transports import jsonrpc

spec = pytest.mark.spec


def test_what_we_compose_is_json_rpc() -> None:
    assert json.loads(jsonrpc.request(7, "tools/call", b'{"a":1}')) == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"a": 1},
    }
    assert json.loads(jsonrpc.request("listen-1", "ping", None)) == {
        "jsonrpc": "2.0",
        "id": "listen-1",
        "method": "ping",
    }
    assert json.loads(jsonrpc.notification("notifications/initialized", None)) == {
        "jsonrpc": "2.0",
        "method": "notifications/initialized",
    }
    assert json.loads(jsonrpc.answer("a", b"{}")) == {"jsonrpc": "2.0", "id": "a", "result": {}}
    assert json.loads(jsonrpc.refusal(1, -32601, 'no "x"'))["error"] == {"code": -32601, "message": 'no "x"'}


def test_arguments_laid_out_over_lines_go_out_as_one_line() -> None:
    assert json.loads(jsonrpc.one_line(b'{\r\n  "a":\n1}')) == {"a": 1}
    assert jsonrpc.one_line(b'{"a": "line\\nend"}') == b'{"a": "line\\nend"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a": [1,  2]}}', (1, None, b'{"a": [1,  2]}')),
        (b'{"id":1,"result":null}', (1, None, b"null")),
        (b'{"id":"x","method":"ping"}', ("x", "ping", b"")),
        (b'\xef\xbb\xbf{"id":1,"result":{}}', (1, None, b"{}")),
        (b'{"id":1.0,"result":{}}', (1, None, b"{}")),
        (b'{"id":1,"result":{"x":NaN}}', (1, None, b'{"x":null}')),
        (
            b'{"id":1,"result":{"a\\udc80":["\\uD83D\\uDE00\\uD83D",NaN]}}',
            (1, None, '{"a\N{REPLACEMENT CHARACTER}":["😀\N{REPLACEMENT CHARACTER}",null]}'.encode()),
        ),
        (b'{"id":"\\ud800","method":"\\udfff"}', ("\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}", b"")),
    ],
)
@spec("DEC-6")
def test_a_message_is_read_with_its_result_untouched(text: bytes, expected: tuple[object, object, bytes]) -> None:
    (message,) = jsonrpc.read(text)
    assert (message.id, message.method, bytes(message.result)) == expected


@spec("DEC-6")
@pytest.mark.parametrize(
    "text",
    [
        b"Welcome",
        b"{broken",
        b'{"jsonrpc": "2.0"}',
        b"[1, 2]",
        b"7",
        b'"text"',
        b"\xff\xfe",
        b'{"id": true, "result": 1}',
        b'{"id": 1, "result": %b1%b}' % (b"[" * 100_000, b"]" * 100_000),
    ],
)
def test_what_is_no_message_is_none(text: bytes) -> None:
    assert list(jsonrpc.read(text)) == []


def test_a_batch_is_its_messages() -> None:
    batch = jsonrpc.read(b'[{"id":1,"result":{}},{"method":"notifications/message","params":{}}, 3]')
    assert [(message.id, message.method) for message in batch] == [(1, None), (None, "notifications/message")]


def test_an_unreadable_error_is_an_error_all_the_same() -> None:
    assert jsonrpc.fault(msgspec.Raw(b'"oops"')).code == jsonrpc.INTERNAL_ERROR
    assert jsonrpc.fault(msgspec.Raw(b'{"code":-1,"message":"m"}')).message == "m"


def test_text_that_is_not_utf8_is_noticed() -> None:
    assert jsonrpc.valid_utf8(b'"abc"')
    assert jsonrpc.valid_utf8('"é"'.encode())
    assert not jsonrpc.valid_utf8(b'"\xe9"')
