"""What servers said last: status and listings, and whether their listing belongs to the session they are in.

A reconnected server is connected before it has been listed again. Until the listing of the
new session is here its tools count as lost, not as gone (DEC-25).
"""

from __future__ import annotations

import msgspec

from ....wire.messages.mcp import ResourcesListed, ServerStatus, ServerStatusChanged, ToolsListed

EMPTY = b"[]"


class _Listing(msgspec.Struct):
    """One kind of listing of one server; `lost` is the session whose listing no longer counts."""

    session: int = -1
    lost: int = -1
    items: bytes = EMPTY
    last_full: bytes = EMPTY

    def take(self, session: int, items: bytes) -> None:
        if session < self.session:
            return  # late: that session is over
        self.session, self.items = session, items
        if items != EMPTY:
            self.last_full = items

    @property
    def is_current(self) -> bool:
        return self.session > self.lost


class _Server(msgspec.Struct):
    status: ServerStatus | None = None
    number: int = 0
    tools: _Listing = msgspec.field(default_factory=_Listing)
    resources: _Listing = msgspec.field(default_factory=_Listing)
    subscribe: bool = False
    declared: bool = False
    notes: dict[str, tuple[str, ...]] = {}


class ServerFacts:
    """The memory of one reconcile actor, by bundle_id."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}

    def take_status(self, fact: ServerStatusChanged) -> bool:
        """A server moved on an axis; `False` for what comes after something that was said later."""
        server = self._server(fact.status.bundle_id)
        if 0 < fact.number < server.number:
            return False
        server.status, server.number = fact.status, fact.number
        if fact.status.connection != "connected":
            server.tools.lost = max(server.tools.lost, server.tools.session)
            server.resources.lost = max(server.resources.lost, server.resources.session)
        return True

    def take_tools(self, fact: ToolsListed) -> None:
        """A server was listed, or withdrew its list."""
        server = self._server(fact.bundle_id)
        server.tools.take(fact.session, fact.tools.data)
        server.notes["tools"] = fact.notes

    def take_resources(self, fact: ResourcesListed) -> None:
        """As `take_tools`, for resources."""
        server = self._server(fact.bundle_id)
        server.resources.take(fact.session, fact.resources.data)
        server.subscribe, server.declared = fact.subscribe, fact.declared
        server.notes["resources"] = fact.notes

    def actor_died(self, bundle_id: str, phase: str, reason: str, now: float) -> ServerStatus:
        """The actor of a server went down and its session with it; the status that follows. `now` in Unix seconds."""
        self.ended(bundle_id)
        server = self._server(bundle_id)
        server.status = ServerStatus(bundle_id, "started", "error", phase, reason, "startup", "actor_down", since=now)
        return server.status

    def ended(self, bundle_id: str) -> None:
        """The actor of a server is gone, and what it said with it. What it listed last is still known."""
        server = self._server(bundle_id)
        server.status, server.number = None, 0
        for listing in (server.tools, server.resources):
            listing.session = listing.lost = -1
            listing.items = EMPTY

    def recall(self, bundle_id: str, items: bytes) -> None:
        """What a server that is not up listed in an earlier run, or `EMPTY` for one that is not the same any more."""
        self._server(bundle_id).tools.last_full = items

    def forget(self, bundle_id: str) -> None:
        """The server left the set."""
        self._servers.pop(bundle_id, None)

    def status(self, bundle_id: str) -> ServerStatus | None:
        """The last status."""
        return self._server(bundle_id).status if bundle_id in self._servers else None

    def tools(self, bundle_id: str) -> tuple[bytes, bool]:
        """The listing to expose, and whether its server can be called now; the last one known of a lost server."""
        server = self._servers.get(bundle_id, _Server())
        if _is_connected(server) and server.tools.is_current:
            return server.tools.items, True
        return server.tools.last_full, False

    def resources(self, bundle_id: str) -> tuple[bytes, bool, int]:
        """Resources of a connected server, whether it is one, and the number of its session."""
        server = self._servers.get(bundle_id, _Server())
        if _is_connected(server) and server.resources.is_current:
            return server.resources.items, True, server.resources.session
        return EMPTY, False, max(server.resources.session, 0)

    def capabilities(self, bundle_id: str) -> tuple[bool, bool]:
        """Whether resources are declared, and whether they can be subscribed to."""
        server = self._servers.get(bundle_id, _Server())
        return server.declared, server.subscribe

    def notes(self) -> tuple[str, ...]:
        """Diagnostics of all listings."""
        return tuple(
            f"{bundle_id}: {note}"
            for bundle_id, server in sorted(self._servers.items())
            for kind in sorted(server.notes)
            for note in server.notes[kind]
        )

    def _server(self, bundle_id: str) -> _Server:
        return self._servers.setdefault(bundle_id, _Server())


def _is_connected(server: _Server) -> bool:
    return server.status is not None and server.status.connection == "connected"
