"""Who may connect: the provider a deployer writes, and the token check we bring (01 §3).

A provider sees the connection environment, the free-form `auth` object and the request
headers, and says yes or no. It may be a plain function or a coroutine function. One that
raises, or takes too long, says no. Rights never come from here: roles are declared by
joining (W-AUTH-3).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import queue
import threading
from collections.abc import Awaitable, Collection, Iterator, Mapping
from typing import Any, Protocol

from ..wire.protocol import DEFAULT_AUTH_FIELD, DEFAULT_AUTH_HEADER

PROVIDER_TIMEOUT = 10.0
_DENIED = "authentication failed"


class Credentials:
    """What a connection shows.

    Attributes:
        environ: The WSGI-style environment of the connection's first request; may hold secrets, never log it.
        auth: The `auth` object of the CONNECT packet; `{}` when there was none (W-AUTH-2).
        headers: Request headers, looked up without regard to case.
    """

    __slots__ = ("auth", "environ", "headers")

    def __init__(self, environ: Mapping[str, Any], auth: Any) -> None:
        self.environ = environ
        self.auth: Any = {} if auth is None else auth
        self.headers: Mapping[str, str] = Headers(environ)

    def __repr__(self) -> str:
        return "Credentials(…)"


class Headers(Mapping[str, str]):
    """The headers in a WSGI-style environment."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        key = name.upper().replace("-", "_")
        return str(self._environ[key if key in _BARE else f"HTTP_{key}"])

    def __iter__(self) -> Iterator[str]:
        for key in self._environ:
            if key.startswith("HTTP_") or key in _BARE:
                yield key.removeprefix("HTTP_").replace("_", "-").lower()

    def __len__(self) -> int:
        return sum(1 for _ in self)


_BARE = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


class AuthProvider(Protocol):
    """Allows a connection by returning true (W-AUTH-4)."""

    def __call__(self, credentials: Credentials) -> bool | Awaitable[bool]: ...


class TokenAuth:
    """Allows whoever shows one of the tokens.

    Args:
        tokens: Accepted secrets; none at all denies everybody, unless `anonymous` (W-AUTH-10).
        field: Key of the `auth` object to look at; `None` looks at none.
        header: Request header to look at; `None` looks at none.
        anonymous: Let everybody in who shows nothing, or anything.
    Spec: W-AUTH-1, W-AUTH-10.
    """

    def __init__(
        self,
        tokens: Collection[str] = (),
        *,
        field: str | None = DEFAULT_AUTH_FIELD,
        header: str | None = DEFAULT_AUTH_HEADER,
        anonymous: bool = False,
    ) -> None:
        if isinstance(tokens, str):
            raise TypeError("tokens is a collection of strings")
        self._digests = [_digest(token) for token in tokens if token]
        self._field = field
        self._header = header
        self._anonymous = anonymous

    def __call__(self, credentials: Credentials) -> bool:
        return self._anonymous or any(self._is_known(shown) for shown in self._shown(credentials))

    def __repr__(self) -> str:
        return f"TokenAuth({len(self._digests)} tokens, anonymous={self._anonymous})"

    def _shown(self, credentials: Credentials) -> Iterator[str]:
        if self._field is not None and isinstance(credentials.auth, Mapping):
            value = credentials.auth.get(self._field)
            if isinstance(value, str):
                yield value
        if self._header is not None and (value := credentials.headers.get(self._header)):
            yield value

    def _is_known(self, shown: str) -> bool:
        """Compares with every token, and each in constant time."""
        digest = _digest(shown)
        return sum([hmac.compare_digest(digest, known) for known in self._digests]) > 0


ANONYMOUS = TokenAuth(anonymous=True)
"""Lets everybody in; for development, and for Servers behind somebody else's gate."""


async def why_denied(provider: AuthProvider, credentials: Credentials) -> str | None:
    """`None` if the provider allows the connection, else a few words for the log.

    A plain function of a deployer may block, so it runs in a thread.
    """
    try:
        async with asyncio.timeout(PROVIDER_TIMEOUT):
            if isinstance(provider, TokenAuth) or _is_async(provider):
                answer = provider(credentials)
            else:
                answer = await asyncio.to_thread(provider, credentials)
            return _DENIED if not (await answer if inspect.isawaitable(answer) else answer) else None
    except Exception as error:  # a provider that breaks must not let anybody in (W-AUTH-4)
        return f"{_DENIED} with {type(error).__name__}"


def why_denied_sync(provider: AuthProvider, credentials: Credentials) -> str | None:
    """As `why_denied`, from a thread without an event loop; what has to be awaited gets a loop of its own."""
    if isinstance(provider, TokenAuth):
        return None if provider(credentials) else _DENIED
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer = provider(credentials)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_in_time(answer))
            answers.put(None if answer else _DENIED)
        except Exception as error:  # as above
            answers.put(f"{_DENIED} with {type(error).__name__}")

    # A function that blocks for ever cannot be ended, only left behind.
    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=PROVIDER_TIMEOUT)
    except queue.Empty:
        return f"{_DENIED} with TimeoutError"


async def _in_time(answer: Awaitable[bool]) -> bool:
    async with asyncio.timeout(PROVIDER_TIMEOUT):
        return await answer


def _is_async(provider: AuthProvider) -> bool:
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(getattr(provider, "__call__", None))  # noqa: B004


def _digest(secret: str) -> bytes:
    # Equal lengths, so that the comparison tells nothing about the length of a token either.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
