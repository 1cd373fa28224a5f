"""A launch plan holds everything rendered, and only what fits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.placeholders import Surroundings
from smcp_runtime.actors.reconcile.config.policies import ServerPolicies
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry, read_entry
from smcp_runtime.actors.reconcile.rendering.env_file import parse_env_file
from smcp_runtime.actors.reconcile.rendering.launch import LaunchContext, launch_plan, render_entry
from smcp_runtime.wire.errors import ConfigValidationError, StartupError
from smcp_runtime.wire.messages.mcp import CallLimits, LaunchPlan

spec = pytest.mark.spec
CONTEXT = LaunchContext(Surroundings({"HOST": "h"}, "/home/me", "/"), "/project", start_timeout=9.0)


def entry(**raw: Any) -> ServerEntry:
    read = read_entry({"name": "s", **raw}, "e", Findings())
    assert read is not None
    return read


def plan(of: ServerEntry, file_env: dict[str, str] | None = None, **values: Any) -> LaunchPlan:
    return launch_plan(of, render_entry(of, values, CONTEXT), file_env or {}, CONTEXT)


@spec("R-INPUT-5")
def test_a_stdio_plan_is_rendered_in_every_field() -> None:
    made = plan(
        entry(command="${input:a}", args=["-${input:a}"], env={"K": "${env:HOST}"}, cwd="sub${pathSeparator}x"), a="x"
    )
    assert (made.command, made.args, made.env, made.cwd) == ("x", ("-x",), {"K": "h"}, "/project/sub/x")


def test_without_cwd_a_server_runs_in_the_project_and_an_absolute_one_stands() -> None:
    assert plan(entry(command="c")).cwd == "/project"
    assert plan(entry(command="c", cwd="/else")).cwd == "/else"


@spec("R-MCP-3")
def test_explicit_variables_win_over_the_env_file() -> None:
    assert plan(entry(command="c", env={"A": "explicit"}), {"A": "file", "B": "file"}).env == {
        "A": "explicit",
        "B": "file",
    }


@spec("R-MCP-4")
def test_the_env_file_is_rendered_and_taken_relative_to_the_project() -> None:
    of = entry(type="stdio", server_parameters={"command": "c"}, envFile="${input:a}.env")
    assert render_entry(of, {"a": "dev"}, CONTEXT).env_file == "/project/dev.env"


def test_an_http_plan_holds_seconds_and_headers() -> None:
    made = plan(
        entry(type="http", url="https://${env:HOST}/", headers={"A": "Bearer ${input:t}"}, timeout="PT1M"), t="k"
    )
    assert (made.url, made.headers, made.timeout, made.read_timeout) == ("https://h/", {"A": "Bearer k"}, 60.0, 300.0)
    assert made.terminate_on_close is True


@spec("R-INPUT-6")
def test_typed_values_of_pure_placeholders_reach_their_field() -> None:
    parameters = {"url": "http://u", "timeout": "${input:n}", "terminate_on_close": "${input:b}"}
    made = plan(entry(type="streamable", server_parameters=parameters), n=7, b=False)
    assert (made.timeout, made.terminate_on_close) == (7.0, False)


@spec("R-INPUT-6")
@pytest.mark.parametrize(
    ("raw", "values", "field"),
    [
        ({"command": "${input:a}"}, {"a": 7}, "server_parameters.command"),
        ({"command": "${input:a}"}, {"a": "  "}, "server_parameters.command"),
        ({"command": "c", "args": ["x", "${input:a}"]}, {"a": True}, "server_parameters.args[1]"),
        ({"command": "c", "env": {"K": "${input:a}"}}, {"a": 1}, "server_parameters.env.K"),
        ({"command": "c", "args": ["${input:a}"]}, {"a": "x\0"}, "server_parameters.args[0]"),
        ({"command": "c", "env": {"K": "${input:a}"}}, {"a": "x\0"}, "server_parameters.env.K"),
        (
            {"server_parameters": {"command": "c", "encoding": "${input:a}"}, "type": "stdio"},
            {"a": "klingon"},
            "server_parameters.encoding",
        ),
        ({"type": "http", "url": "${input:a}"}, {"a": "not a place"}, "server_parameters.url"),
        ({"type": "sse", "url": "http://u", "timeout": "${input:a}"}, {"a": "soon"}, "server_parameters.timeout"),
        ({"type": "http", "url": "http://u", "timeout": "${input:a}"}, {"a": -1}, "server_parameters.timeout"),
    ],
)
def test_a_value_of_another_type_is_refused_by_field_without_being_quoted(raw: Any, values: Any, field: str) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        plan(entry(**raw), **values)
    assert (caught.value.field, caught.value.code, caught.value.bundle_id) == (field, "bad_rendering", "s")


@spec("F-107")
def test_an_undefined_variable_leaves_a_note() -> None:
    of = entry(command="c", args=["${env:NOPE}"])
    assert "NOPE" in render_entry(of, {}, CONTEXT).notes[0]


@spec("W-ID-6", "R-MCP-10")
def test_an_entry_that_would_start_under_another_identity_does_not_start() -> None:
    drifted = msgspec.structs.replace(entry(command="c"), bundle_id="other")
    with pytest.raises(StartupError) as caught:
        render_entry(drifted, {}, CONTEXT)
    assert caught.value.code == "identity_drift"


@spec("W-ID-6")
def test_rendering_does_not_change_a_digest_identity() -> None:
    of = read_entry({"command": "node", "env": {"API_KEY": "${input:k}"}}, "e", Findings(), key="")
    assert of is not None
    assert plan(of, k="one").bundle_id == plan(of, k="two").bundle_id == of.bundle_id


def test_policies_and_start_budget_are_part_of_the_plan() -> None:
    of = entry(command="c")
    policies = ServerPolicies(limits=CallLimits(max_in_flight=1))
    context = msgspec.structs.replace(CONTEXT, policies=policies)
    made = launch_plan(of, render_entry(of, {}, context), {}, context)
    assert (made.limits.max_in_flight, made.start_timeout) == (1, 9.0)


@spec("R-MCP-4")
def test_an_env_file_is_literal_text_of_names_and_values() -> None:
    text = "\ufeff# comment\n\nA=1\nexport B = two words \nC='quo=ted'\nD=\"x\nbroken\n=v\nE=${A}\nA=2\n"
    values, notes = parse_env_file(text)
    assert values == {"A": "2", "B": "two words", "C": "quo=ted", "D": '"x', "E": "${A}"}
    assert notes == ("line 7 skipped: not KEY=VALUE", "line 8 skipped: not KEY=VALUE")
