"""Where git may fetch from (R-PLUGIN-2). Pure.

Only transports that run no program of the url's choosing: `ext::` and the like have no
form that passes, and a host that looks like an option has none either.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote, urlsplit

from ...wire.loopback import is_loopback, is_loopback_url

_SCHEME = re.compile(r"(?P<scheme>ssh|git|https?|file)://(?P<rest>[^\s\x00-\x1f]+)")
_SCP = re.compile(r"(?P<user>[A-Za-z0-9._-]+)@(?P<host>[A-Za-z0-9.-]+):(?P<path>[^\s\x00-\x1f:]+)")
_REPOSITORY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*)(?:/[A-Za-z0-9](?:[A-Za-z0-9._-]*))+")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_SHA = re.compile(r"[0-9a-f]{40}")

_WEB = ("http", "https")
_SPOKEN = {"file": "file", "https": "https:ssh", "http": "http:https:ssh", "git": "git:https:ssh", "ssh": "ssh:https"}


def is_git_url(text: str) -> bool:
    """Whether git may be given this url."""
    if len(text) > 2048 or text.startswith("-"):
        return False
    match = _SCHEME.fullmatch(text)
    if match is None:
        scp = _SCP.fullmatch(text)
        return scp is not None and not scp["host"].startswith("-") and not scp["path"].startswith("-")
    host = match["rest"].partition("/")[0].rpartition("@")[2]
    if match["scheme"] == "file":
        return match["rest"].startswith("/")
    try:
        urlsplit(text).port  # noqa: B018 - looks at it
    except ValueError:
        return False
    return bool(host) and not host.startswith("-") and not match["rest"].startswith("-")


def is_repository(text: str) -> bool:
    """Whether a text is `owner/repo`, or a path of more groups."""
    return len(text) <= 256 and _REPOSITORY.fullmatch(text) is not None and ".." not in text


def is_ref(text: str) -> bool:
    """Whether a text may name a branch or tag."""
    return len(text) <= 256 and _REF.fullmatch(text) is not None and ".." not in text and not text.endswith("/")


def is_sha(text: str) -> bool:
    """Whether a text is a full commit."""
    return _SHA.fullmatch(text) is not None


def expanded(text: str) -> str:
    """The url a person means: `owner/repo` is on GitHub, anything else is taken as it stands."""
    return f"https://github.com/{text}.git" if is_repository(text) and text.count("/") == 1 else text


def over_https(url: str) -> str | None:
    """The same repository over HTTPS, for an ssh url; `None` for others (R-PLUGIN-7)."""
    scp = _SCP.fullmatch(url)
    if scp is not None:
        return f"https://{scp['host']}/{scp['path']}"
    match = _SCHEME.fullmatch(url)
    if match is None or match["scheme"] != "ssh":
        return None
    authority, _, path = match["rest"].partition("/")
    host = authority.rpartition("@")[2].partition(":")[0]
    return f"https://{host}/{path}" if path else None


def local_path(url: str) -> str | None:
    """The path of a `file://` url; `None` for others."""
    return url.removeprefix("file://") if url.startswith("file:///") else None


def is_of_this_machine(url: str) -> bool:
    """Whether a url leads to this machine: a path of it, or its own address."""
    scp = _SCP.fullmatch(url)
    return local_path(url) is not None or (is_loopback(scp["host"]) if scp is not None else is_loopback_url(url))


def holds_credentials(url: str) -> bool:
    """Whether a url holds what may be a secret: a password, or over http any user, as hosts take a token for one."""
    match = _SCHEME.fullmatch(url)
    if match is None:
        return False
    user = match["rest"].partition("/")[0].rpartition("@")[0]
    return bool(user) if match["scheme"] in _WEB else ":" in user


def without_credentials(url: str) -> tuple[str, tuple[dict[str, str], ...]]:
    """A url that anybody may see in a list of processes, and what git needs in its environment in place of the rest.

    Returns:
        The url, and one environment for each way to log in, to be tried in that order. A user alone may be a name,
        whose password a credential helper knows, or else a token, which is sent with no password.
    """
    parts = urlsplit(url) if holds_credentials(url) else None
    if parts is None or parts.scheme not in _WEB:
        return url, ({},)
    host = parts.netloc.rpartition("@")[2]
    here = f"{parts.scheme}://{host}"  # for no other place a redirect may lead to
    user = unquote(parts.username or "")
    pair = base64.b64encode(f"{user}:{unquote(parts.password or '')}".encode()).decode()
    ways = [_configured(f"http.{here}/.extraHeader", f"Authorization: Basic {pair}")]
    if parts.password is None and user.isprintable():  # as the value of a setting and of a helper's line
        ways.insert(0, _configured(f"credential.{here}.username", user))
    return parts._replace(netloc=host).geturl(), tuple(ways)


def _configured(key: str, value: str) -> dict[str, str]:
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": value}


def protocols_of(url: str) -> str:
    """What git may speak for a url, in the form of `GIT_ALLOW_PROTOCOL`.

    No redirect takes it from a secure protocol to another or to this machine's files. A user's `insteadOf` may still
    turn https into ssh and back.
    """
    match = _SCHEME.fullmatch(url)
    return _SPOKEN["ssh" if match is None else match["scheme"]]
