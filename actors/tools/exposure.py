"""The catalogue: exposed tool names, where each leads, and the list an Agent gets.

Built as a whole from the slices of all servers whenever a commit changes one, and used
by listing and calling alike (W-EXP-2). Nothing here depends on the order in which
servers started: servers count by bundle_id, tools inside one by its listing (W-EXP-5),
and the list is encoded once, sorted by exposed name (DEC-5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...wire.messages.tools import ServerTools, ToolPolicy
from ...wire.names import exposed_name, is_forbidden
from . import lazy
from .listing import ListedTool, read_listing
from .meta_merge import configured, declared, merged, wire_meta
from .shrink import ListedEntry, fit_tools

_REMEMBERED_NAMES = 10_000


class Route(msgspec.Struct, frozen=True):
    """Where an exposed name leads.

    `config` is the ToolMeta of the configured layers, the only one that guards execution (W-META-17). A `lazy` one may
    have to wake its server.
    """

    exposed: str
    bundle_id: str
    server_name: str
    original: str
    alias: str | None = None
    config: dict[str, Any] | None = None
    vrl: str | None = None
    repeatable: bool = False
    lazy: bool = False

    @property
    def auto_apply(self) -> bool:
        """Whether the tool runs without local confirmation (W-CALL-7)."""
        return self.config is not None and self.config.get("auto_apply") is True


class Refused(msgspec.Struct, frozen=True):
    """A known name that is forbidden or belongs to a disabled server: 4002 (W-CALL-6)."""

    bundle_id: str


class Lost(msgspec.Struct, frozen=True):
    """A tool of an enabled server that is not connected now: 4003 (DEC-25)."""

    bundle_id: str


class _Tool(msgspec.Struct, frozen=True):
    route: Route
    forbidden: bool
    entry: ListedEntry


class _Part(msgspec.Struct, frozen=True):
    """One server's contribution, kept from commit to commit while its slice stays equal."""

    source: ServerTools
    tools: tuple[_Tool, ...]
    notes: tuple[str, ...]


class Catalogue:
    """One commit's names, routes and encoded list; replaced, never changed.

    Attributes:
        tools: The JSON array of SMCPTool.
        notes: Diagnostics of what was set aside, hidden or left out; they name no values.
        has_lazy: Whether there are tools that are searched for in place of being listed (F-68).
    """

    def __init__(self) -> None:
        self.tools = b"[]"
        self.notes: tuple[str, ...] = ()
        self._routes: dict[str, Route] = {}
        self._refused: dict[str, Refused] = {}
        self._lost: dict[str, Lost] = {}
        self._entries: dict[str, ListedEntry] = {}
        self.has_lazy = False
        self._parts: dict[str, _Part] = {}
        self._seen: dict[str, dict[str, Route]] = {}

    @property
    def signature(self) -> str:
        """Equal for lists of equal bytes, `""` for the empty one."""
        return "" if self.tools == b"[]" else hashlib.blake2b(self.tools, digest_size=16).hexdigest()

    @property
    def routes(self) -> Mapping[str, Route]:
        """All callable tools by exposed name."""
        return self._routes

    def find(self, exposed: str) -> Route | Refused | Lost | None:
        """What stands behind a whole name (W-EXP-3); `None` for one that was never listed or was removed."""
        return self._routes.get(exposed) or self._refused.get(exposed) or self._lost.get(exposed)

    def definition(self, exposed: str) -> ListedEntry:
        """A callable tool as it is, or would be, listed."""
        return self._entries[exposed]

    def unlisted(self) -> Iterator[ListedEntry]:
        """Callable tools that are searched for, by name."""
        return (self._entries[exposed] for exposed in sorted(self._routes) if self._routes[exposed].lazy)


