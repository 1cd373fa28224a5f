"""The documents beside the specification: what was built for a field case is told where people look for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.config.policies import RULES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.spec("DEC-36")
@pytest.mark.parametrize(
    ("field_case", "page", "told"),
    [
        ("F-68", "configuration.md", ("## Lazy servers", "`lazy", "`idle_stop_secs`")),
        ("F-117", "configuration.md", ("`pin_tools`", "accept-tools")),
        ("F-35", "operations.md", ("## What a server leaves running", "CREATE_BREAKAWAY_FROM_JOB")),
    ],
)
def test_a_field_case_without_a_rule_brings_its_options_and_rules_into_the_documents(
    field_case: str, page: str, told: tuple[str, ...]
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [word for word in told if word not in text] == [], field_case


@pytest.mark.spec("DEC-36")
def test_every_field_of_a_server_s_policies_is_told_in_the_guides() -> None:
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("configuration.md", "placement.md"))
    fields = [field for group in RULES.values() for field in group]
    assert [field for field in fields if field not in text] == []
