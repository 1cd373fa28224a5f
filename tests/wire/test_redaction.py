"""Secrets are found by value, in every form they take on the way to a person."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire.protocol import REDACTED
from smcp_runtime.wire.redaction import SHORTEST, Redaction, SecretRegistry

spec = pytest.mark.spec
AWKWARD = 'p"a/ss wörd\\%&+'
WRITTEN = {
    "as it is": AWKWARD,
    "in JSON": json.dumps({"token": AWKWARD}),
    "in JSON that keeps letters": json.dumps({"token": AWKWARD}, ensure_ascii=False),
    "in a URL": f"https://host/mcp?key={quote(AWKWARD, safe='')}",
    "in a form": f"key={quote_plus(AWKWARD)}",
    "in a repr": repr({"token": AWKWARD}),
    "in base64": base64.b64encode(AWKWARD.encode()).decode(),
}


@spec("R-INPUT-23")
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_secret_is_found_in_each_form_it_is_written_in(written: str) -> None:
    shown = Redaction([AWKWARD]).text(f"before {written} after")
    assert REDACTED in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for form in (AWKWARD, quote(AWKWARD, safe=""), quote_plus(AWKWARD), json.dumps(AWKWARD)[1:-1]):
        assert form not in shown


@spec("R-INPUT-23")
def test_of_two_secrets_of_which_one_contains_the_other_nothing_is_left() -> None:
    redaction = Redaction(["token", "token-and-more"])
    assert redaction.text("token-and-more token") == f"{REDACTED} {REDACTED}"


def test_each_line_of_a_secret_of_several_lines_is_found() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhk\nab\n-----END KEY-----"
    shown = Redaction([key]).text("stderr: MIIEvQIBADANBgkqhk")
    assert shown == f"stderr: {REDACTED}"


@spec("R-INPUT-23")
def test_a_cut_goes_behind_a_secret_rather_than_through_it() -> None:
    redaction = Redaction(["token", "token-and-more"])
    data = b"my token-and-more, a token"
    assert [redaction.cut(data, at) for at in (0, 3, 4, 8, 16, 17, 21, 25, 26)] == [0, 3, 17, 17, 17, 17, 21, 26, 26]


def test_values_too_short_to_be_secrets_do_not_garble_everything() -> None:
    assert Redaction(["a", ""]).text("a banana") == "a banana"


def test_a_tree_is_redacted_in_its_keys_and_values() -> None:
    tree = {"s3cret": ["s3cret", {"a": "x s3cret", "n": 7}], "t": ("s3cret", None)}
    assert Redaction(["s3cret"]).tree(tree) == {
        REDACTED: [REDACTED, {"a": f"x {REDACTED}", "n": 7}],
        "t": (REDACTED, None),
    }


@given(st.text(min_size=SHORTEST), st.text(), st.text())
def test_no_text_around_a_secret_keeps_it_from_being_found(secret: str, before: str, after: str) -> None:
    assert secret not in Redaction([secret]).text(before + secret + after).replace(REDACTED, "\0")


class TestRegistry:
    @spec("R-INPUT-23")
    def test_a_secret_counts_from_the_rendering_that_uses_it_until_its_owner_ends(self) -> None:
        registry = SecretRegistry()
        registry.use("a", ["alpha"])
        registry.use("b", ["beta"])
        assert registry.values == {"alpha", "beta"}
        registry.release("a")
        assert registry.values == {"beta"}
        assert registry.redaction.text("alpha beta") == f"alpha {REDACTED}"

    def test_the_old_secret_of_a_server_being_replaced_still_counts_and_older_ones_do_not(self) -> None:
        registry = SecretRegistry()
        for secret in ("first", "second", "second", "third"):
            registry.use("a", [secret])
        assert registry.values == {"second", "third"}

    def test_a_secret_of_two_owners_stays_when_one_ends(self) -> None:
        registry = SecretRegistry()
        registry.use("a", ["shared"])
        registry.use("b", ["shared"])
        registry.release("a")
        assert registry.redaction.text("shared") == REDACTED

    def test_its_repr_shows_nobodys_secret(self) -> None:
        registry = SecretRegistry()
        registry.use("a", ["alpha"])
        assert "alpha" not in repr(registry)
