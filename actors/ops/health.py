"""Whether a Computer is alive, and whether it does what it is there for: what probes of a platform ask. Pure."""

from __future__ import annotations

import msgspec

from ...wire.diagnostics import Diagnostics
from ...wire.lifecycle import RUNNING

SERVERS = "mcp/"


class Health(msgspec.Struct, frozen=True):
    """An answer to a probe: yes or no, and why not."""

    ok: bool
    state: str
    reasons: tuple[str, ...] = ()


def alive(shown: Diagnostics) -> Health:
    """Whether it runs at all; a `no` means that only a restart of the process helps."""
    broken = shown.phase in ("error", "shutdown")
    return Health(not broken, shown.state, (f"it is in phase {shown.phase}",) if broken else ())


def ready(shown: Diagnostics) -> Health:
    """Whether Agents get answers: it runs, is in the office it belongs to, and none of its own actors is given up.

    A single MCP server that is down does not count: the others serve, and calls of its tools say so.
    """
    reasons = []
    if shown.phase not in RUNNING:
        reasons.append(f"it is in phase {shown.phase}")
    link = shown.link
    if link.phase == "connecting":
        reasons.append("the Server is being looked for")
    elif link.phase == "connected" and link.office is not None:
        reasons.append(f"office {link.office} is not joined yet")
    elif link.phase == "offline" and shown.link_failure is not None:
        reasons.append(f"the Server was given up: {shown.link_failure.code}")
    reasons += [
        f"actor {actor.address} is parked"
        for actor in shown.actors
        if actor.state == "parked" and not actor.address.startswith(SERVERS)
    ]
    return Health(not reasons, shown.state, tuple(reasons))
