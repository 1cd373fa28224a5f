"""What a failed HTTP exchange says about the request it carried: authorization, session, or a plain failure (W-UP).

Texts are static: nothing of what the peer wrote reaches an Agent (W-UP-3, W-UP-8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..failures import AuthorizationFailed, RequestFailed, UpstreamFailed

UNAUTHORIZED = 401
FORBIDDEN = 403


def refusal(status: int, headers: Mapping[str, str]) -> RequestFailed | None:
    """The failure that a status stands for, `None` if it is a success (U-2, U-3, U-7, U-8).

    Args:
        headers: With lower-case names. A challenge makes any failure one of authorization (W-UP-4).
    """
    if status < 400:
        return None
    if status == FORBIDDEN:
        return AuthorizationFailed(4007, "the server refused the credentials (HTTP 403)")
    if status == UNAUTHORIZED:
        return AuthorizationFailed(4006, "the server asks for authorization (HTTP 401)")
    if "www-authenticate" in headers:
        return AuthorizationFailed(4006, f"the server asks for authorization (HTTP {status})")
    return UpstreamFailed(f"the server answered HTTP {status}", status=status)


def authorization_signal(error: BaseException) -> AuthorizationFailed | None:
    """What an exception of a library says about authorization, if it says so positively (W-UP-5, U-1, U-4…U-6).

    Looks at the exception, its explicit causes and the members of groups; never at what it merely happened
    to be raised during. Libraries are recognised by what their errors carry, so that none must be imported.
    """
    for found in _explicit(error):
        status = getattr(getattr(found, "response", None), "status_code", None)
        if isinstance(status, int):
            failure = refusal(status, _headers(found))
            if isinstance(failure, AuthorizationFailed):
                return failure
        name = type(found).__name__
        if name in ("OAuthRegistrationError", "OAuthFlowError"):
            return AuthorizationFailed(4006, "the server's authorization has not been completed")
        if name == "OAuthTokenError":
            return AuthorizationFailed(4007, "the server's authorization has expired or was revoked")
    return None


def _explicit(error: BaseException) -> Iterator[BaseException]:
    pending, seen = [error], set[int]()
    while pending:
        found = pending.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            pending.extend(found.exceptions)
        if found.__cause__ is not None:
            pending.append(found.__cause__)


def _headers(error: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", {})
    return {str(name).lower(): str(value) for name, value in dict(headers).items()}
