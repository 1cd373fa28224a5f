"""The slices of a commit: what each answering actor gets of the set (R-LIFE-3). Pure.

A slice is sent only when it differs from the one sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....wire.codec import Attachment
from ....wire.loopback import is_loopback_url
from ....wire.messages.channels import ResourceSlice
from ....wire.messages.tools import ServerTools, ToolPolicy
from ..approval.fingerprint import fingerprint_of
from ..config.policies import ServerPolicies
from ..config.server_entry import ServerEntry
from ..pinning.board import Mode, Pinboard
from ..running.server_facts import ServerFacts
from ..server_set import ServerSet, SetEntry

APPROVED_STEPS = (5, 6)
"""Steps of the gate at which somebody's approval let a server run (R-GATE-2)."""


def tool_policy(member: SetEntry, policies: ServerPolicies) -> ToolPolicy:
    """The part of an entry that decides its tools."""
    entry, limits = member.entry, policies.limits
    return ToolPolicy(
        bundle_id=entry.bundle_id,
        name=entry.name,
        disabled=not member.may_run,
        forbidden=entry.forbidden_tools,
        tool_meta=entry.tool_meta,
        default_tool_meta=entry.default_tool_meta,
        vrl=entry.vrl,
        capacity=limits.max_in_flight + limits.max_queued,
        lazy=policies.is_lazy,
    )


def tool_slice(
    servers: ServerSet, facts: ServerFacts, policies: Mapping[str, ServerPolicies], pins: Pinboard | None = None
) -> tuple[ServerTools, ...]:
    """What `tools` answers from, ordered by bundle_id; disabled servers are in it so that their names are refused.

    Args:
        pins: Tools as they were approved; those it holds are left out.
    """
    slices = []
    pins = pins or Pinboard()
    for bundle_id in sorted(servers):
        listing, connected = facts.tools(bundle_id)
        member = servers[bundle_id]
        known = policies.get(bundle_id, ServerPolicies())
        mode = pin_mode(member, known)
        if mode != "off":
            listing = pins.shown(bundle_id, fingerprint_of(member.entry), mode, listing, current=connected)
        slices.append(ServerTools(tool_policy(member, known), Attachment(listing), connected and member.may_run))
    pins.keep_only(bundle_id for bundle_id in servers if pin_mode(servers[bundle_id], policies.get(bundle_id)) != "off")
    return tuple(slices)


def pin_mode(member: SetEntry, policies: ServerPolicies | None) -> Mode:
    """What becomes of tools that changed: what settings say, else a note if a person let the server run (F-117)."""
    if policies is not None and policies.pin_tools is not None:
        return policies.pin_tools
    return "warn" if member.step in APPROVED_STEPS else "off"


def resource_slice(
    servers: ServerSet, facts: ServerFacts, order: Iterable[str], policies: Mapping[str, ServerPolicies]
) -> tuple[ResourceSlice, ...]:
    """What the channels of resources answer from: servers that may run, in the given order.

    A lazy one is not among them: what it has besides tools would come and go with every start (F-68).
    """
    slices = []
    for bundle_id in order:
        member = servers.get(bundle_id)
        known = policies.get(bundle_id, ServerPolicies())
        if member is None or not member.may_run or known.is_lazy:
            continue
        items, connected, session = facts.resources(bundle_id)
        declared, subscribe = facts.capabilities(bundle_id)
        slices.append(
            ResourceSlice(
                bundle_id,
                member.entry.name,
                Attachment(items),
                declared=declared,
                subscribe=subscribe,
                connected=connected,
                session=session,
                local=is_local(member.entry, known),
            )
        )
    return tuple(slices)


def is_local(entry: ServerEntry, policies: ServerPolicies) -> bool:
    """Whether the server is a process here or behind a loopback URL (C-SKILL-27).

    What an external worker hosts runs wherever that worker is: neither its processes nor its
    loopback are this machine's. The URL counts as it is written: what a placeholder may turn
    into proves nothing.
    """
    if policies.placement == "external":
        return False
    return entry.type == "stdio" or is_loopback_url(entry.parameters.get("url", ""))
