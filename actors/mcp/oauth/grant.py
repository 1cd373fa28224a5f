"""What a server's authorization consists of, and when it has to be renewed. Pure; everything in it is secret."""

from __future__ import annotations

import hashlib

import msgspec

from ....wire.messages.mcp import LaunchPlan

LEEWAY = 30.0
"""Seconds before its end from which on a token is renewed rather than used."""


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, and what it takes to renew them.

    Attributes:
        expires_at: Unix seconds, `None` when the server did not say.
        token_endpoint: Where tokens are renewed.
        auth_method: How the client names itself there.
        is_lost: Whether it was refused and could not be renewed; kept so that this is known (4007, not 4006).
    """

    access_token: str = ""
    refresh_token: str | None = None
    expires_at: float | None = None
    scope: str | None = None
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    auth_method: str | None = None
    resource: str | None = None
    is_lost: bool = False

    def __repr__(self) -> str:
        return f"Grant(lost={self.is_lost})"

    @property
    def is_renewable(self) -> bool:
        """Whether there is what it takes to renew it."""
        return bool(self.refresh_token and self.token_endpoint and self.client_id) and not self.is_lost

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be shown (R-SEC-1)."""
        return frozenset(filter(None, (self.access_token, self.refresh_token, self.client_secret)))

    def is_fresh(self, now: float) -> bool:
        """Whether its token may be used at a moment in Unix seconds."""
        is_over = self.expires_at is not None and now >= self.expires_at - LEEWAY
        return bool(self.access_token) and not is_over and not self.is_lost


def key_of(plan: LaunchPlan) -> str:
    """The key a server's grant is kept under: another URL is another server, whatever its id."""
    place = hashlib.sha256(plan.url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"oauth/{plan.bundle_id}/{place}"


def renewal_form(grant: Grant) -> tuple[dict[str, str], tuple[str, str] | None]:
    """The form that renews a grant, and the user and password it is sent with, `None` for none."""
    form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or ""}
    if grant.resource:
        form["resource"] = grant.resource
    client_id, secret = grant.client_id or "", grant.client_secret or ""
    if secret and grant.auth_method in (None, "client_secret_basic"):
        return form, (client_id, secret)
    form["client_id"] = client_id
    if secret:
        form["client_secret"] = secret
    return form, None


def renewed(grant: Grant, answer: object, now: float) -> Grant | None:
    """The grant after its renewal, `None` when the answer holds no token. What is not in the answer stays."""
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        return None
    seconds = answer.get("expires_in")
    expires_at = now + seconds if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
    refresh, scope = answer.get("refresh_token"), answer.get("scope")
    return msgspec.structs.replace(
        grant,
        access_token=answer["access_token"],
        expires_at=expires_at,
        refresh_token=refresh if isinstance(refresh, str) else grant.refresh_token,
        scope=scope if isinstance(scope, str) else grant.scope,
    )
