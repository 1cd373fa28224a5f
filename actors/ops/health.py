"""Whether a Computer is alive, and whether it does what it is there for: what probes of a platform ask. Pure.

Answered from what is known at once. A probe that asked actors would call a Computer dead
for the silence of one of them, and be late for the patience of its platform.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...wire.lifecycle import RUNNING, Phase, State

SERVERS: Final = "mcp/"
SERVING: Final[frozenset[Phase]] = RUNNING | {"syncing"}
"""Phases in which an Agent gets answers, if the link is where it belongs: a change of the set interrupts nobody."""


class Vitals(msgspec.Struct, frozen=True):
    """What probes look at.

    Attributes:
        link: What the link makes of a running Computer's phase.
        office: The office to be in.
        failure: Code of why the link was lost or the office given up.
        parked: Addresses of the actors that are given up.
    """

    phase: Phase = "created"
    state: State = "created"
    link: Phase = "started"
    office: str | None = None
    failure: str | None = None
    parked: tuple[str, ...] = ()


class Health(msgspec.Struct, frozen=True):
    """An answer to a probe: yes or no, and why not."""

    ok: bool
    state: str
    reasons: tuple[str, ...] = ()


def alive(vitals: Vitals) -> Health:
    """Whether it runs at all; a `no` means that only a restart of the process helps."""
    broken = vitals.phase in ("error", "shutdown")
    return Health(not broken, vitals.state, (f"it is in phase {vitals.phase}",) if broken else ())


def ready(vitals: Vitals) -> Health:
    """Whether Agents get answers: it runs, is in the office it belongs to, and none of its own actors is given up.

    A single MCP server that is down does not count: the others serve, and calls of its tools say so.
    """
    reasons = []
    if vitals.phase not in SERVING:
        reasons.append(f"it is in phase {vitals.phase}")
    if vitals.link == "connecting":
        reasons.append("the Server is being looked for")
    elif vitals.link == "connected" and vitals.office is not None:
        reasons.append(f"office {vitals.office} is not joined yet")
    elif vitals.link == "started" and vitals.failure is not None:
        reasons.append(f"the Server was given up: {vitals.failure}")
    reasons += [f"actor {address} is parked" for address in vitals.parked if not address.startswith(SERVERS)]
    return Health(not reasons, vitals.state, tuple(reasons))
