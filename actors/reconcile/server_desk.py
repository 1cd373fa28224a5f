"""The ReconcileActor's operations on servers: what there is, and changes of the files that declare them (R-MGMT-4)."""

from __future__ import annotations

from collections.abc import Mapping

import anyio.to_thread

from ...wire.messages.management import ManagementResult
from ...wire.messages.mcp import ServerStatus
from ...wire.messages.servers import (
    ListServers,
    RemoveServer,
    ServerView,
    ServerViews,
    SwitchServer,
)
from ..kernel import handler
from .composition import Picture
from .management import Management
from .server_files import remove, switch
from .server_set import SetEntry


class ServerDesk(Management):
    """Part of the ReconcileActor, which provides what is named here."""

    def _status_of(self, bundle_id: str) -> ServerStatus:
        raise NotImplementedError

    @handler
    def list_servers(self, _: ListServers) -> ServerViews:
        """All members of the set."""
        picture = self._composition.picture
        statuses = {bundle_id: self._status_of(bundle_id) for bundle_id in picture.servers}
        return ServerViews(server_views(picture, statuses))

    @handler(concurrent=16)
    async def remove_server(self, message: RemoveServer) -> ManagementResult:
        """Deletes it from all files people may write; what stands below shows again."""
        bundle_id = message.bundle_id
        async with self._turn:
            member = self._composition.picture.servers.get(bundle_id)
            is_mounted = bundle_id in self._held.mounts
            changed = await anyio.to_thread.run_sync(remove, self._files, member, bundle_id, is_mounted)
            await self._absorb()
        after = self._composition.picture.servers.get(bundle_id)
        return ManagementResult(changed, after is None, after.source if after is not None else None)

    @handler(concurrent=16)
    async def switch_server(self, message: SwitchServer) -> ManagementResult:
        """Lists it as disabled in local settings, or takes that back wherever it may be written."""
        member = self._member(message.bundle_id)
        async with self._turn:
            changed = await anyio.to_thread.run_sync(lambda: switch(self._files, member, enabled=message.enabled))
            await self._absorb()
        after = self._composition.picture
        return switched(after, message.bundle_id, changed, enabled=message.enabled)


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
