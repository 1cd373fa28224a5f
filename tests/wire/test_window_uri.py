"""The grammar of window URIs (C-DESK-1…3, C-DESK-43)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire.window_uri import WindowUri, build_window_uri, parse_window_uri, window_identity


@pytest.mark.spec("C-DESK-1")
@pytest.mark.parametrize(
    ("uri", "host", "segments"),
    [
        ("window://com.example.editor", "com.example.editor", ()),
        ("window://h/", "h", ()),
        ("WINDOW://h/a/b", "h", ("a", "b")),
        ("window://h/c%2Fd", "h", ("c/d",)),
        ("window://h/%ff", "h", ("%ff",)),
        ("window://user@h:80/x", "user@h:80", ("x",)),
        ("window://h/a//b", "h", ("a", "", "b")),
    ],
)
def test_host_is_verbatim_and_segments_are_decoded_once(uri: str, host: str, segments: tuple[str, ...]) -> None:
    assert parse_window_uri(uri) == WindowUri(host, segments, False)


@pytest.mark.spec("C-DESK-1", "C-DESK-43")
@pytest.mark.parametrize(
    "uri", ["window:///x", "windows://h", "window:h", " window://h", "window://h/a b", "window://h\n", "window://", ""]
)
def test_anything_else_is_no_window(uri: str) -> None:
    assert parse_window_uri(uri) is None


@pytest.mark.spec("C-DESK-1", "C-DESK-2", "C-DESK-30")
@pytest.mark.parametrize("tail", ["?priority=1", "#top", "?a#b"])
def test_a_query_or_fragment_is_dropped_and_reported(tail: str) -> None:
    parsed = parse_window_uri(f"window://h/p{tail}")
    assert parsed == WindowUri("h", ("p",), True)
    assert window_identity(f"window://h/p{tail}") == "window://h/p"


@pytest.mark.spec("C-DESK-3")
@given(
    st.text(alphabet="abc.-", min_size=1), st.lists(st.text(min_size=1).filter(lambda s: s.isprintable()), max_size=4)
)
def test_what_is_built_is_read_back(host: str, segments: list[str]) -> None:
    parsed = parse_window_uri(build_window_uri(host, segments))
    assert parsed == WindowUri(host, tuple(segments), False)


@pytest.mark.spec("C-DESK-3")
def test_a_builder_escapes_the_slash_and_refuses_an_empty_host() -> None:
    assert build_window_uri("h", ["a/b", "é"]) == "window://h/a%2Fb/%C3%A9"
    with pytest.raises(ValueError, match="host"):
        build_window_uri("")


@given(st.text())
def test_no_text_makes_the_parser_raise(text: str) -> None:
    parsed = parse_window_uri(text)
    assert parsed is None or parsed.host
