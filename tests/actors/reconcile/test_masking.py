"""Nothing literal leaves through env, headers or a URL."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.reconcile.config.masking import mask_map, mask_url, mask_value

spec = pytest.mark.spec
M, U = "[REDACTED]", "%5BREDACTED%5D"


@spec("DEC-30", "W-CFG-4")
@pytest.mark.parametrize(
    "value",
    ["${input:a}", "${env:A}", "Bearer ${input:a}", "bearer  ${input:a}", " ${input:a} ${input:b}", "${userHome}"],
)
def test_a_value_of_placeholders_white_space_and_a_scheme_word_stays_as_written(value: str) -> None:
    assert mask_value(value) == value


@spec("DEC-30", "DEC-19", "W-CFG-4", "R-PROJ-2")
@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("secret", M),
        ("", M),
        ("Bearer", M),
        ("Bearer sk-1", M),
        ("prefix-${input:a}", f"{M}${{input:a}}"),
        ("Bearer x${input:a}", f"{M}${{input:a}}"),
        ("Bearer ${input:a}x", f"{M}${{input:a}}{M}"),
        ("${input:a}Bearer ", f"${{input:a}}{M}"),
        ("MyScheme ${input:a}", f"{M}${{input:a}}"),
        ("${input:a}:${input:b}", f"${{input:a}}{M}${{input:b}}"),
        ("${workspaceFolder}", M),
        ("${input:a}${workspaceFolder}", f"${{input:a}}{M}"),
        ("$${input:a}", M),
        ("${env:A:-fallback}", M),
    ],
)
def test_every_literal_part_of_any_other_value_is_masked(value: str, masked: str) -> None:
    assert mask_value(value) == masked


@spec("DEC-19", "W-CFG-4")
def test_values_are_masked_whatever_their_key_is_called_and_keys_stay() -> None:
    assert mask_map({"LANG": "C", "TOKEN": "${input:t}"}) == {"LANG": M, "TOKEN": "${input:t}"}


@spec("DEC-30", "W-CFG-4", "DEC-19")
@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://host/mcp", "https://host/mcp"),
        ("https://host:8443/@scope/mcp", "https://host:8443/@scope/mcp"),
        ("${input:url}", "${input:url}"),
        ("https://${env:HOST}:${env:PORT}/mcp", "https://${env:HOST}:${env:PORT}/mcp"),
        ("https://user:pw@host/mcp", f"https://{U}@host/mcp"),
        ("https://token@host/mcp", f"https://{U}@host/mcp"),
        ("https://${input:u}:${input:p}@host/", "https://${input:u}:${input:p}@host/"),
        ("https://${input:u}:pw@host/", f"https://${{input:u}}:{U}@host/"),
        ("https://me:${input:p}@host/", f"https://{U}:${{input:p}}@host/"),
        ("https://${input:team@mp/u}@host/", "https://${input:team@mp/u}@host/"),
        ("https://user:p@ss@host/", f"https://{U}@host/"),
        ("https://user:pa/ss@host/", f"https://{U}@host/"),
        ("//user:pw@host/", f"//{U}@host/"),
        ("https:/user:pw@host/", f"https:/{U}@host/"),
        ("user:pw@host/mcp", f"{U}@host/mcp"),
        ("https://h/?key=abc", f"https://h/?key={U}"),
        ("https://h/?a=1&b=${input:b}&c=", f"https://h/?a={U}&b=${{input:b}}&c="),
        ("https://h/?k=x${input:b}y", f"https://h/?k={U}${{input:b}}{U}"),
        ("https://h/?sk-live-1", f"https://h/?{U}"),
        ("https://h/?k=a=b", f"https://h/?k={U}"),
        ("https://h/?${input:whole}", "https://h/?${input:whole}"),
        ("https://h/#access_token=1", f"https://h/#{U}"),
        ("${input:base}/mcp?k=v", f"${{input:base}}/mcp?k={U}"),
        ("https://[::1]:8080/mcp", "https://[::1]:8080/mcp"),
    ],
)
def test_user_info_and_query_values_of_a_url_are_masked(url: str, masked: str) -> None:
    assert mask_url(url) == masked


@spec("DEC-30")
def test_a_masked_url_still_parses() -> None:
    parts = urlsplit(mask_url("https://user:pw@host:1/p?k=v"))
    assert (parts.hostname, parts.port, parts.path) == ("host", 1, "/p")


needle = st.from_regex(r"[a-z0-9]{8,12}", fullmatch=True)
clutter = st.lists(
    st.sampled_from(["${input:a}", "${env:B}", "Bearer ", " ", "${", "}", "$", ":", "@", "/", "&", "=", "?", "#"]),
    max_size=4,
).map("".join)


@spec("DEC-19", "DEC-30", "R-SEC-1")
@given(before=clutter, secret=needle, after=clutter)
def test_no_literal_ever_survives_in_a_value(before: str, secret: str, after: str) -> None:
    inside_a_token = f"{before}{secret}{after}"
    masked = mask_value(inside_a_token)
    assert secret not in masked


@spec("DEC-19", "DEC-30", "R-SEC-1")
@given(before=clutter, secret=needle, after=clutter)
def test_no_literal_ever_survives_in_a_query_value(before: str, secret: str, after: str) -> None:
    assert (
        secret not in mask_url(f"https://host/mcp?key={before}{secret}{after}").partition("key=")[2].partition("&")[0]
    )


@spec("DEC-19", "DEC-30", "R-SEC-1")
@given(user=needle, password=needle, between=clutter.filter(lambda text: not set("/?#") & set(text)))
def test_no_literal_ever_survives_in_user_info(user: str, password: str, between: str) -> None:
    masked = mask_url(f"https://{user}:{between}{password}@host/mcp")
    assert password not in masked
