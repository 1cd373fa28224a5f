"""One page of resources: mapped item by item, shrunk in a stated order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.actors.socket.resource_page import page


def listed(*resources: Any) -> bytes:
    return json.dumps(resources).encode()


@pytest.mark.spec("E-5", "W-RES-1")
def test_members_are_spelled_as_the_protocol_has_them_and_metadata_is_unchanged() -> None:
    item = {
        "uri": "file:///a", "name": "a", "title": "not mapped", "mimeType": "text/plain", "size": 3,
        "annotations": {"priority": 0.5, "lastModified": "2026-01-01T00:00:00Z", "audience": ["user"]},
        "_meta": {"any": [1, None]},
    }  # fmt: skip
    found = json.loads(page(listed(item), None, "r").answer)
    assert found == {
        "resources": [
            {
                "uri": "file:///a", "name": "a", "mime_type": "text/plain", "size": 3,
                "annotations": {"audience": ["user"], "priority": 0.5, "last_modified": "2026-01-01T00:00:00Z"},
                "_meta": {"any": [1, None]},
            }
        ],
        "req_id": "r",
    }  # fmt: skip


@pytest.mark.spec("W-RES-1")
def test_a_cursor_passes_through_and_its_absence_means_the_last_page() -> None:
    assert json.loads(page(b"[]", "c+1", "r").answer) == {"resources": [], "next_cursor": "c+1", "req_id": "r"}
    assert "next_cursor" not in json.loads(page(b"[]", None, "r").answer)


@pytest.mark.spec("C-GEN-9", "DEC-6")
def test_one_malformed_item_costs_that_item_and_is_noted() -> None:
    found = page(listed({"uri": "a:1"}, {"name": "no uri"}, 5, {"uri": "a:2", "size": "big"}), None, "r")
    assert [item["uri"] for item in json.loads(found.answer)["resources"]] == ["a:1", "a:2"]
    assert found.notes == ("2 resources without a URI set aside",)


@pytest.mark.spec("DEC-33", "DEC-18")
def test_a_page_that_is_too_large_loses_metadata_first_and_only_that_if_it_is_enough() -> None:
    resources = [{"uri": f"a:{n}", "description": "d" * 2000, "_meta": {"x": "m" * 5000}} for n in range(10)]
    found = page(listed(*resources), None, "r", budget=30_000)
    kept = json.loads(found.answer)["resources"]
    assert len(found.answer) <= 30_000
    assert len(kept) == 10
    assert all("_meta" not in item and len(item["description"]) == 2000 for item in kept)
    assert found.notes == ("page too large: metadata left out",)


@pytest.mark.spec("DEC-33")
def test_then_descriptions_are_cut_and_then_the_last_entries_left_out() -> None:
    resources = [{"uri": f"a:{n}", "description": "d" * 2000} for n in range(10)]
    cut = page(listed(*resources), None, "r", budget=15_000)
    assert {len(item["description"]) for item in json.loads(cut.answer)["resources"]} == {1024}
    short = page(listed(*resources), "next", "r", budget=5_000)
    assert len(short.answer) <= 5_000
    assert [item["uri"] for item in json.loads(short.answer)["resources"]] == ["a:0", "a:1", "a:2", "a:3"]
    assert short.notes[-1] == "page too large: the last 6 resources left out"


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(ValueError, match="array"):
        page(b"{}", None, "r")
