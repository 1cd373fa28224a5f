"""Which resources of a listing are skills, and when they count as changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.actors.skills.roots import Root, Selection, Unreadable, select_roots

from .conftest import resource

spec = pytest.mark.spec


def select(*resources: Any) -> Selection:
    return select_roots("mcp:s", json.dumps(resources).encode())


def mounted(uri: str, **meta: Any) -> dict[str, Any]:
    return resource(uri, **{"source": "mounted", **meta})


def uris(selection: Selection) -> list[str]:
    return [root.uri for root in selection.roots]


def notes(selection: Selection) -> list[tuple[str, str]]:
    return [(note.level, note.place) for note in selection.notes]


@spec("C-SKILL-16", "C-SKILL-10")
def test_only_skill_resources_with_a_source_are_roots_in_the_order_of_the_listing() -> None:
    found = select(
        resource("window://h/w", source="mounted"),
        mounted("skill://h/b"),
        resource("skill://h/plain"),
        resource("dpe://h/d"),
        resource("SKILL://h/upper", source="mounted"),
        resource("skill://h/a", source="archive"),
        resource("skill://h/c", source="resources"),
        resource("skill://h/nothing", source=None),
    )
    assert uris(found) == ["skill://h/b", "skill://h/a", "skill://h/c"]
    assert [(root.mode, root.position) for root in found.roots] == [("mounted", 0), ("archive", 1), ("resources", 2)]
    assert not found.notes


@spec("C-SKILL-16")
@pytest.mark.parametrize("source", ["git", "", 1, ["mounted"], {"a": 1}, "Mounted"])
def test_another_source_is_an_error_and_no_root(source: Any) -> None:
    found = select(resource("skill://h/a", source=source), mounted("skill://h/b"))
    assert uris(found) == ["skill://h/b"]
    assert notes(found) == [("error", "skill://h/a")]


@spec("C-SKILL-16")
def test_a_root_below_another_is_covered_with_one_warning_and_stays_a_file_of_it() -> None:
    found = select(
        resource("skill://h/a/b", source="archive"),
        resource("skill://h/a", source="resources"),
        mounted("skill://h/a/c/d"),
        mounted("skill://h/ab"),
    )
    assert uris(found) == ["skill://h/a", "skill://h/ab"]
    assert [(note.level, "2 skills" in note.text) for note in found.notes] == [("warning", True)]
    assert [file.tail for file in found.roots[0].files] == ["b", "c/d"]


@spec("C-SKILL-16")
def test_an_invalid_candidate_covers_nothing() -> None:
    assert uris(select(resource("skill://h/a", source="git"), mounted("skill://h/a/b"))) == ["skill://h/a/b"]


@spec("C-SKILL-16")
def test_the_second_root_of_one_uri_is_an_error() -> None:
    found = select(mounted("skill://h/a", version="1"), mounted("skill://h/a", version="2"))
    assert [root.version for root in found.roots] == ["1"]
    assert notes(found) == [("error", "skill://h/a")]


@spec("C-SKILL-16", "C-SKILL-9")
@pytest.mark.parametrize("uri", ["skill://h", "skill://h/", "skill:///a", "skill://", "skill://h//"])
def test_a_uri_without_host_or_path_is_an_error(uri: str) -> None:
    found = select(mounted(uri))
    assert (uris(found), notes(found)) == ([], [("error", uri)])


@spec("C-SKILL-9", "C-GEN-11")
def test_query_and_fragment_are_dropped_with_a_warning_but_the_server_is_asked_with_its_own_uri() -> None:
    found = select(mounted("skill://h/a?token=canary"), resource("skill://H/a#x", source="mounted"))
    assert [(root.uri, root.raw) for root in found.roots] == [
        ("skill://h/a", "skill://h/a?token=canary"),
        ("skill://H/a", "skill://H/a#x"),
    ]
    assert notes(found) == [("warning", "skill://h/a"), ("warning", "skill://H/a")]


@spec("C-GEN-9", "C-SKILL-16")
@pytest.mark.parametrize(
    "junk",
    [
        7,
        None,
        "text",
        [],
        {},
        {"uri": 3},
        {"uri": None},
        {"uri": "skill://h/x", "_meta": 5},
        {"_meta": {"source": "mounted"}},
    ],
)
def test_one_malformed_resource_hides_no_other(junk: Any) -> None:
    assert uris(select(junk, mounted("skill://h/a"), junk)) == ["skill://h/a"]


@spec("C-SKILL-19")
@pytest.mark.parametrize("listing", [b"", b"{}", b"null", b"[1", b'"x"', b"[" * 100_000])
def test_a_listing_that_is_none_says_nothing(listing: bytes) -> None:
    with pytest.raises(Unreadable):
        select_roots("mcp:s", listing)


@spec("C-SKILL-39")
def test_files_of_resources_mode_are_what_lies_below_the_uri() -> None:
    found = select(
        resource("skill://h/a/SKILL.md"),
        resource("skill://h/a", source="resources"),
        resource("skill://h/ab/x"),
        resource("skill://h/a/d/%20x"),
        resource("skill://h/a/"),
    )
    assert [(file.uri, file.tail) for file in found.roots[0].files] == [
        ("skill://h/a/SKILL.md", "SKILL.md"),
        ("skill://h/a/d/%20x", "d/%20x"),
        ("skill://h/a/", ""),
    ]


def only(selection: Selection) -> Root:
    (root,) = selection.roots
    return root


class TestChange:
    @spec("C-SKILL-75")
    def test_order_and_other_fields_of_a_listing_do_not_count(self) -> None:
        one = select(mounted("skill://h/a", etag="1"), mounted("skill://h/b"), resource("note://x"))
        two = select({**mounted("skill://h/b"), "description": "new"}, mounted("skill://h/a", etag="1"))
        assert one.signature == two.signature
        assert one.signature != select(mounted("skill://h/a", etag="2"), mounted("skill://h/b")).signature
        assert one.signature != select(mounted("skill://h/a", etag="1")).signature

    @spec("C-SKILL-20")
    def test_a_root_changes_with_its_uri_its_metadata_and_in_resources_mode_with_the_set_of_its_files(self) -> None:
        root, file = resource("skill://h/a", source="resources", k=[1]), resource("skill://h/a/x")
        base = only(select(root, file)).fingerprint
        assert only(select(file, {**root, "title": "t"})).fingerprint == base
        assert only(select(root, resource("skill://h/a/x", etag="2"))).fingerprint == base
        others = [
            select(resource("skill://h/a", source="resources", k=[2]), file),
            select(root),
            select(root, file, resource("skill://h/a/y")),
            select(resource("skill://h/a", source="archive", k=[1]), file),
        ]
        assert base not in [only(other).fingerprint for other in others]
        bare = resource("skill://h/a", source="archive")
        assert only(select(bare)).fingerprint == only(select(bare, file)).fingerprint

    @spec("C-SKILL-20")
    def test_a_root_covers_itself_and_what_lies_below(self) -> None:
        root = only(select(mounted("skill://h/a?q")))
        assert all(root.covers(uri) for uri in ("skill://h/a", "skill://h/a/x", "skill://h/a?q", "skill://h/a/x#f"))
        assert not any(root.covers(uri) for uri in ("skill://h/ab", "skill://h", "skill://H/a", "window://h/a"))

    @spec("C-SKILL-21", "C-SKILL-6")
    def test_an_etag_or_a_hash_stands_for_the_content_and_a_version_is_text(self) -> None:
        assert only(select(mounted("skill://h/a", etag="e", archive_sha256="A", version="1"))).etag == "e"
        assert only(select(mounted("skill://h/a", archive_sha256="AB"))).etag == "ab"
        assert only(select(mounted("skill://h/a", etag="", version=2))).etag is None
        assert only(select(mounted("skill://h/a", version=2))).version is None
        assert only(select(mounted("skill://h/a", version="1.2"))).version == "1.2"
