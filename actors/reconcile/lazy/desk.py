"""The ReconcileActor's part of lazy servers: which rest, what they are known by, a seat for one that is called."""

from __future__ import annotations

import logging

import anyio
import anyio.to_thread

from ....wire.errors import SmcpError
from ....wire.messages.projection import SeatServer
from ...kernel import Actor, handler
from ..commits.committer import Committer
from ..composition import Composition
from ..held import Held
from ..running.lanes import Lanes
from ..running.server_facts import EMPTY
from ..scopes.places import Places
from .shelf import keep_all, key_of, read_all

logger = logging.getLogger(__name__)


class LazyDesk(Actor):
    """Part of the ReconcileActor, which provides what is named here."""

    _held: Held
    _files: Places
    _composition: Composition
    _committer: Committer
    _lanes: Lanes
    _taken: dict[str, tuple[str, bytes]]
    _fresh_listings: dict[str, bytes]
    _has_fresh: anyio.Event

    @handler(concurrent=256)
    async def seat(self, message: SeatServer) -> None:
        """Gives a server that rests its actor."""
        await self._lanes.seat(message.bundle_id)

    def idle_stop_of(self, bundle_id: str) -> float | None:
        """Seconds without a call after which a lazy server is stopped; `None` for one that is not lazy."""
        return self._composition.picture.policies[bundle_id].limits.idle_stop

    def may_rest(self, bundle_id: str) -> bool:
        """Whether a server waits for its first call: it is lazy, and what it lists is known."""
        member = self._held.servers[bundle_id]
        return self.idle_stop_of(bundle_id) is not None and self._held.listed.get(bundle_id) == key_of(member.entry)

    async def recall_listings(self) -> None:
        """Makes lazy servers known by what they listed last, as far as they are defined as they were then."""
        wanted: dict[str, str] = {}
        for bundle_id, member in self._held.servers.items():
            if not member.may_run or self.idle_stop_of(bundle_id) is None:
                self._held.listed.pop(bundle_id, None)
                continue
            key = key_of(member.entry)
            if self._held.listed.get(bundle_id) != key and not self._take(bundle_id):
                wanted[bundle_id] = key
        if not wanted:
            return
        found = await anyio.to_thread.run_sync(read_all, self._files.state, wanted.values())
        for bundle_id, key in wanted.items():
            there = self._held.servers.get(bundle_id)
            if there is None or key_of(there.entry) != key:
                continue  # the set has changed meanwhile, and whoever changed it recalls for himself
            self._held.facts.recall(bundle_id, found.get(key, EMPTY))
            self._held.listed.pop(bundle_id, None)
            if key in found:
                self._held.listed[bundle_id] = key

    def begin_keeping(self) -> None:
        """Has listings kept from now on."""
        self._taken, self._fresh_listings, self._has_fresh = {}, {}, anyio.Event()
        self.tasks.start_soon(self._keep_listings, name="lazy listings")

    def listed(self, bundle_id: str) -> None:
        """A server was listed, or is up now as it was listed; of a lazy one that is kept."""
        if self.idle_stop_of(bundle_id) is not None:
            self._take(bundle_id)

    def _take(self, bundle_id: str) -> bool:
        """Keeps the listing of a server that is up, if it was started as it is defined now."""
        listing, is_current = self._held.facts.tools(bundle_id)
        entry = self._held.servers[bundle_id].entry
        if not is_current or listing == EMPTY or self._held.launched.get(bundle_id) != entry.launch_shape:
            return False
        key = self._held.listed[bundle_id] = key_of(entry)
        if self._taken.get(bundle_id) == (key, listing):
            return True
        self._taken[bundle_id] = key, listing
        text = listing.decode()
        if self._held.registry.redaction.text(text) == text:
            self._fresh_listings[key] = listing
            self._has_fresh.set()
        return True

    async def _keep_listings(self) -> None:
        while True:
            await self._has_fresh.wait()
            fresh, self._fresh_listings = self._fresh_listings, {}
            self._has_fresh = anyio.Event()
            try:
                await anyio.to_thread.run_sync(keep_all, self._files.state, fresh)
            except SmcpError as error:
                logger.warning("listings of lazy servers could not be kept: %s", error.code)
