"""The slices of a commit: what each answering actor gets of the set (R-LIFE-3). Pure.

A slice is sent only when it differs from the one sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...wire.codec import Attachment
from ...wire.loopback import is_loopback_url
from ...wire.messages.channels import ResourceSlice
from ...wire.messages.tools import ServerTools, ToolPolicy
from .policies import ServerPolicies
from .server_entry import ServerEntry
from .server_facts import ServerFacts
from .server_set import ServerSet, SetEntry


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
    )


def tool_slice(
    servers: ServerSet, facts: ServerFacts, policies: Mapping[str, ServerPolicies]
) -> tuple[ServerTools, ...]:
    """What `tools` answers from, ordered by bundle_id; disabled servers are in it so that their names are refused."""
    slices = []
    for bundle_id in sorted(servers):
        listing, connected = facts.tools(bundle_id)
        member = servers[bundle_id]
        policy = tool_policy(member, policies.get(bundle_id, ServerPolicies()))
        slices.append(ServerTools(policy, Attachment(listing), connected and member.may_run))
    return tuple(slices)


def resource_slice(servers: ServerSet, facts: ServerFacts, order: Iterable[str]) -> tuple[ResourceSlice, ...]:
    """What the channels of resources answer from: servers that may run, in the given order."""
    slices = []
    for bundle_id in order:
        member = servers.get(bundle_id)
        if member is None or not member.may_run:
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
                local=is_local(member.entry),
            )
        )
    return tuple(slices)


def is_local(entry: ServerEntry) -> bool:
    """Whether the server is a process here or behind a loopback URL (C-SKILL-27).

    The URL counts as it is written: what a placeholder may turn into proves nothing.
    """
    return entry.type == "stdio" or is_loopback_url(entry.parameters.get("url", ""))
