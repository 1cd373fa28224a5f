"""Getting a grant: with a person at a browser of this machine, or for a client that speaks for itself.

The flows are those of the mcp library; what they come to is taken out of it and kept as a
`Grant`, so that using one never depends on how it was got.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl, ValidationError

from ....wire.errors import AuthError, NetworkError, SmcpError
from ....wire.messages.mcp import LaunchPlan, OAuthPlan
from .grant import Grant
from .loopback import Loopback

CLIENT_NAME = "smcp-runtime"
ASKED_WITH = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"smcp-runtime","version":"0"}}}'
)
"""A request a server without a grant refuses; what it answers with one does not matter."""

Show = Callable[[str], Awaitable[None]]
"""Shows a person the page at a URL."""


class Memory:
    """Token storage of one flow."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def with_a_person(plan: LaunchPlan, show: Show, wall_clock: Callable[[], float] = time.time) -> Grant:
    """A grant that somebody gives in a browser.

    Args:
        show: Opens the page of the authorization server; it must come back to this machine.
    Raises:
        AuthError: It was not granted (`not_granted`).
        NetworkError: The server or its authorization server cannot be reached.
    """
    oauth = plan.oauth or OAuthPlan()
    async with Loopback() as loopback:
        metadata = _metadata(oauth, loopback.redirect_uri)
        memory = Memory(_registered(oauth, metadata))

        async def come_back() -> AuthorizationCodeResult:
            returned = await loopback.returned()
            if returned.error is not None or returned.code is None:
                raise OAuthFlowError("refused")
            return AuthorizationCodeResult(code=returned.code, state=returned.state, iss=returned.issuer)

        provider = OAuthClientProvider(
            plan.url,
            metadata,
            memory,
            show,
            come_back,
            client_metadata_url=oauth.client_metadata_url,
            validate_resource_url=None if oauth.resource is None else _only(oauth.resource),
        )
        return await _run(plan, provider, memory, wall_clock)


async def by_itself(plan: LaunchPlan, wall_clock: Callable[[], float] = time.time) -> Grant:
    """A grant for a client with its own credentials: a secret, or a key it signs with.

    Raises:
        AuthError: It was refused (`not_granted`), or its key cannot sign (`bad_key`).
        NetworkError: As `with_a_person`.
    """
    oauth = plan.oauth or OAuthPlan()
    memory = Memory()
    common: dict[str, Any] = {
        "client_id": oauth.client_id or "",
        "scope": " ".join(oauth.scopes) or None,
        "issuer": oauth.issuer,
    }
    provider: OAuthClientProvider
    with warnings.catch_warnings():
        # Without a configured issuer the MCP server names it, which is what its operator asked for.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if oauth.private_key is not None:
            sign = _signer(plan, oauth, oauth.private_key)
            provider = PrivateKeyJWTOAuthProvider(plan.url, memory, assertion_provider=sign, **common)
        else:
            secret = oauth.client_secret or ""
            provider = ClientCredentialsOAuthProvider(plan.url, memory, client_secret=secret, **common)
    return await _run(plan, provider, memory, wall_clock)


def _signer(plan: LaunchPlan, oauth: OAuthPlan, key: str) -> Callable[[str], Awaitable[str]]:
    """Signs what a client says of itself for one authorization server (RFC 7523)."""
    name = oauth.client_id or ""
    # A variable holds a key on one line as often as not.
    text = key if "\n" in key else key.replace("\\n", "\n")
    parameters = SignedJWTParameters(
        issuer=name, subject=name, signing_key=text, signing_algorithm=oauth.signing_algorithm or "RS256"
    )
    sign = parameters.create_assertion_provider()

    async def assertion(audience: str) -> str:
        try:
            return await sign(audience)
        except Exception:
            # Of the libraries below; what they say may quote the key.
            raise AuthError(
                f"the private key of {plan.bundle_id} cannot sign by {parameters.signing_algorithm}",
                code="bad_key",
                bundle_id=plan.bundle_id,
            ) from None

    return assertion


async def _run(
    plan: LaunchPlan, provider: OAuthClientProvider, memory: Memory, wall_clock: Callable[[], float]
) -> Grant:
    """Asks the server for something it refuses, so that the provider sees its challenge and answers it."""
    headers = {
        **plan.headers,
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    try:
        async with (
            httpx2.AsyncClient(auth=provider, timeout=httpx2.Timeout(plan.timeout), follow_redirects=False) as client,
            client.stream("POST", plan.url, content=ASKED_WITH, headers=headers),
        ):
            pass  # the body may be a stream without an end
    except httpx2.HTTPError as error:
        name = type(error).__name__
        raise NetworkError(
            f"the authorization of {plan.bundle_id} could not be asked for ({name})", bundle_id=plan.bundle_id
        ) from None
    except (OAuthFlowError, ValidationError, ValueError):
        raise _not_granted(plan) from None
    if memory.tokens is None:
        raise _not_granted(plan)
    return _grant(provider, memory.tokens, wall_clock())


def _grant(provider: OAuthClientProvider, tokens: OAuthToken, now: float) -> Grant:
    context = provider.context
    client, metadata = context.client_info, context.oauth_metadata
    is_signed = client is not None and client.token_endpoint_auth_method == "private_key_jwt"
    with_resource = context.should_include_resource_param(context.protocol_version)
    return Grant(
        access_token=tokens.access_token,
        # Who signs gets a new grant as easily as a renewed one.
        refresh_token=None if is_signed else tokens.refresh_token,
        expires_at=None if tokens.expires_in is None else now + tokens.expires_in,
        scope=tokens.scope,
        token_endpoint=None if metadata is None else str(metadata.token_endpoint),
        client_id=None if client is None else client.client_id,
        client_secret=None if client is None else client.client_secret,
        auth_method=None if client is None else client.token_endpoint_auth_method,
        resource=context.get_resource_url() if with_resource else None,
    )


def _metadata(oauth: OAuthPlan, redirect_uri: str) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name=oauth.client_name or CLIENT_NAME,
        redirect_uris=[AnyUrl(redirect_uri)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="client_secret_basic" if oauth.client_secret else "none",
        scope=" ".join(oauth.scopes) or None,
    )


def _only(resource: str) -> Callable[[str, str | None], Awaitable[None]]:
    """Accepts a server that calls itself by this resource and no other."""

    async def check(_: str, named: str | None) -> None:
        if named is not None and named.rstrip("/") != resource.rstrip("/"):
            raise OAuthFlowError("the server is another resource than the configured one")

    return check


def _registered(oauth: OAuthPlan, metadata: OAuthClientMetadata) -> OAuthClientInformationFull | None:
    """The registration somebody made beforehand; else the client registers itself, since its port is new each time."""
    if oauth.client_id is None:
        return None
    return OAuthClientInformationFull(
        **metadata.model_dump(exclude_none=True), client_id=oauth.client_id, client_secret=oauth.client_secret
    )


def _not_granted(plan: LaunchPlan) -> SmcpError:
    return AuthError(f"{plan.bundle_id} was not authorized", code="not_granted", bundle_id=plan.bundle_id)
