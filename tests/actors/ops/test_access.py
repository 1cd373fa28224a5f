"""Who may look at the operator endpoint."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.ops.access import Access, Verdict, is_loopback, split
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.wire.errors import ConfigValidationError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        ("127.0.0.1:9000", "allowed"),
        ("localhost:9000", "allowed"),
        ("LOCALHOST", "allowed"),
        ("127.8.8.8", "allowed"),
        ("[::1]:9000", "allowed"),
        ("evil.example:9000", "foreign_name"),
        ("localhost.evil.example", "foreign_name"),
        ("", "foreign_name"),
    ],
)
def test_without_a_token_only_names_of_loopback_are_answered(host: str, verdict: Verdict) -> None:
    assert Access(None).judge(authorization="", cookie="", host=host) == verdict


@pytest.mark.parametrize(
    ("authorization", "verdict"),
    [
        (f"Bearer {TOKEN}", "allowed"),
        (f"bearer  {TOKEN} ", "allowed"),
        (f"Bearer {TOKEN}x", "no_token"),
        (f"Basic {TOKEN}", "no_token"),
        (TOKEN, "no_token"),
        ("Bearer ", "no_token"),
        ("Bearer ümläut", "no_token"),
        ("Bearer \udcff", "no_token"),
        ("", "no_token"),
    ],
)
def test_with_a_token_it_has_to_be_shown_whatever_the_name(authorization: str, verdict: Verdict) -> None:
    assert Access(TOKEN).judge(authorization=authorization, cookie="", host="ops.example") == verdict


def test_a_browser_shows_a_pass_that_is_not_the_token_and_ends_with_the_endpoint() -> None:
    access = Access(TOKEN)
    shown = access.pass_of()
    assert TOKEN not in shown
    assert access.judge(authorization="", cookie=shown, host="x") == "allowed"
    assert Access(TOKEN).judge(authorization="", cookie=shown, host="x") == "no_token"
    assert access.judge(authorization="", cookie="", host="x") == "no_token"


def test_a_pass_may_be_any_bytes_and_is_then_not_ours() -> None:
    assert Access(TOKEN).judge(authorization="", cookie="\udcff", host="x") == "no_token"
    assert Access(TOKEN + "\udcff").fits(TOKEN + "\udcff")


def test_an_endpoint_without_a_token_has_no_pass() -> None:
    access = Access(None)
    assert not access.fits("")
    assert access.judge(authorization="", cookie=access.pass_of(), host="evil.example") == "foreign_name"


@pytest.mark.parametrize(("text", "parts"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0))])
def test_an_endpoint_is_a_host_and_a_port(text: str, parts: tuple[str, int]) -> None:
    assert split(text) == parts


@pytest.mark.parametrize(
    ("name", "expected"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("host", False)]
)
def test_loopback_is_this_machine_and_nothing_else(name: str, expected: bool) -> None:
    assert is_loopback(name) is expected


@pytest.mark.parametrize("ops", ["0.0.0.0:9000", "[::]:9000", "ops.example:9000", "192.0.2.1:1"])
def test_listening_beyond_loopback_needs_a_token(ops: str) -> None:
    with pytest.raises(ConfigValidationError) as refused:
        settle(RuntimeOptions(ops=ops))
    assert [finding.code for finding in refused.value.findings] == ["no_token"]
    assert settle(RuntimeOptions(ops=ops, ops_token=TOKEN))[0].ops == ops


def test_a_token_that_could_be_guessed_is_refused_and_none_is_ever_shown() -> None:
    with pytest.raises(ConfigValidationError) as refused:
        settle(RuntimeOptions(ops="127.0.0.1:1", ops_token="short"))
    assert "short" not in str(refused.value)
    assert TOKEN not in repr(RuntimeOptions(ops_token=TOKEN))
