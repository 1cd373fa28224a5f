"""The `auth` object of each handshake: where it comes from, and what may never be in it (R-LIFE-22, W-AUTH-8)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...wire.errors import ConfigValidationError, PolicyError


class Credentials:
    """Asked by the link at every attempt.

    Args:
        source: The object, or a callable (may be a coroutine function) that gives a fresh one.
        secrets: Gives the values that belong to MCP servers, now.
    """

    def __init__(self, source: Any = None, secrets: Callable[[], Collection[str]] = tuple) -> None:
        self._source = source
        self._secrets = secrets

    async def __call__(self) -> Mapping[str, Any]:
        """The object to send now.

        Raises:
            ConfigValidationError: It is no object, or names a role.
            PolicyError: It holds a secret of an MCP server (`secret_in_auth`); the value is not quoted.
        """
        payload = self._source() if callable(self._source) else self._source
        if inspect.isawaitable(payload):
            payload = await payload
        if payload is None:
            return {}
        if not isinstance(payload, Mapping):
            raise ConfigValidationError("the auth payload is an object", field="auth")
        if "role" in payload:
            message = "the role is declared when joining, not in auth"
            raise ConfigValidationError(message, code="role_in_auth", field="auth.role")
        refuse_secrets(payload, frozenset(self._secrets()))
        return payload


def refuse_secrets(payload: Any, secrets: Collection[str], place: str = "auth") -> None:
    """Refuses a payload in which any text, at any depth, equals a secret.

    Raises:
        PolicyError: `field` names the place.
    """
    if isinstance(payload, str):
        if payload in secrets:
            message = "a secret of an MCP server must not be sent to the Server"
            raise PolicyError(message, code="secret_in_auth", field=place)
    elif isinstance(payload, Mapping):
        for name, value in payload.items():
            refuse_secrets(value, secrets, f"{place}.{name}")
    elif isinstance(payload, list | tuple):
        for index, value in enumerate(payload):
            refuse_secrets(value, secrets, f"{place}[{index}]")
