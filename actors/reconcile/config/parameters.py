"""`server_parameters` of one entry: what each transport takes, checked as far as no placeholder stands in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from ....wire.durations import format_duration, parse_duration
from .fields import Fields
from .findings import Findings, member

Transport = Literal["stdio", "streamable", "sse"]

_ERROR_HANDLERS = ("strict", "ignore", "replace")


def read_parameters(transport: Transport, fields: Fields, findings: Findings) -> dict[str, Any]:
    """The parameters of an entry with the defaults of its transport (R-MCP-1)."""
    return _READERS[transport](fields, findings)


def _read_stdio(fields: Fields, findings: Findings) -> dict[str, Any]:
    handler = fields.text("encoding_error_handler") or "strict"
    if handler not in _ERROR_HANDLERS and "${" not in handler:
        findings.add(fields.at("encoding_error_handler"), "must be one of strict, ignore, replace", code="bad_choice")
    return {
        "command": fields.text("command", required=True, empty=False) or "",
        "args": fields.texts("args"),
        "env": _environment(fields, findings),
        "cwd": fields.text("cwd"),
        "encoding": _encoding(fields, findings),
        "encoding_error_handler": handler,
    }


def _read_streamable(fields: Fields, findings: Findings) -> dict[str, Any]:
    return {
        "url": _endpoint(fields, findings),
        "headers": fields.text_map("headers"),
        "timeout": _duration(fields, "timeout", "PT30S", findings),
        "sse_read_timeout": _duration(fields, "sse_read_timeout", "PT5M", findings),
        "terminate_on_close": fields.placeholder("terminate_on_close") or fields.flag("terminate_on_close", True),
    }


def _read_sse(fields: Fields, findings: Findings) -> dict[str, Any]:
    return {
        "url": _endpoint(fields, findings),
        "headers": fields.text_map("headers"),
        "timeout": _seconds(fields, "timeout", 5.0, findings),
        "sse_read_timeout": _seconds(fields, "sse_read_timeout", 300.0, findings),
    }


def _environment(fields: Fields, findings: Findings) -> dict[str, str] | None:
    environment = fields.text_map("env")
    for name, value in (environment or {}).items():
        if not is_variable(name, value):
            place = member(fields.at("env"), name.replace("\0", "\\0"))
            findings.add(place, "has a name or a value that no environment can hold", code="bad_environment")
    return environment


def _encoding(fields: Fields, findings: Findings) -> str:
    encoding = fields.text("encoding") or "utf-8"
    if "${" not in encoding and not is_encoding(encoding):
        findings.add(fields.at("encoding"), "must be an encoding that Python knows", code="bad_choice")
    return encoding


def _endpoint(fields: Fields, findings: Findings) -> str:
    url = fields.text("url", required=True, empty=False) or ""
    if url and "${" not in url and not is_endpoint(url):
        findings.add(fields.at("url"), "must be an http or https URL", code="bad_url")
    return url


def is_variable(name: str, value: str) -> bool:
    """Whether an environment can hold it."""
    return bool(name) and "=" not in name and "\0" not in name + value


def is_encoding(name: str) -> bool:
    """Whether text can be written in it."""
    try:
        return "".encode(name) is not None
    except (LookupError, ValueError):
        return False


def is_endpoint(url: str) -> bool:
    """Whether an HTTP request can be sent to it."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _duration(fields: Fields, name: str, default: str, findings: Findings) -> str:
    placeholder = fields.placeholder(name)
    value = fields.take(name)
    if placeholder is not None or value is None:
        return placeholder or default
    try:
        return format_duration(parse_duration(value))
    except ValueError:
        findings.add(fields.at(name), "must be an ISO-8601 duration or a number of seconds", code="bad_duration")
        return default


def _seconds(fields: Fields, name: str, default: float, findings: Findings) -> float | str:
    placeholder = fields.placeholder(name)
    if placeholder is not None:
        return placeholder
    value = fields.number(name)
    if value is not None and not 0 < value <= 10**9:
        findings.add(fields.at(name), "must be a number of seconds > 0", code="bad_duration")
        return default
    return default if value is None else float(value)


_READERS: Mapping[str, Callable[[Fields, Findings], dict[str, Any]]] = {
    "stdio": _read_stdio,
    "streamable": _read_streamable,
    "sse": _read_sse,
}
