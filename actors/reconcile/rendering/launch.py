"""From a raw entry and resolved values to the plan one start is made of (R-MCP-10, R-INPUT-6).

Pure: what had to be looked up (inputs, the env file) comes in as values. The plan holds
secrets in clear and is never kept longer than the start it was rendered for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ....wire.durations import parse_duration
from ....wire.errors import ConfigValidationError, SmcpError, StartupError
from ....wire.identity import derive_bundle_id
from ....wire.messages.mcp import LaunchPlan, OAuthPlan
from ..config.oauth_entry import oauth_plan
from ..config.parameters import is_encoding, is_endpoint, is_variable
from ..config.placeholders import Rendered, Surroundings, render
from ..config.policies import ServerPolicies
from ..config.server_entry import ServerEntry


class LaunchContext(msgspec.Struct, frozen=True):
    """What a rendering needs beside the entry and the values of its inputs."""

    around: Surroundings
    project_root: str
    policies: ServerPolicies = ServerPolicies()
    start_timeout: float = 30.0


class RenderedEntry(msgspec.Struct, frozen=True):
    """A rendered entry before its env file was read.

    Attributes:
        env_file: Absolute path of the file, `None` for none.
        notes: Warnings about undefined variables.
    """

    parameters: dict[str, Any]
    env_file: str | None
    notes: tuple[str, ...]
    oauth: OAuthPlan | None = None


def render_entry(entry: ServerEntry, values: Mapping[str, Any], context: LaunchContext) -> RenderedEntry:
    """The entry with its placeholders replaced and every field checked against its type.

    Raises:
        ConfigValidationError: A typed value does not fit its field; names the field, not the value.
        StartupError: The identity would be another one (`identity_drift`).
    """
    rendered: Rendered = render(entry.rendered_fields, values, context.around)
    parameters = rendered.value["server_parameters"]
    _check(entry, parameters)
    _refuse_drift(entry)
    env_file = rendered.value["envFile"]
    notes = tuple(f"${{env:{name}}} is undefined and was taken as empty" for name in rendered.undefined)
    place = None if env_file is None else os.path.join(context.project_root, env_file)
    return RenderedEntry(parameters, place, notes, oauth_plan(entry.oauth, values))


def launch_plan(
    entry: ServerEntry,
    rendered: RenderedEntry,
    file_env: Mapping[str, str],
    context: LaunchContext,
    secrets: Iterable[str] = (),
) -> LaunchPlan:
    """The plan of one start. Explicit `env` wins over the file (R-MCP-3).

    Args:
        secrets: Values in it that must not be shown (R-INPUT-23).
    """
    parameters, policies = rendered.parameters, context.policies
    common: dict[str, Any] = {
        "bundle_id": entry.bundle_id,
        "name": entry.name,
        "transport": entry.type,
        "start_timeout": context.start_timeout,
        "health": policies.health,
        "reconnect": policies.reconnect,
        "limits": policies.limits,
        "secrets": tuple(secrets),
    }
    if entry.type == "stdio":
        cwd = parameters["cwd"]
        return LaunchPlan(
            **common,
            command=parameters["command"],
            args=tuple(parameters["args"]),
            env={**file_env, **(parameters["env"] or {})},
            cwd=os.path.join(context.project_root, cwd) if cwd else context.project_root,
            encoding=parameters["encoding"],
            encoding_errors=parameters["encoding_error_handler"],
        )
    return LaunchPlan(
        **common,
        url=parameters["url"],
        headers=parameters["headers"] or {},
        timeout=_seconds(entry, "timeout", parameters),
        read_timeout=_seconds(entry, "sse_read_timeout", parameters),
        terminate_on_close=parameters.get("terminate_on_close", True),
        oauth=rendered.oauth,
    )


def _check(entry: ServerEntry, parameters: Mapping[str, Any]) -> None:
    """Checks types after rendering: a pure placeholder may have become a number or a boolean."""
    for name, value in parameters.items():
        if name in ("timeout", "sse_read_timeout"):
            _seconds(entry, name, parameters)
        elif name == "terminate_on_close":
            _expect(entry, name, isinstance(value, bool), "a boolean")
        elif name == "args":
            for index, element in enumerate(value):
                _expect(entry, f"args[{index}]", isinstance(element, str) and "\0" not in element, "a text")
        elif name in ("env", "headers"):
            for key, element in (value or {}).items():
                _expect(entry, f"{name}.{key}", isinstance(element, str), "a text")
        elif value is not None:
            _expect(entry, name, isinstance(value, str), "a text")
    if entry.type != "stdio":
        _expect(entry, "url", is_endpoint(parameters["url"]), "an http or https URL")
    else:
        _expect(entry, "command", bool(parameters["command"].strip()), "non-empty")
        _expect(entry, "encoding", is_encoding(parameters["encoding"]), "an encoding that Python knows")
        for key, element in (parameters["env"] or {}).items():
            _expect(entry, f"env.{key}", is_variable(key, element), "what an environment can hold")
        _expect(
            entry,
            "encoding_error_handler",
            parameters["encoding_error_handler"] in ("strict", "ignore", "replace"),
            "strict, ignore or replace",
        )


def _seconds(entry: ServerEntry, name: str, parameters: Mapping[str, Any]) -> float:
    try:
        seconds = parse_duration(parameters[name])
    except ValueError:
        seconds = 0.0
    if entry.type == "sse" and isinstance(parameters[name], str):
        seconds = _plain_seconds(parameters[name])
    _expect(entry, name, seconds > 0, "a duration > 0")
    return seconds


def _plain_seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _expect(entry: ServerEntry, field: str, fits: bool, expected: str) -> None:
    if not fits:
        place = f"server_parameters.{field}"
        raise ConfigValidationError(
            f"{entry.bundle_id}: {place} must be {expected} once rendered",
            code="bad_rendering",
            field=place,
            bundle_id=entry.bundle_id,
        )


def _refuse_drift(entry: ServerEntry) -> None:
    """Identity comes from the raw entry alone; one that no longer yields its own id must not start (W-ID-6)."""
    taking_part = ("command", "args", "env") if entry.type == "stdio" else ("url", "headers")
    connection = {name: entry.parameters[name] for name in taking_part}
    try:
        found = derive_bundle_id(entry.name, entry.type, explicit=entry.explicit_id, **connection)
    except SmcpError:
        found = ""
    if found != entry.bundle_id:
        raise StartupError(
            f"{entry.bundle_id} would start under another identity", code="identity_drift", bundle_id=entry.bundle_id
        )
