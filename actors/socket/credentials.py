"""What a handshake shows: whence the `auth` object comes, and what is never sent (R-LIFE-22, W-AUTH-8, W-AUTH-9)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...wire.errors import ConfigValidationError, NetworkError, PolicyError, SmcpError


class Credentials:
    """Asked by the link at every attempt.

    Args:
        source: The object, or a callable (may be a coroutine function) that gives a fresh one.
        secrets: Gives the values that belong to MCP servers, now.
        headers: Gives the headers that are sent beside the object, which must not hold a secret either.
    """

    def __init__(
        self,
        source: Any = None,
        secrets: Callable[[], Collection[str]] = tuple,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._source = source
        self._secrets = secrets
        self._headers = headers

    async def __call__(self) -> Mapping[str, Any]:
        """The object to send now.

        Raises:
            ConfigValidationError: It is no object, or names a role.
            PolicyError: It, or a header, holds a secret of an MCP server (`secret_in_auth`); the value is not quoted.
            NetworkError: Whoever should give it failed (`no_credentials`), which a later attempt may not find so.
        """
        secrets = frozenset(self._secrets())
        for name, value in self._headers().items():
            # What follows a scheme word such as `Bearer` counts by itself.
            refuse_secrets([value, *value.split()], secrets, f"headers.{name}")
        payload = await self._given()
        if payload is None:
            return {}
        if not isinstance(payload, Mapping):
            raise ConfigValidationError("the auth payload is an object", field="auth")
        if "role" in payload:
            message = "the role is declared when joining, not in auth"
            raise ConfigValidationError(message, code="role_in_auth", field="auth.role")
        refuse_secrets(payload, secrets)
        return payload

    async def _given(self) -> Any:
        try:
            payload = self._source() if callable(self._source) else self._source
            return await payload if inspect.isawaitable(payload) else payload
        except SmcpError:
            raise
        except Exception as error:
            # By its type only: what an application says of its vault may hold what was in it.
            reason = f"the credentials could not be had: {type(error).__name__}"
            raise NetworkError(reason, code="no_credentials") from None


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
