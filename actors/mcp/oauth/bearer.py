"""Using a grant: the token on each request, renewed when it must be, and never a question to anybody.

A server that has no grant yet answers 401 itself, which is "authorize first" (4006). A grant
that is refused and cannot be renewed is lost, which is another thing (4007); it stays lost
until somebody grants anew.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal
from urllib.parse import quote

import anyio
import httpx2
import msgspec

from ....wire.errors import AuthError, NetworkError
from ..failures import AuthorizationFailed, UpstreamFailed
from .grant import Grant, renewal_form, renewed
from .vault import Grants

UNAUTHORIZED = 401

Obtain = Callable[[], Awaitable[Grant]]
"""Gets a new grant without a person, where a server has that."""


class Bearer(httpx2.Auth):
    """The authorization of one server.

    Args:
        key: Where its grant is kept.
        obtain: For a client that speaks for itself; `None` where a person has to grant.
        wall_clock: Unix seconds.
    """

    def __init__(
        self, vault: Grants, key: str, obtain: Obtain | None = None, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._vault = vault
        self._key = key
        self._obtain = obtain
        self._now = wall_clock
        self._turn = anyio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `httpx2.Auth`.

        Raises:
            AuthorizationFailed: The grant is lost (4007).
            UpstreamFailed: It could not be renewed for another reason; it may be, later.
        """
        grant = await self._vault.load(self._key)
        if grant is None and self._obtain is not None:
            grant = await self._obtained(None)
        if grant is not None and not grant.is_fresh(self._now()):
            async with self._turn:
                grant = await self._current(grant)
                if not grant.is_fresh(self._now()) and grant.is_renewable:
                    answer = yield _renewal(grant)
                    grant = await self._take(grant, answer)
            if not grant.is_fresh(self._now()):
                grant = await self._obtained(grant)
        if grant is not None:
            request.headers["Authorization"] = f"Bearer {grant.access_token}"
        response = yield request
        if response.status_code != UNAUTHORIZED or grant is None:
            return
        async with self._turn:
            latest = await self._current(grant)
            if latest.access_token == grant.access_token and latest.is_renewable:
                answer = yield _renewal(latest)
                latest = await self._take(latest, answer)
        if latest.access_token == grant.access_token:
            latest = await self._obtained(grant)
        request.headers["Authorization"] = f"Bearer {latest.access_token}"
        response = yield request
        if response.status_code == UNAUTHORIZED:
            await self._lose(latest)

    async def _current(self, grant: Grant) -> Grant:
        """The grant as it is now; somebody else may have renewed it meanwhile."""
        return await self._vault.load(self._key) or grant

    async def _take(self, grant: Grant, answer: httpx2.Response) -> Grant:
        """What the authorization server made of a renewal."""
        if answer.status_code >= 500:
            raise UpstreamFailed(f"the authorization server answered HTTP {answer.status_code}", sent=False)
        body = await _json(answer)
        fresh = renewed(grant, body, self._now()) if answer.status_code < 300 else None
        if fresh is None:
            return msgspec.structs.replace(grant, refresh_token=None)
        await self._vault.save(self._key, fresh)
        return fresh

    async def _obtained(self, refused: Grant | None) -> Grant:
        """A new grant for a client that speaks for itself; for any other this one is lost."""
        if self._obtain is None:
            await self._lose(refused)
        assert self._obtain is not None
        async with self._turn:
            latest = await self._vault.load(self._key)
            if latest is not None and latest != refused and latest.is_fresh(self._now()):
                return latest
            try:
                grant = await self._obtain()
            except AuthError as error:
                code: Literal[4006, 4007] = 4006 if refused is None else 4007
                why = error.message if error.code == "bad_key" else "the client's own credentials were refused"
                raise AuthorizationFailed(code, why) from None
            except NetworkError as error:
                raise UpstreamFailed(error.message, sent=False) from None
            await self._vault.save(self._key, grant)
            return grant

    async def _lose(self, grant: Grant | None) -> None:
        if grant is not None and not grant.is_lost:
            await self._vault.save(self._key, msgspec.structs.replace(grant, is_lost=True))
        raise AuthorizationFailed(4007, "the server's authorization has expired or was revoked")


def _renewal(grant: Grant) -> httpx2.Request:
    form, user = renewal_form(grant)
    headers = {"Accept": "application/json"}
    if user is not None:
        headers["Authorization"] = _basic(*user)
    return httpx2.Request("POST", grant.token_endpoint or "", data=form, headers=headers)


def _basic(user: str, password: str) -> str:
    pair = f"{quote(user, safe='')}:{quote(password, safe='')}"  # RFC 6749, 2.3.1
    return "Basic " + base64.b64encode(pair.encode()).decode()


async def _json(response: httpx2.Response) -> object:
    try:
        return json.loads(await response.aread())
    except ValueError:
        return None
