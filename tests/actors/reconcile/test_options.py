"""Runtime options: option before variable before default, and everything checked at once."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config import directories
from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.findings import findings_of
from smcp_runtime.actors.reconcile.config.options import LogSettings, RuntimeOptions, env_flag, log_settings, settle
from smcp_runtime.actors.reconcile.config.policies import settle as settle_policies
from smcp_runtime.wire.errors import ConfigValidationError

spec = pytest.mark.spec


def options(**given: Any) -> RuntimeOptions:
    return settle(RuntimeOptions(**{"env": {}, **given}))[0]


def warnings(**given: Any) -> list[str]:
    return [warning.field for warning in settle(RuntimeOptions(**{"env": {}, **given}))[1]]


def test_the_defaults_are_those_of_the_table() -> None:
    settled = options()
    assert (settled.max_concurrent_starts, settled.max_concurrent_per_launcher, settled.start_wait_s) == (8, 2, 1.0)
    assert (settled.inline_budget, settled.chunk_max_bytes, settled.upload_max_bytes) == (32_768, 262_144, 104_857_600)
    assert (settled.server_start_timeout_s, settled.drain_timeout_s, settled.rejoin_budget_s) == (30.0, 5.0, 60.0)
    assert settled.transports == ("polling", "websocket")


@spec("C-DEF-1")
def test_a_variable_beats_the_default_and_an_option_beats_both() -> None:
    env = {"A2C_SKILL_INLINE_BUDGET": "100"}
    assert options(env=env).inline_budget == 100
    assert options(env=env, inline_budget=7).inline_budget == 7


@spec("C-DEF-1")
@pytest.mark.parametrize("text", ["many", "-1", "0", "1.5", "١"])
def test_a_variable_that_is_no_positive_integer_counts_for_nothing_and_warns(text: str) -> None:
    env = {"A2C_UPLOAD_MAX_CONCURRENT": text}
    assert options(env=env).upload_max_concurrent == 4
    assert warnings(env=env) == ["A2C_UPLOAD_MAX_CONCURRENT"]


@spec("C-DEF-1", "C-BLOB-13")
def test_what_exceeds_its_ceiling_is_clamped_with_a_warning() -> None:
    assert options(chunk_max_bytes=10**9).chunk_max_bytes == 655_360
    assert warnings(chunk_max_bytes=10**9) == ["chunk_max_bytes"]
    assert warnings(inline_budget=10**9) == ["inline_budget"]


@spec("R-OPT-2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), (" TRUE ", True), ("yes", True), ("On", True), ("", True), ("0", False), ("y", False)],
)
def test_boolean_variables_know_four_words(text: str, expected: bool) -> None:
    assert env_flag({"X": text}, "X", True) is expected


@spec("R-OPT-2")
def test_an_unset_boolean_variable_is_its_default() -> None:
    assert env_flag({}, "X", True)
    assert options(env={"A2C_SKILL_WATCH_POLLING": "yes"}).watch_polling is True
    assert options().watch_polling is False


@spec("R-OPT-3")
def test_logging_is_read_outside_the_namespace_of_inputs() -> None:
    environ = {"A2C_LOG_LEVEL": "debug", "A2C_LOG_FILE": "/l", "A2C_LOG_SILENT": "1", "A2C_SMCP_LOG_LEVEL": "error"}
    assert log_settings(environ) == LogSettings("DEBUG", "/l", True)
    assert log_settings({}) == LogSettings()


def test_websocket_only_is_corrected_and_reported() -> None:
    assert options(transports=("websocket",)).transports == ("polling", "websocket")
    assert warnings(transports=("websocket",)) == ["transports"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"max_concurrent_starts": 0}, "max_concurrent_starts"),
        ({"max_concurrent_per_launcher": 1.5}, "max_concurrent_per_launcher"),
        ({"drain_timeout_s": -1}, "drain_timeout_s"),
        ({"server_start_timeout_s": 0}, "server_start_timeout_s"),
        ({"connect_timeout_s": True}, "connect_timeout_s"),
        ({"placement": "moon"}, "placement"),
        ({"placement": "external"}, "placement"),
        ({"bus": "http://x"}, "bus"),
        ({"ops": "9000"}, "ops"),
        ({"ops": "h:99999"}, "ops"),
        ({"reference_resolver": "x"}, "reference_resolver"),
        ({"skill_mount_roots": ["rel"]}, "skill_mount_roots[0]"),
        ({"health_check": {"interval_secs": 0}}, "health_check.interval_secs"),
        ({"server_limits": {"max_in_flight": 0}}, "server_limits.max_in_flight"),
        ({"transports": ("polling", "pigeon")}, "transports"),
    ],
)
def test_an_option_out_of_bounds_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        options(**given)
    assert [finding.field for finding in findings_of(caught.value)] == [field]


def test_a_payload_provider_excludes_configured_auth() -> None:
    config = parse_computer_config({"name": "d", "connection": {"auth": {"token": "t"}}}).config
    with pytest.raises(ConfigValidationError, match=r"excludes connection\.auth"):
        settle(RuntimeOptions(env={}, auth_payload_provider=dict), config)


def test_options_are_a_layer_of_server_policies() -> None:
    settled = options(server_limits={"maxInFlight": 3}, placement="process")
    policies = settle_policies([settled.policy_layer])
    assert (policies.limits.max_in_flight, policies.placement) == (3, "process")


@spec("R-FILE-1")
def test_home_is_option_then_variable_then_xdg_then_default() -> None:
    env = {"A2C_SKILL_HOME": "/var/a", "XDG_DATA_HOME": "/var/x"}

    def home(**given: Any) -> Path:
        return directories.resolve(RuntimeOptions(**given), user_home="/me").home

    assert home(env=env, home="~/mine") == Path("/me/mine")
    assert home(env=env) == Path("/var/a")
    assert home(env={"XDG_DATA_HOME": "/var/x"}) == Path("/var/x/a2c/skills")
    assert home(env={"XDG_DATA_HOME": "relative"}) == Path("/me/.a2c/skills")


@spec("R-FILE-1")
@pytest.mark.parametrize("named", ["", "relative", None])
def test_a_home_that_is_no_absolute_path_is_looked_up(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    known = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.delenv("HOME") if named is None else monkeypatch.setenv("HOME", named)
    environ = {} if named is None else {"HOME": named}
    assert directories.home_of_user(environ) == known
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)  # as in a container
    assert directories.home_of_user(environ) == "/"


@spec("R-FILE-1")
def test_the_other_places_follow_the_same_order() -> None:
    places = directories.resolve(RuntimeOptions(env={"XDG_STATE_HOME": "/s"}), user_home="/me", platform="darwin")
    assert (places.state, places.user_config, places.blob_cache) == (
        Path("/s/a2c"),
        Path("/me/.config/a2c"),
        Path("/me/.a2c"),
    )
    assert places.managed == Path("/Library/Application Support/A2CComputer")
