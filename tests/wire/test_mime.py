"""Which media types are text."""

from __future__ import annotations

import pytest

from smcp_runtime.wire.mime import is_text


@pytest.mark.spec("C-SKILL-71")
@pytest.mark.parametrize(
    ("mime_type", "text"),
    [
        ("text/plain", True),
        ("text/x-anything", True),
        (" TEXT/Markdown ; charset=utf-8", True),
        ("application/json; charset=utf-8", True),
        ("application/xml", True),
        ("application/yaml", True),
        ("application/x-yaml", True),
        ("application/toml", True),
        ("application/javascript", True),
        ("application/ld+json", True),
        ("image/svg+XML", True),
        ("application/vnd.oai.openapi+yaml", True),
        ("application/octet-stream", False),
        ("application/json5", False),
        ("application/json+zip", False),
        ("image/png; name=text/plain", False),
        ("textual/plain", False),
        ("application/pdf", False),
        ("text", False),
        ("", False),
    ],
)
def test_the_essence_of_a_type_alone_says_whether_it_is_text(mime_type: str, *, text: bool) -> None:
    assert is_text(mime_type) is text
