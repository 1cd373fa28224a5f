"""Which server a person means: the only place where names are looked up (R-MGMT-5…7). Pure.

A name that several servers have is never settled by some order; the person is told what
there is and asked for a bundle_id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..wire.errors import ConfigValidationError


def meant(token: str, servers: Sequence[Any]) -> str:
    """The bundle_id a word stands for.

    Args:
        servers: Candidates with `bundle_id`, `name` and `owner`, one for each bundle_id.
    Raises:
        ConfigValidationError: None of them is meant (`not_found`), or more than one could be (`ambiguous`).
    """
    named = [server for server in servers if server.name == token]
    if len(named) == 1:
        return str(named[0].bundle_id)
    if named:
        if any(server.bundle_id == token for server in named):
            return token
        raise ConfigValidationError(_ambiguity(token, named), code="ambiguous")
    if any(server.bundle_id == token for server in servers):
        return token
    raise ConfigValidationError(f"there is no server {token!r}", code="not_found")


def _ambiguity(token: str, named: Sequence[Any]) -> str:
    lines = [f"{len(named)} servers are named {token!r}:"]
    lines += [
        f"  {server.bundle_id}  {server.name}  ({server.owner})"
        for server in sorted(named, key=lambda server: server.bundle_id)
    ]
    return "\n".join([*lines, "say which one by its bundle_id"])
