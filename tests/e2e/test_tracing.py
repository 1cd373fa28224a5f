"""One trace from an Agent to an MCP server, as an exporter of OpenTelemetry sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.tree import ROOT

Span = dict[str, Any]


@pytest.fixture(scope="module")
def traced() -> dict[str, Any]:
    """What one process with a tracer provider did and exported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("traced.py"))],
        capture_output=True, text=True, timeout=90, check=False, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture
def spans(traced: dict[str, Any]) -> list[Span]:
    """Those of the application's own trace."""
    return [span for span in traced["spans"] if span["trace_id"] == traced["said"]["trace_id"]]


def way_up(spans: list[Span], span: Span) -> list[tuple[str, str]]:
    """Scope and name of a span and everything it is part of, innermost first."""
    known = {other["id"]: other for other in spans}
    way = []
    here: Span | None = span
    while here is not None:
        way.append((here["scope"], here["name"]))
        here = known.get(here["parent"] or "")
    return way


@pytest.mark.spec("F-72")
def test_the_span_of_the_mcp_server_leads_back_to_the_application_step_by_step(spans: list[Span]) -> None:
    (innermost,) = [span for span in spans if span["scope"] == "mcp-python-sdk" and span["name"] == "tools/call shout"]
    assert way_up(spans, innermost) == [
        ("mcp-python-sdk", "tools/call shout"),
        ("smcp_runtime", "tools/call shout"),
        ("smcp_runtime", "CallTool"),
        ("smcp_runtime", "RunTool"),
        ("smcp_runtime", "client:tool_call"),
        ("smcp_runtime", "client:tool_call"),
        ("application", "think"),
    ]


def test_each_role_has_its_kind_of_span(spans: list[Span]) -> None:
    calls = [span for span in spans if span["name"] in ("client:tool_call", "relay client:tool_call")]
    kinds = sorted((span["name"], span["kind"]) for span in calls)
    one_call = [("client:tool_call", "client"), ("client:tool_call", "server"), ("relay client:tool_call", "server")]
    assert kinds == sorted(one_call * 3)


@pytest.mark.spec("F-72")
def test_the_spans_of_one_call_carry_its_id(spans: list[Span]) -> None:
    (local,) = [span for span in spans if span["name"] == "tools/call meta"]
    ids = {
        span["name"] for span in spans if span["attributes"].get("smcp.req_id") == local["attributes"]["smcp.req_id"]
    }
    assert ids == {"client:tool_call", "relay client:tool_call", "tools/call meta"}


def test_a_server_over_stdio_is_told_its_place_in_the_trace(traced: dict[str, Any], spans: list[Span]) -> None:
    (local,) = [span for span in spans if span["name"] == "tools/call meta"]
    _, trace_id, span_id, _ = traced["said"]["meta"]["traceparent"].split("-")
    assert (trace_id, span_id) == (local["trace_id"], local["id"])


def test_what_a_tool_was_given_and_answered_is_in_no_span(traced: dict[str, Any]) -> None:
    assert traced["said"]["shout"] == "HEY"
    assert "hey" not in json.dumps(traced["spans"]).lower()
