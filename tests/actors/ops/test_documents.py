"""Dashboard, alert rules and docs name metrics and labels that exist, and the docs name all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from smcp_runtime.actors.kernel import ChildLoad
from smcp_runtime.actors.ops.exposition import Exposition
from smcp_runtime.actors.ops.operations import Operations
from smcp_runtime.actors.ops.view import DeadLetterView, NodeView, compose
from smcp_runtime.bus import Answer
from smcp_runtime.wire.diagnostics import ActorStatus, Diagnostics
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.messages.kernel import ActorParked, ActorUp
from smcp_runtime.wire.messages.mcp import ServerStatus, ServerStatusChanged
from smcp_runtime.wire.messages.nodes import NodeDown
from smcp_runtime.wire.messages.tools import CallEnded
from support.tree import ROOT

DOCS = ROOT / "docs"
DASHBOARD = DOCS / "operations" / "grafana-dashboard.json"
ALERTS = DOCS / "operations" / "alerts.yml"
NAME = re.compile(r"\b(?:smcp|process|python)_[a-z0-9_]+")
SELECTOR = re.compile(r"\b((?:smcp|process)_[a-z0-9_]+)\{([^}]*)\}")
MATCHER = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"")
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Every sample that can be scraped, and its labels: one of each kind of thing is made to exist."""

    async def none() -> Diagnostics:
        raise AssertionError

    operations = Operations(none)
    tools = Address("tools")
    envelope = Envelope("ask", "RunTool", tools, id=1)
    operations.tally.handled(tools, envelope, 0.0, 0.1, Answer(b""))
    operations.tally.refused(envelope, "overloaded")
    operations.tally.dead_letter(envelope, "nobody")
    operations.tally.fact_dropped(envelope, tools)
    operations.tally.fact_coalesced(envelope, tools)
    status = ServerStatus("files", phase="starting")
    for fact in (
        ServerStatusChanged(status),
        CallEnded("r", "a", "t", "files", "ok", 1.0, 0.1),
        ActorUp("tools", 2),
        ActorParked("tools", "x"),
        NodeDown("worker", "silent"),
    ):
        operations.ledger.take(fact)
    view = compose(
        Diagnostics(
            name="pc", phase="started", state="started", sequence=1, servers=(status,),
            actors=(ActorStatus("tools", "up", 1, 0),),
        ),
        at=1.0, uptime=1.0, loads=[ChildLoad(tools, 0, 0, 0, 1024)], tally=operations.tally, ledger=operations.ledger,
        nodes=[NodeView("worker", 0.1, 0, 0, ())], letters=DeadLetterView(0, ()),
    )  # fmt: skip
    exposition = Exposition(operations)
    exposition.render(view)
    found: dict[str, set[str]] = {}
    for family in exposition.registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Every PromQL expression of the files, with where it stands."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]


def test_every_metric_that_dashboard_and_alerts_name_is_exported(exported: dict[str, set[str]]) -> None:
    named = [(where, name) for where, text in expressions() for name in NAME.findall(text)]
    assert len(named) > 40
    assert [f"{where}: {name}" for where, name in named if name not in exported] == []


def test_every_label_they_select_by_is_one_the_metric_has(exported: dict[str, set[str]]) -> None:
    wrong = [
        f"{where}: {metric}{{{label}}}"
        for where, text in expressions()
        for metric, selector in SELECTOR.findall(text)
        for label in MATCHER.findall(selector)
        if label not in exported[metric] | SCRAPED
    ]
    assert wrong == []


def test_every_label_a_text_shows_comes_out_of_its_expression(exported: dict[str, set[str]]) -> None:
    known = set().union(*exported.values()) | SCRAPED
    shown = re.findall(r"\{\{\s*\$labels\.([a-z_]+)", ALERTS.read_text())
    shown += re.findall(r"\{\{\s*([a-z_]+)\s*\}\}", DASHBOARD.read_text())
    assert set(shown) <= known


def test_the_docs_list_every_metric_with_its_labels_and_no_other(exported: dict[str, set[str]]) -> None:
    families = {
        re.sub(r"_(bucket|sum|count)$", "", name): labels - {"le"}
        for name, labels in exported.items()
        if name.startswith("smcp_") and not name.endswith("_created")
    }
    table = re.findall(r"^\| `(smcp_[a-z_]+)` \| ([a-z_, ]*)\|", (DOCS / "operations.md").read_text(), re.MULTILINE)
    listed = {name: {label.strip() for label in labels.split(",") if label.strip()} for name, labels in table}
    assert listed == families


def test_the_dashboard_has_what_an_import_into_grafana_needs() -> None:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= dashboard.keys()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    sources = {panel["datasource"]["uid"] for panel in dashboard["panels"] if "datasource" in panel}
    assert sources == {"${datasource}"}
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert variables == {"datasource", "instance"}
    places = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + line)
        for panel in dashboard["panels"]
        for column in range(panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places)), "two panels lie on each other"


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]
