"""The identity of an MCP server: its bundle_id, given or derived from the raw configuration (01 §7.2).

A server is recognised by configuration that does not change when a secret rotates, so
placeholders enter the digest as they are written (W-ID-6).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ConfigValidationError
from .protocol import FALLBACK_ID_PREFIX
from .servers import MCPServer, StdioServer

_VALID = re.compile(r"[A-Za-z0-9_-]+")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_RUNS = re.compile(r"_{2,}")


def is_valid_bundle_id(value: str) -> bool:
    """Whether a text may be an identity: ASCII letters, digits, `_` and `-`, and no `__` (W-ID-1)."""
    return _VALID.fullmatch(value) is not None and "__" not in value


def normalise_name(name: str) -> str:
    """The identity a display name gives, or `""` when nothing of it is left (W-ID-3)."""
    return _RUNS.sub("_", _FOREIGN.sub("_", name)).strip("_-")


def derive_bundle_id(
    name: str,
    transport: str,
    *,
    explicit: str | None = None,
    command: str = "",
    args: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    url: str = "",
    headers: Mapping[str, str] | None = None,
) -> str:
    """The bundle_id of a server from its raw configuration.

    Args:
        transport: `stdio`, `streamable` or `sse`; decides which of the rest takes part.
        explicit: The configured id, which wins.
    Raises:
        ConfigValidationError: The explicit id breaks the grammar, or a name, value or header is no text.
    Spec: W-ID-2…6, R-MCP-6.
    """
    if explicit is not None:
        if not is_valid_bundle_id(explicit):
            raise ConfigValidationError(
                "a bundle_id consists of ASCII letters, digits, '_' and '-', without '__'",
                code="invalid_bundle_id",
                field="bundle_id",
            )
        return explicit
    derived = normalise_name(name)
    if derived:
        return derived
    if transport == "stdio":
        frame = connection_frame(transport, command, args, env)
    else:
        frame = connection_frame(transport, url, None, headers)
    return FALLBACK_ID_PREFIX + hashlib.sha256(frame).digest()[:8].hex()


def bundle_id_of(server: MCPServer) -> str:
    """The bundle_id of a canonical, raw server entry.

    Raises:
        ConfigValidationError: As `derive_bundle_id`.
    """
    if isinstance(server, StdioServer):
        stdio = server.server_parameters
        return derive_bundle_id(
            server.name, "stdio", explicit=server.bundle_id, command=stdio.command, args=stdio.args, env=stdio.env
        )
    http = server.server_parameters
    return derive_bundle_id(
        server.name, server.transport, explicit=server.bundle_id, url=http.url, headers=http.headers
    )


def connection_frame(
    transport: str, target: str, args: Sequence[str] | None = None, pairs: Mapping[str, str] | None = None
) -> bytes:
    """The bytes that identify a connection: transport, command or URL, arguments (stdio only), environment or headers.

    Raises:
        ConfigValidationError: A part is no text, or no valid Unicode (W-ID-14).
    Spec: W-ID-10…13.
    """
    frame = _string(transport) + _string(target)
    if transport == "stdio":
        frame += _u32(len(args or ())) + b"".join(_string(part) for part in args or ())
    entries = [(_string_bytes(key), _string(value)) for key, value in (pairs or {}).items()]
    # UTF-8 sorts like code points, so comparing bytes gives the required order.
    entries.sort(key=lambda entry: entry[0])
    return frame + _u32(len(entries)) + b"".join(_u32(len(key)) + key + value for key, value in entries)


def _string(value: Any) -> bytes:
    encoded = _string_bytes(value)
    return _u32(len(encoded)) + encoded


def _string_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            pass
    raise ConfigValidationError("environment, headers, arguments and addresses are text", code="not_text")


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "big")
