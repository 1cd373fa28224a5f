"""The grammars of document URIs and SKILL names, vector by vector."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire.dpe_uri import DpeUri, InvalidDpeUri, parse_dpe_uri
from smcp_runtime.wire.skill_name import skill_kind


@pytest.mark.spec("C-DOC-2")
@pytest.mark.parametrize(
    ("uri", "expected", "level"),
    [
        ("dpe://h/doc", DpeUri("h", "doc"), 1),
        ("DPE://h/a%2Fb", DpeUri("h", "a/b"), 1),
        ("dpe://h/doc/pages/0", DpeUri("h", "doc", page=0), 2),
        ("dpe://h/doc/pages/2147483647", DpeUri("h", "doc", page=2147483647), 2),
        ("dpe://h/doc/elements/e%201", DpeUri("h", "doc", element_id="e 1"), 3),
    ],
)
def test_the_three_forms_are_read_and_their_segments_decoded_once(uri: str, expected: DpeUri, level: int) -> None:
    assert parse_dpe_uri(uri) == expected
    assert parse_dpe_uri(uri).level == level


@pytest.mark.spec("C-DOC-3")
@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("dpe://h/a b?x", "malformed uri"),
        ("dpe://h/a\n", "malformed uri"),
        ("http://h/doc", "invalid scheme"),
        ("dpe:/h/doc", "invalid scheme"),
        ("dpe://h/doc?x#y", "query not allowed"),
        ("dpe://h/doc#y", "fragment not allowed"),
        ("dpe:///doc", "missing host"),
        ("dpe://u@h/doc", "invalid host"),
        ("dpe://h:1/doc", "invalid host"),
        ("dpe://h", "missing doc-ref"),
        ("dpe://h/", "missing doc-ref"),
        ("dpe://h//doc", "missing doc-ref"),
        ("dpe://h/%zz", "invalid segment"),
        ("dpe://h/%2e%2e", "invalid segment"),
        ("dpe://h/doc/../x", "invalid segment"),
        ("dpe://h/%ff", "invalid segment"),
        ("dpe://h/doc/", "invalid sub-path"),
        ("dpe://h/doc/pages", "invalid sub-path"),
        ("dpe://h/doc/pages/1/", "invalid sub-path"),
        ("dpe://h/doc/pages/", "invalid sub-path"),
        ("dpe://h/doc/other/1", "invalid sub-path"),
        ("dpe://h/doc/pages/01", "invalid page index"),
        ("dpe://h/doc/pages/-1", "invalid page index"),
        ("dpe://h/doc/pages/2147483648", "invalid page index"),
        ("dpe://h/doc/pages/١", "invalid page index"),
    ],
)
def test_a_violation_is_named_by_the_first_rule_it_breaks(uri: str, reason: str) -> None:
    with pytest.raises(InvalidDpeUri) as refused:
        parse_dpe_uri(uri)
    assert refused.value.reason == reason


@pytest.mark.spec("C-SKILL-1", "C-SKILL-5")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("my-helper", "user"),
        ("a1", "user"),
        ("a" * 64, "user"),
        ("acme-audit:audit", "marketplace"),
        ("mcp:skill", "marketplace"),
        ("mcp:tfrobot-tools:code-review", "mcp"),
        ("mcp:my_api:csv", "mcp"),
        ("mcp:MyServer:x", "mcp"),
    ],
)
def test_the_number_of_segments_decides_the_kind(name: str, kind: str) -> None:
    assert skill_kind(name) == kind


@pytest.mark.spec("C-SKILL-2", "C-SKILL-5")
@pytest.mark.parametrize(
    "name",
    [
        "", "A", "-a", "a-", "a--b", "a_b", "a:b:c", "mcp::x", "mcp:a.b:x", "mcp:a__b:x", "a:b:c:d", "a b", "abc\n",
        "a" * 65, "../x", ":a", "mcp:" + "b" * 1100 + ":x", "mcp:b\n:x",
    ],
)  # fmt: skip
def test_names_outside_the_grammar_have_no_kind(name: str) -> None:
    assert skill_kind(name) is None


REASONS = {
    "malformed uri", "invalid scheme", "query not allowed", "fragment not allowed", "missing host", "invalid host",
    "missing doc-ref", "invalid segment", "invalid sub-path", "invalid page index",
}  # fmt: skip
segments = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda segment: segment not in (".", "..")
)
tails = st.one_of(
    st.just((None, None)), st.tuples(st.integers(0, 2**31 - 1), st.none()), st.tuples(st.none(), segments)
)


@pytest.mark.spec("C-DOC-2")
@given(segments, tails)
def test_what_is_escaped_is_read_back(doc_ref: str, tail: tuple[int | None, str | None]) -> None:
    page, element_id = tail
    uri = f"dpe://host/{quote(doc_ref, safe='')}"
    if page is not None:
        uri += f"/pages/{page}"
    if element_id is not None:
        uri += f"/elements/{quote(element_id, safe='')}"
    assert parse_dpe_uri(uri) == DpeUri("host", doc_ref, page, element_id)


@pytest.mark.spec("C-DOC-3")
@given(st.one_of(st.text(), st.text("dpe:/?#@%.2fF0 agselmnt", max_size=30).map("dpe://".__add__)))
def test_any_text_is_a_uri_or_breaks_a_rule_that_has_a_name(text: str) -> None:
    found: DpeUri | str
    try:
        found = parse_dpe_uri(text)
    except InvalidDpeUri as refused:
        found = refused.reason
    assert found in REASONS if isinstance(found, str) else found.host and found.doc_ref not in ("", ".", "..")


@pytest.mark.spec("C-SKILL-1", "C-SKILL-2", "C-SEC-10")
@given(st.one_of(st.text(max_size=80), st.text("amcp1-:_./\\ \n\0A", max_size=80)))
def test_a_name_of_any_kind_holds_nothing_that_a_path_is_made_of(name: str) -> None:
    kind = skill_kind(name)
    assert (kind is None) or (name.count(":") == ("user", "marketplace", "mcp").index(kind))
    if kind is not None:
        assert re.fullmatch(r"[A-Za-z0-9_:-]{1,1024}", name)
        assert len(name.rpartition(":")[2]) <= 64