def build(servers: Sequence[ServerTools], previous: Catalogue, budget: int) -> Catalogue:
    """The catalogue of a commit.

    Args:
        servers: Slices of all servers of the set, in any order.
        previous: The catalogue before; what it knows of names ever listed is carried on (W-EXP-4).
        budget: Bytes the encoded list may take (DEC-18, DEC-33).
    Spec: W-EXP-1…6, R-MCP-15, R-MCP-16, R-MCP-18, DEC-5, DEC-25.
    """
    catalogue = Catalogue()
    notes: list[str] = []
    entries: list[ListedEntry] = []
    owners: dict[str, str] = {}
    for server in sorted(servers, key=lambda slice_: slice_.policy.bundle_id):
        part = _part(server, previous)
        bundle_id = server.policy.bundle_id
        catalogue._parts[bundle_id] = part
        catalogue._seen[bundle_id] = seen = _remember(previous._seen.get(bundle_id, {}), part)
        notes.extend(part.notes)
        for exposed in _refused_names(server.policy, seen):
            catalogue._refused.setdefault(exposed, Refused(bundle_id))
        if server.policy.disabled:
            continue
        catalogue.has_lazy = catalogue.has_lazy or server.policy.lazy
        for tool in part.tools:
            exposed = tool.route.exposed
            if tool.forbidden:
                continue
            if exposed in owners:
                notes.append(
                    f"{bundle_id}: tool {tool.route.original!r} hidden, {owners[exposed]} has {exposed!r} already"
                )
                continue
            owners[exposed] = bundle_id
            if server.connected or server.policy.lazy:
                catalogue._routes[exposed] = tool.route
                catalogue._entries[exposed] = tool.entry
            else:
                catalogue._lost[exposed] = Lost(bundle_id)
            if server.connected and not server.policy.lazy:
                entries.append(tool.entry)
    if catalogue.has_lazy:
        entries.extend(lazy.entries())
    entries.sort(key=lambda entry: entry.exposed)
    catalogue.tools, left_out = fit_tools(entries, budget, spared=lazy.OWNER)
    catalogue.notes = (*notes, *left_out)
    return catalogue


def _part(server: ServerTools, previous: Catalogue) -> _Part:
    known = previous._parts.get(server.policy.bundle_id)
    if known is not None and known.source.policy == server.policy and known.source.listing == server.listing:
        return known
    policy = server.policy
    listed, notes = _read(server.listing.data)
    forbidden = frozenset(policy.forbidden)
    tools, malformed = [], 0
    for tool in listed:
        declaration = declared(tool.native_meta or {})
        malformed += declaration.malformed
        config = configured(policy.tool_meta.get(tool.name), policy.default_tool_meta)
        alias = (config or {}).get("alias")
        exposed = exposed_name(policy.bundle_id, tool.name, alias)
        route = Route(
            exposed=exposed,
            bundle_id=policy.bundle_id,
            server_name=policy.name,
            original=tool.name,
            alias=alias,
            config=config,
            vrl=policy.vrl,
            repeatable=tool.repeatable,
            lazy=policy.lazy,
        )
        meta = wire_meta(tool.native_meta or {}, tool.annotations, merged(config, declaration))
        hidden = is_forbidden(forbidden, policy.bundle_id, tool.name, alias)
        tools.append(_Tool(route, hidden, _entry(tool, route, meta)))
    if malformed:
        notes.append(f"{malformed} malformed tool metadata declaration(s) dropped")
    return _Part(server, tuple(tools), tuple(f"{policy.bundle_id}: {note}" for note in notes))


def _read(listing: bytes) -> tuple[list[ListedTool], list[str]]:
    try:
        return read_listing(listing)
    except msgspec.DecodeError:
        return [], ["the listing is not a JSON array"]


def _entry(tool: ListedTool, route: Route, meta: dict[str, Any]) -> ListedEntry:
    return ListedEntry(
        exposed=route.exposed,
        bundle_id=route.bundle_id,
        description=tool.description or "",
        params_schema=tool.input_schema,
        return_schema=tool.output_schema,
        meta=meta,
    )


def _refused_names(policy: ToolPolicy, seen: Mapping[str, Route]) -> Iterator[str]:
    """Known names of this server that its configuration refuses now (W-EXP-4)."""
    forbidden = frozenset(policy.forbidden)
    for exposed, route in seen.items():
        if policy.disabled or is_forbidden(forbidden, policy.bundle_id, route.original, route.alias):
            yield exposed


def _remember(seen: dict[str, Route], part: _Part) -> dict[str, Route]:
    """Names ever listed; bounded, since a server may invent new ones for ever."""
    fresh = {tool.route.exposed: tool.route for tool in part.tools}
    if fresh.keys() <= seen.keys():
        return seen
    both = {**seen, **fresh}
    return dict(list(both.items())[-_REMEMBERED_NAMES:])
