"""The `oauth` object of a server entry: how the Computer gets itself authorized at a server (03 §4.2). Pure.

A client secret or private key is named by the id of an input and never written down. What a person is asked
is no part of it: that is for whoever starts an authorization.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....wire.messages.mcp import OAuthPlan
from .fields import Fields
from .findings import Findings

_ALIASES = {"client_name": "clientName"}
_MODE_ALIASES = {
    "client_id": "clientId",
    "client_secret_input": "clientSecretInput",
    "private_key_input": "privateKeyInput",
    "signing_algorithm": "signingAlgorithm",
    "client_metadata_url": "url",
}
AUTHORIZATION_CODE = "authorizationCode"
CLIENT_CREDENTIALS = "clientCredentialsSecret"
SIGNED_CREDENTIALS = "clientCredentialsJwt"
_TYPES = {
    AUTHORIZATION_CODE: AUTHORIZATION_CODE,
    "authorization_code": AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS: CLIENT_CREDENTIALS,
    "client_credentials": CLIENT_CREDENTIALS,
    SIGNED_CREDENTIALS: SIGNED_CREDENTIALS,
    "private_key_jwt": SIGNED_CREDENTIALS,
}
_MACHINES = (CLIENT_CREDENTIALS, SIGNED_CREDENTIALS)
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_REGISTRATIONS = ("dynamic", "preregistered", "clientMetadataDocument")


def read_oauth(fields: Fields, transport: str | None, findings: Findings) -> dict[str, Any] | None:
    """The settled `oauth` object of an entry, `None` where there is none."""
    raw = fields.object("oauth")
    if raw is None:
        return None
    if transport in ("stdio", "sse"):
        findings.add(fields.at("oauth"), f"is no key of a {transport} server", code="unknown_key")
        return None
    oauth = Fields(raw, fields.at("oauth"), findings, _ALIASES)
    settled: dict[str, Any] = {
        "resource": oauth.text("resource"),
        "scopes": oauth.texts("scopes") or None,
        "clientName": oauth.text("clientName"),
        "mode": _read_mode(oauth, findings),
    }
    oauth.refuse_unknown("oauth settings")
    return {name: value for name, value in settled.items() if value is not None}


def secret_input_of(oauth: Mapping[str, Any] | None) -> str | None:
    """The id of the input that holds the client secret or the private key, `None` for none."""
    mode = {} if oauth is None else oauth["mode"]
    return mode.get("clientSecretInput") or mode.get("privateKeyInput")


def may_be_authorized(transport: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a server takes part in OAuth: over HTTP, and without a fixed Authorization header (R-MCP-25)."""
    headers = parameters.get("headers") or {}
    return transport == "streamable" and not any(name.lower() == "authorization" for name in headers)


def oauth_plan(oauth: Mapping[str, Any] | None, values: Mapping[str, Any]) -> OAuthPlan | None:
    """The part of a launch plan, with the secret resolved.

    Args:
        values: Of the inputs the entry refers to.
    """
    if oauth is None:
        return None
    mode = oauth["mode"]
    secret = secret_input_of(oauth)
    value = None if secret is None else str(values[secret])
    is_signed = mode["type"] == SIGNED_CREDENTIALS
    return OAuthPlan(
        grant="client_credentials" if mode["type"] in _MACHINES else "authorization_code",
        client_id=mode.get("clientId"),
        client_secret=None if is_signed else value,
        private_key=value if is_signed else None,
        signing_algorithm=mode.get("signingAlgorithm"),
        client_metadata_url=mode.get("url"),
        client_name=oauth.get("clientName"),
        scopes=tuple(oauth.get("scopes", ())),
        resource=oauth.get("resource"),
        issuer=mode.get("issuer"),
    )


def _read_mode(oauth: Fields, findings: Findings) -> dict[str, Any]:
    """The mode as an object; a bare word stands for its type."""
    raw = oauth.take("mode")
    path = oauth.at("mode")
    if isinstance(raw, str):
        raw = {"type": raw}
    if not isinstance(raw, Mapping):
        if raw is None:
            findings.add(path, "is required and must be an object with a type", code="missing")
        else:
            findings.wrong_type(path, "an object with a type", raw)
        return {"type": AUTHORIZATION_CODE}
    mode = Fields(raw, path, findings, _MODE_ALIASES)
    written = mode.text("type", required=True)
    known = _TYPES.get(written or "")
    if written is not None and known is None:
        names = ", ".join((AUTHORIZATION_CODE, *_MACHINES))
        findings.add(mode.at("type"), f"must be one of {names}", code="bad_choice")
    is_machine, is_signed = known in _MACHINES, known == SIGNED_CREDENTIALS
    registration = None if is_machine else mode.choice("registration", _REGISTRATIONS, "dynamic")
    settled = {
        "type": known or AUTHORIZATION_CODE,
        "registration": registration,
        "clientId": mode.text("clientId", required=is_machine or registration == "preregistered", empty=False),
        "clientSecretInput": None if is_signed else mode.text("clientSecretInput", required=is_machine, empty=False),
        "privateKeyInput": mode.text("privateKeyInput", required=True, empty=False) if is_signed else None,
        "signingAlgorithm": mode.choice("signingAlgorithm", _ALGORITHMS, "RS256") if is_signed else None,
        "url": mode.text("url", required=registration == "clientMetadataDocument", empty=False),
        "issuer": mode.text("issuer"),
    }
    mode.refuse_unknown("an oauth mode")
    return {name: value for name, value in settled.items() if value is not None}
