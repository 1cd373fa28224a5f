"""The version check of a Server: grammar, compatibility, and the bytes of a refusal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire.version import (
    Rejection,
    Version,
    check_query,
    declared_version,
    is_compatible,
    on_path,
    parse_version,
    supported_range,
)

MISSING = b'{"code": 400, "message": "Missing a2c_version query parameter"}'


def refused(query: str | bytes, server: str = "0.4.0") -> Rejection:
    decision = check_query(query, server)
    assert isinstance(decision, Rejection)
    return decision


@pytest.mark.spec("H-1", "W-HS-16")
@pytest.mark.parametrize("version", ["0.4.0", "0.4.99", "0.4.999999999"])
def test_a_client_of_the_same_minor_is_accepted_under_the_version_it_declared(version: str) -> None:
    assert check_query(f"EIO=4&a2c_version={version}&transport=polling") == version


@pytest.mark.spec("H-2", "W-HS-16", "W-HS-22", "W-HS-25")
@pytest.mark.parametrize("version", ["0.3.0", "0.5.0", "1.4.0"])
def test_another_minor_or_major_gets_the_mismatch_body_byte_for_byte(version: str) -> None:
    rejection = refused(f"a2c_version={version}")
    assert rejection.body == (
        b'{"code": 4008, "message": "Protocol version mismatch", "server_version": "0.4.0", '
        b'"client_version": "' + version.encode() + b'", "min_supported": "0.4.0", "max_supported": "0.4.999"}'
    )
    assert rejection.status == 400
    assert dict(rejection.headers) == {
        "content-type": "application/json",
        "content-length": str(len(rejection.body)),
        "X-A2C-Error-Code": "4008",
    }


@pytest.mark.spec("W-HS-22")
def test_the_mismatch_body_shows_the_client_version_as_parsed() -> None:
    assert b'"client_version": "0.3.7"' in refused("a2c_version=00.03.007").body


@pytest.mark.spec("H-3", "W-HS-16", "W-HS-17")
def test_from_version_one_on_an_older_minor_is_served_and_a_newer_one_is_not() -> None:
    assert check_query("a2c_version=1.0.0", "1.2.0") == "1.0.0"
    body = json.loads(refused("a2c_version=1.2.0", "1.0.0").body)
    assert (body["code"], body["min_supported"], body["max_supported"]) == (4008, "1.0.0", "1.0.999")


@pytest.mark.spec("W-HS-17")
@pytest.mark.parametrize(
    ("server", "supported"),
    [((0, 4, 0), ("0.4.0", "0.4.999")), ((0, 0, 9), ("0.0.0", "0.0.999")), ((2, 7, 1), ("2.0.0", "2.7.999"))],
)
def test_the_reported_range_follows_from_compatibility(
    server: tuple[int, int, int], supported: tuple[str, str]
) -> None:
    assert supported_range(Version(*server)) == supported
    lowest, highest = map(parse_version, supported)
    assert lowest is not None
    assert highest is not None
    assert is_compatible(lowest, Version(*server))
    assert is_compatible(highest, Version(*server))
    assert not is_compatible(highest._replace(minor=highest.minor + 1), Version(*server))


@pytest.mark.spec("H-4", "W-HS-14", "W-HS-20")
@pytest.mark.parametrize(
    "query", ["", "EIO=4&transport=polling", "a2c_version=", "a2c_version", "A2C_VERSION=0.4.0", "&&"]
)
def test_a_missing_or_empty_version_gets_the_missing_body_byte_for_byte(query: str) -> None:
    rejection = refused(query)
    assert rejection.body == MISSING
    assert dict(rejection.headers) == {"content-type": "application/json", "content-length": str(len(MISSING))}


@pytest.mark.spec("H-5", "W-HS-15", "W-HS-21")
@pytest.mark.parametrize("version", ["abc", "0.4", "0.4.0.1", "0.4.x", "v0.4.0", "0.4.0-dev", "0..0", "0.4.1234567890"])
def test_a_malformed_version_gets_the_malformed_body_byte_for_byte(version: str) -> None:
    rejection = refused(f"a2c_version={version}")
    assert rejection.body == (
        b'{"code": 400, "message": "Invalid a2c_version: Invalid version: ' + version.encode() + b'"}'
    )
    assert rejection.code == 400
    assert "X-A2C-Error-Code" not in dict(rejection.headers)


@pytest.mark.spec("H-6", "W-HS-15")
@pytest.mark.parametrize(
    "raw", ["-0.4.0", "0_0.4.0", "%200.4.0", "0.4.0%20", "0.4.0%0A", "%D9%A0.4.0", "+0.4.0", "0.4.%EF%BC%90"]
)
def test_signs_spaces_underscores_and_foreign_digits_are_malformed(raw: str) -> None:
    assert refused(f"a2c_version={raw}").code == 400


@pytest.mark.spec("W-HS-21")
def test_the_raw_value_is_shown_decoded_and_escaped_as_json() -> None:
    assert refused("a2c_version=%22%C3%A9%22").body == (
        b'{"code": 400, "message": "Invalid a2c_version: Invalid version: \\"\\u00e9\\""}'
    )


@pytest.mark.spec("H-10", "W-HS-14")
def test_the_first_of_several_versions_counts() -> None:
    assert check_query("a2c_version=0.4.0&a2c_version=0.3.0") == "0.4.0"
    assert refused("a2c_version=0.3.0&a2c_version=0.4.0").code == 4008
    assert refused("a2c_version=&a2c_version=0.4.0").body == MISSING


@pytest.mark.spec("W-HS-15")
@pytest.mark.parametrize("query", ["a2c_version=0%2E4%2E0", "%61%32c_version=0.4.0", b"x=%ff&a2c_version=0.4.0"])
def test_the_query_is_url_decoded_before_it_is_judged(query: str | bytes) -> None:
    assert check_query(query) == "0.4.0"


@pytest.mark.spec("W-HS-21")
@given(query=st.binary(max_size=40))
def test_any_query_is_decided_and_any_refusal_is_json(query: bytes) -> None:
    decision = check_query(query)
    if isinstance(decision, Rejection):
        assert json.loads(decision.body)["code"] == decision.code
    else:
        assert parse_version(decision) is not None


@pytest.mark.spec("W-HS-12", "H-9")
@pytest.mark.parametrize(
    ("path", "mount", "covered"),
    [
        ("/socket.io", "/socket.io", True),
        ("/socket.io/", "/socket.io", True),
        ("/socket.io/x", "socket.io/", True),
        ("/socket.iofoo/", "/socket.io", False),
        ("/socket.io.bak", "/socket.io", False),
        ("/", "/socket.io", False),
        ("/api/socket.io/", "/socket.io", False),
        ("/api/smcp/", "/api/smcp", True),
        ("/SOCKET.IO/", "/socket.io", False),
    ],
)
def test_the_path_is_the_mount_or_below_it(path: str, mount: str, covered: bool) -> None:
    assert on_path(path, mount) is covered


@pytest.mark.spec("W-HS-24")
@pytest.mark.parametrize("query", ["a2c_version=0.3.0", "a2c_version=" + "9" * 500, ""])
def test_the_reason_of_a_close_frame_fits_it(query: str) -> None:
    reason = refused(query).close_reason
    assert 0 < len(reason.encode()) <= 123


@pytest.mark.parametrize("text", ["", "0.4.0\n", "0.4.0 ", "٠.٤.٠"])
def test_a_version_is_nothing_but_its_three_numbers(text: str) -> None:
    assert parse_version(text) is None


def test_a_version_prints_as_it_is_compared() -> None:
    assert str(Version(0, 4, 10)) == "0.4.10"
    assert Version(0, 4, 10) > Version(0, 4, 9)


def test_a_server_configured_with_no_version_is_a_fault_of_its_owner() -> None:
    with pytest.raises(ValueError, match="MAJOR"):
        check_query("a2c_version=0.4.0", "latest")


def test_no_version_is_declared_by_a_name_that_only_looks_alike() -> None:
    assert declared_version("xa2c_version=1.0.0&a2c_versions=1.0.0") is None
