"""Which resources of one MCP server are skills, and which files belong to each. Pure (C-SKILL-16, C-SKILL-39)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ...wire.messages.skills import SkillNote
from .manifest import Level

SCHEME: Final = "skill://"
Mode = Literal["mounted", "archive", "resources"]
_MODES: Final[tuple[Mode, ...]] = ("mounted", "archive", "resources")


class SubResource(msgspec.Struct, frozen=True):
    """A file of a skill in resources mode: the URI to read, and its path behind the root's, still percent-encoded."""

    uri: str
    tail: str


class Root(msgspec.Struct, frozen=True):
    """One skill as its server lists it.

    Attributes:
        uri: As it goes into the reference, without query and fragment.
        raw: As the server sent it, for everything it is asked about it.
        position: Among the roots of the listing, from 0.
        fingerprint: Equal as long as nothing about the skill changed in the listing (C-SKILL-20).
    """

    uri: str
    raw: str
    mode: Mode
    meta: Mapping[str, Any]
    position: int
    files: tuple[SubResource, ...] = ()
    fingerprint: bytes = b""

    @property
    def version(self) -> str | None:
        version = self.meta.get("version")
        return version if isinstance(version, str) else None

    @property
    def etag(self) -> str | None:
        """What tells one content from another, if the server says: two equal ones are the same package (C-SKILL-21)."""
        for key in ("etag", "archive_sha256"):
            value = self.meta.get(key)
            if isinstance(value, str) and value:
                return value.lower() if key == "archive_sha256" else value
        return None

    def covers(self, uri: str) -> bool:
        """Whether a URI is this root or one of its files."""
        bare = _bare(uri)
        return bare == self.uri or bare.startswith(self.uri + "/")


class Selection(msgspec.Struct, frozen=True):
    """The skills in one listing.

    Attributes:
        signature: Equal for listings that are the same to this channel: the set of URIs with their metadata
            (C-SKILL-75).
    """

    roots: tuple[Root, ...] = ()
    signature: frozenset[tuple[str, bytes]] = frozenset()
    notes: tuple[SkillNote, ...] = ()


class Unreadable(Exception):
    """The listing is no JSON array."""


class _Resource(msgspec.Struct, frozen=True):
    uri: str
    raw: str
    meta: Mapping[str, Any]


def select_roots(owner: str, listing: bytes) -> Selection:
    """The skills a server lists, in its order.

    Raises:
        Unreadable: Nothing can be said about what is listed.
    Spec: C-SKILL-9, C-SKILL-10, C-SKILL-16, C-GEN-9.
    """
    notes: list[SkillNote] = []

    def say(level: Level, uri: str, text: str) -> None:
        notes.append(SkillNote(level, owner, _shown(uri), text))

    resources = _skill_resources(listing, say)
    candidates = [resource for resource in resources if _is_candidate(resource, say)]
    valid = [candidate for candidate in candidates if _has_path(candidate, say)]
    uncovered = _uncovered(valid, owner, notes)
    roots: dict[str, Root] = {}
    for candidate in uncovered:
        if candidate.uri in roots:
            say("error", candidate.raw, "listed a second time; the first one counts")
        else:
            roots[candidate.uri] = _root(candidate, resources, len(roots))
    signature = frozenset((resource.raw, _canonical(resource.meta)) for resource in resources)
    return Selection(tuple(roots.values()), signature, tuple(notes))


def _skill_resources(listing: bytes, say: Any) -> list[_Resource]:
    try:
        items = msgspec.json.decode(listing)
    except (msgspec.MsgspecError, RecursionError):
        raise Unreadable from None
    if not isinstance(items, list):
        raise Unreadable
    found = []
    for item in items:
        raw = item.get("uri") if isinstance(item, dict) else None
        if not (isinstance(raw, str) and raw.startswith(SCHEME)):
            continue
        bare = _bare(raw)
        if bare != raw:
            say("warning", raw, "its query or fragment is dropped")
        meta = item.get("_meta")
        found.append(_Resource(bare, raw, meta if isinstance(meta, dict) else {}))
    return found


def _is_candidate(resource: _Resource, say: Any) -> bool:
    source = resource.meta.get("source")
    if source is None:
        return False
    if source in _MODES:
        return True
    say("error", resource.raw, "its _meta.source is none of mounted, archive and resources")
    return False


def _has_path(resource: _Resource, say: Any) -> bool:
    host, slash, path = resource.uri[len(SCHEME) :].partition("/")
    if host and slash and path.strip("/"):
        return True
    say("error", resource.raw, "its URI lacks a host or a path")
    return False


def _uncovered(candidates: Sequence[_Resource], owner: str, notes: list[SkillNote]) -> list[_Resource]:
    """Candidates that lie below no other; the others stay ordinary files of those that cover them."""
    uris = {candidate.uri for candidate in candidates}
    free = [candidate for candidate in candidates if not any(above in uris for above in _ancestors(candidate.uri))]
    covered = len(candidates) - len(free)
    if covered:
        notes.append(
            SkillNote("warning", owner, "", f"{covered} skills lie inside other skills and are files of those")
        )
    return free


def _ancestors(uri: str) -> list[str]:
    parts = uri[len(SCHEME) :].split("/")
    return [SCHEME + "/".join(parts[:count]) for count in range(1, len(parts))]


def _root(candidate: _Resource, resources: Sequence[_Resource], position: int) -> Root:
    mode: Mode = candidate.meta["source"]
    files: tuple[SubResource, ...] = ()
    if mode == "resources":
        prefix = candidate.uri + "/"
        files = tuple(
            SubResource(resource.raw, resource.uri[len(prefix) :])
            for resource in resources
            if resource.uri.startswith(prefix)
        )
    facts = (candidate.raw, msgspec.Raw(_canonical(candidate.meta)), sorted(file.uri for file in files))
    return Root(candidate.uri, candidate.raw, mode, candidate.meta, position, files, msgspec.json.encode(facts))


def _bare(uri: str) -> str:
    return uri.partition("#")[0].partition("?")[0]


def _canonical(meta: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(meta, order="sorted")


def _shown(uri: str) -> str:
    """A URI for people: without its query, which may hold a secret, and not endless."""
    return _bare(uri)[:200]
