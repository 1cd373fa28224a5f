"""Handshake decisions: the URL, and what a refusal means."""

from __future__ import annotations

import pytest

from smcp_runtime.wire.errors import AuthError, ConfigValidationError, NetworkError, ProtocolVersionError
from smcp_runtime.wire.handshake import (
    ignored_path,
    namespace_refusal,
    polling_first,
    printable,
    refusal,
    request_url,
)


@pytest.mark.spec("W-HS-1", "W-ARCH-3")
@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        ("http://h:1", "/socket.io", "http://h:1/socket.io/?a2c_version=0.4.0"),
        ("https://h", "smcp/", "https://h/smcp/?a2c_version=0.4.0"),
        ("ws://h", "/socket.io", "http://h/socket.io/?a2c_version=0.4.0"),
        ("wss://h", "/socket.io", "https://h/socket.io/?a2c_version=0.4.0"),
        ("http://h/?x=a%20b&y=&y=2", "/socket.io", "http://h/socket.io/?x=a%20b&y=&y=2&a2c_version=0.4.0"),
        ("http://h?a2c_version=1.0.0&x=1", "/socket.io", "http://h/socket.io/?x=1&a2c_version=0.4.0"),
        ("http://h?a2c%5Fversion=1.0.0", "/socket.io", "http://h/socket.io/?a2c_version=0.4.0"),
        ("http://h/elsewhere?x=1#fragment", "/socket.io", "http://h/socket.io/?x=1&a2c_version=0.4.0"),
        ("http://[::1]:8000", "/socket.io", "http://[::1]:8000/socket.io/?a2c_version=0.4.0"),
        ("http://büro_1.example.", "/socket.io", "http://büro_1.example./socket.io/?a2c_version=0.4.0"),
    ],
)
def test_the_version_joins_the_query_and_everything_else_stays(url: str, path: str, expected: str) -> None:
    assert request_url(url, path, "0.4.0") == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://h",
        "http://",
        "http://h:port",
        "http://[::1",
        f"http://{'a' * 64}.example",
        f"http://{'ä' * 64}.example",
        "http://a..example",
    ],
)
def test_what_is_no_server_address_is_refused_with_its_field(url: str) -> None:
    with pytest.raises(ConfigValidationError) as refused:
        request_url(url, "/socket.io", "0.4.0")
    assert refused.value.field == "url"


def test_a_path_beside_the_mount_path_is_reported() -> None:
    assert ignored_path("http://h/smcp", "/socket.io") == "/smcp"
    assert ignored_path("http://h/socket.io/", "/socket.io") is None
    assert ignored_path("http://h/", "/socket.io") is None


@pytest.mark.spec("W-HS-3")
@pytest.mark.parametrize(
    ("given", "used"),
    [
        (("polling", "websocket"), ("polling", "websocket")),
        (("polling",), ("polling",)),
        (("websocket",), ("polling", "websocket")),
        (("websocket", "polling"), ("polling", "websocket")),
        ((), ("polling", "websocket")),
    ],
)
def test_polling_always_comes_first(given: tuple[str, ...], used: tuple[str, ...]) -> None:
    assert polling_first(given) == used


@pytest.mark.spec("W-HS-4", "R-ERR-4")
def test_missing_version_fields_stay_empty() -> None:
    error = refusal(400, b'{"code": 4008, "server_version": "0.5.0", "min_supported": 7}', {})
    assert isinstance(error, ProtocolVersionError)
    assert (error.server_version, error.client_version, error.min_supported) == ("0.5.0", None, None)


@pytest.mark.spec("W-ERR-1")
def test_the_nested_form_of_an_early_draft_is_read() -> None:
    error = refusal(400, b'{"error": {"code": 4008, "server_version": "0.5.0"}}', {})
    assert isinstance(error, ProtocolVersionError)
    assert error.server_version == "0.5.0"


@pytest.mark.spec("W-HS-6")
@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, b'{"code": 400, "message": "Missing a2c_version query parameter"}', {"X-A2C-Error-Code": "4008"}),
        (400, b'"OPEN packet not returned"', {}),
        (400, b"4008", {}),
        (502, b"<html>4008</html>", {}),
        (400, b"[" * 100_000, {}),
    ],
)
def test_nothing_else_is_taken_for_a_version_mismatch(status: int, body: bytes, headers: dict[str, str]) -> None:
    error = refusal(status, body, headers)
    assert isinstance(error, NetworkError)
    assert error.details["status"] == status


@pytest.mark.spec("W-HS-5")
def test_the_header_speaks_where_the_body_says_nothing() -> None:
    assert isinstance(refusal(400, b"", {"x-a2c-error-code": " 4008 "}), ProtocolVersionError)


@pytest.mark.spec("W-AUTH-8", "R-LIFE-12")
@pytest.mark.parametrize("said", [None, {}, {"message": "anything"}, "text", 5, {"message": 5}])
def test_a_refused_namespace_is_an_authentication_error_whatever_it_says(said: object) -> None:
    assert isinstance(namespace_refusal(said), AuthError)


def test_a_peers_text_cannot_break_a_log_line() -> None:
    assert printable("a\nb\x1b[31mc" + "x" * 500) == "a b [31mc" + "x" * 191
