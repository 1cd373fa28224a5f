"""Policies settle field by field over five layers."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.policies import ServerPolicies, read_group, read_layer, read_runtime, settle
from smcp_runtime.wire.messages.mcp import CallLimits, HealthCheck, ReconnectPolicy

spec = pytest.mark.spec


def layer(**raw: Any) -> Any:
    findings = Findings()
    read = read_layer(raw, "x", findings)
    assert findings.faults == []
    return read


@spec("R-MCP-21", "DEC-1", "DEC-7")
def test_without_any_opinion_the_table_of_defaults_holds() -> None:
    assert settle([]) == ServerPolicies(
        HealthCheck(True, 30.0, 5.0),
        ReconnectPolicy(True, 5, 1.0, 30.0, 2.0, 60.0, 5, 60.0, 300.0),
        CallLimits(32, 256, None, False),
        "inline",
    )


def test_the_strongest_layer_wins_for_each_field_on_its_own() -> None:
    strong = layer(reconnect={"max_retries": 1})
    weak = layer(reconnect={"max_retries": 9, "initial_delay_ms": 500}, limits={"max_in_flight": 4})
    settled = settle([strong, weak])
    reconnect = settled.reconnect
    assert (reconnect.max_retries, reconnect.initial_delay, settled.limits.max_in_flight) == (1, 0.5, 4)


def test_camel_case_and_other_group_names_are_read() -> None:
    settled = settle([layer(healthCheck={"intervalSecs": 9}, reconnectPolicy={"maxRetries": 0})])
    assert (settled.health.interval, settled.reconnect.max_retries) == (9.0, 0)


def test_single_options_may_stand_beside_their_groups() -> None:
    settled = settle([layer(idle_timeout_secs=3, placement="process", parkRetrySecs=0)])
    assert (settled.limits.idle_timeout, settled.placement, settled.reconnect.park_retry) == (3.0, "process", 0.0)


def test_a_null_idle_timeout_of_a_stronger_layer_switches_it_off() -> None:
    assert settle([layer(idle_timeout_secs=None), layer(idle_timeout_secs=3)]).limits.idle_timeout is None


@spec("F-68")
def test_only_a_lazy_server_is_stopped_when_it_idles() -> None:
    assert settle([layer(idle_stop_secs=9)]).limits.idle_stop is None
    assert settle([layer(lazy=True)]).limits.idle_stop == 300.0
    assert settle([layer(lazy=True), layer(idle_stop_secs=9)]).limits.idle_stop == 9.0
    assert not settle([layer(lazy=False), layer(lazy=True)]).is_lazy


def test_a_probe_never_outlasts_its_interval_across_layers() -> None:
    assert settle([layer(health_check={"interval_secs": 2})]).health.timeout == 2.0


@pytest.mark.parametrize(
    ("group", "raw", "field"),
    [
        ("health_check", {"interval_secs": 0}, "g.interval_secs"),
        ("health_check", {"interval_secs": 2, "timeout_secs": 3}, "g.timeout_secs"),
        ("health_check", {"enabled": 1}, "g.enabled"),
        ("reconnect", {"max_retries": -1}, "g.max_retries"),
        ("reconnect", {"max_retries": 1.5}, "g.max_retries"),
        ("reconnect", {"initial_delay_ms": 9, "max_delay_ms": 8}, "g.max_delay_ms"),
        ("reconnect", {"backoff_factor": 0.5}, "g.backoff_factor"),
        ("reconnect", {"restart_intensity": {"max": 0, "within_secs": 1}}, "g.restart_intensity"),
        ("reconnect", {"restart_intensity": {"max": 1}}, "g.restart_intensity"),
        ("reconnect", {"stable_after_secs": True}, "g.stable_after_secs"),
        ("limits", {"max_in_flight": 0}, "g.max_in_flight"),
        ("limits", {"idle_timeout_secs": 0}, "g.idle_timeout_secs"),
        ("limits", {"lazy": "yes"}, "g.lazy"),
        ("limits", {"idle_stop_secs": 0}, "g.idle_stop_secs"),
        ("limits", {"placement": "moon"}, "g.placement"),
        ("limits", {"surprise": 1}, "g.surprise"),
    ],
)
def test_a_value_outside_its_constraint_is_refused_by_place(group: str, raw: dict[str, Any], field: str) -> None:
    findings = Findings()
    read_group(raw, group, "g", findings)
    assert [fault.field for fault in findings.faults] == [field]


def test_runtime_settings_are_read_for_all_and_by_server() -> None:
    findings = Findings()
    defaults, servers = read_runtime(
        {"defaults": {"limits": {"max_queued": 1}}, "servers": {"b": {"limits": {"max_queued": 2}}}}, "r", findings
    )
    assert findings.faults == []
    assert settle([servers["b"], defaults]).limits.max_queued == 2
    assert settle([defaults]).limits.max_queued == 1


def test_a_fault_in_runtime_settings_names_the_server() -> None:
    findings = Findings()
    read_runtime({"servers": {"b": {"limits": {"max_queued": -2}}}, "other": 1}, "r", findings)
    assert [fault.field for fault in findings.faults] == ["r.servers.b.limits.max_queued", "r.other"]
