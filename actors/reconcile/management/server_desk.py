"""The ReconcileActor's operations on servers: what there is, and changes of the files that declare them (R-MGMT-4)."""

from __future__ import annotations

from collections.abc import Mapping

import anyio.to_thread

from ....wire.errors import ConflictError
from ....wire.messages.management import ManagementResult
from ....wire.messages.mcp import ServerStatus
from ....wire.messages.projection import ControlServer
from ....wire.messages.servers import ListServers, RemoveServer, ServerView, ServerViews, SwitchServer
from ...kernel import handler
from ..composition import Picture
from ..running.start_outcome import StartOutcomes
from ..server_set import SetEntry
from .absorbing import Management, may_not_run
from .operations import outcome_of_removing
from .server_files import remove, switch

START_SLACK = 2.0
"""Seconds beside its budget that somebody who started a server waits for how that ended."""
LONGEST_PATIENCE = 80.0
"""Seconds anybody waits for a start; what takes longer is told as being on its way."""


class ServerDesk(Management):
    """Part of the ReconcileActor, which provides what is named here."""

    _outcomes: StartOutcomes

    @handler
    def list_servers(self, _: ListServers) -> ServerViews:
        """All members of the set."""
        picture = self._composition.picture
        statuses = {bundle_id: self._status_of(bundle_id) for bundle_id in picture.servers}
        return ServerViews(server_views(picture, statuses))

    @handler(concurrent=64)
    async def control(self, message: ControlServer) -> ServerStatus:
        """Starts, stops or restarts one server; changes no intent (R-MGMT-4). A start that fails says so (R-MCP-25)."""
        member = self._member(message.bundle_id)
        if message.action == "stop":
            owner = self._composition.picture.base.plugin_of(member)
            if owner is not None:
                raise ConflictError(
                    f"{member.bundle_id} belongs to {owner}; disable or uninstall that",
                    code="managed_by_plugin",
                    bundle_id=member.bundle_id,
                    plugin_id=owner,
                )
            return await self._lanes.stop(member.bundle_id)
        if not member.may_run:
            raise may_not_run(member)
        act = self._lanes.start if message.action == "start" else self._lanes.restart
        await act(member.bundle_id)
        return await self._outcomes.of(
            member.bundle_id, min(self._options.server_start_timeout_s + START_SLACK, LONGEST_PATIENCE)
        )

    @handler(concurrent=16)
    async def remove_server(self, message: RemoveServer) -> ManagementResult:
        """Deletes it from all files people may write; what stands below shows again."""
        bundle_id = message.bundle_id
        async with self._turn:
            member = self._composition.picture.servers.get(bundle_id)
            is_mounted = bundle_id in self._held.mounts
            changed = await anyio.to_thread.run_sync(remove, self._files, member, bundle_id, is_mounted)
            await self._absorb()
        return outcome_of_removing(changed, self._composition.picture.servers.get(bundle_id))

    @handler(concurrent=16)
    async def switch_server(self, message: SwitchServer) -> ManagementResult:
        """Lists it as disabled in local settings, or takes that back wherever it may be written."""
        member = self._member(message.bundle_id)
        async with self._turn:
            changed = await anyio.to_thread.run_sync(lambda: switch(self._files, member, enabled=message.enabled))
            await self._absorb()
        after = self._composition.picture
        return switched(after, message.bundle_id, changed, enabled=message.enabled)

    def _status_of(self, bundle_id: str) -> ServerStatus:
        known = self._held.facts.status(bundle_id)
        member = self._held.servers[bundle_id]
        if member.verdict != "ENABLED":
            code = "pending_approval" if member.verdict == "PENDING" else "denied"
            return ServerStatus(bundle_id, reason=f"{member.reason} (step {member.step})", category="policy", code=code)
        if member.entry.disabled:
            return ServerStatus(bundle_id, reason="disabled")
        if known is not None:
            return known
        if self._lanes.is_wanted(bundle_id):
            return ServerStatus(bundle_id, "started", "connecting", "queued")
        return ServerStatus(bundle_id)


def switched(picture: Picture, bundle_id: str, changed: bool, *, enabled: bool) -> ManagementResult:
    """What became of switching a server: who stands against it, if somebody does."""
    member = picture.servers.get(bundle_id)
    if member is None or not enabled or member.may_run:
        return ManagementResult(changed, written_scope="local")
    above = picture.settings.listing("disabledMcpjsonServers", bundle_id)
    label = above.label if above is not None else member.source
    return ManagementResult(changed, False, label, "local", (member.reason or "disabled",))


def server_views(picture: Picture, statuses: Mapping[str, ServerStatus]) -> tuple[ServerView, ...]:
    """Members of a set, by bundle_id."""
    return tuple(
        _view(member, picture, statuses.get(bundle_id, ServerStatus(bundle_id)))
        for bundle_id, member in sorted(picture.servers.items())
    )


def _view(member: SetEntry, picture: Picture, status: ServerStatus) -> ServerView:
    plugin_id = picture.base.plugin_of(member)
    owner = f"plugin:{plugin_id.partition('@')[0]}" if plugin_id is not None else _OWNERS.get(member.origin)
    return ServerView(
        member.bundle_id,
        member.entry.name,
        member.origin,
        member.source,
        owner or member.origin,
        member.entry.disabled,
        member.verdict,
        member.step,
        status.reason or member.reason,
        status.activation,
        status.connection,
        plugin_id,
        member.shadowed,
    )


_OWNERS = {"embed": "runtime"}
