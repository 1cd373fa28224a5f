"""Finds skills that lie on disk: in the user's drop-in roots and in the trees of plugins. Blocking.

Nothing is copied: a skill is registered where it lies, and its SKILL.md is read through the same
sandbox as every later request (C-SKILL-48…50, C-SKILL-51…53).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...wire.messages.skills import PluginSkills, SkillNote
from ...wire.skill_name import skill_kind
from ...wire.skills import SKILL_ENTRY, A2CSkillRef
from .digest import read_slice
from .forbidden import ForbiddenNames
from .frontmatter import BadFrontmatter, head_bytes
from .manifest import Level, Manifest, read_manifest
from .package_file import open_package_file
from .publish import tree_signature
from .registry import Rank
from .rel_path import Refused

USER: Final = "user"
"""Owner of all drop-in skills: roots come and go together."""

MOST_ENTRIES: Final = 10_000
"""Entries of a package that are looked at to tell whether it changed (D-15)."""
_READ_LIMIT: Final = 2**40
"""No limit: only the head of a SKILL.md is read."""
_WHY: Final = {
    "traversal": "SKILL.md lies outside the directory of its skill",
    "forbidden": "SKILL.md is a forbidden file by another name",
    "not_found": "SKILL.md cannot be read",
}


class Found(msgspec.Struct, frozen=True):
    """A skill on disk and where it stands in discovery order.

    `tree` is equal as long as no file of it changed that an Agent can read; `None` when that cannot be told.
    """

    ref: A2CSkillRef
    rank: Rank
    tree: bytes | None = None


class Finds(msgspec.Struct, frozen=True):
    """What a scan found, and what it has to say, by place."""

    skills: tuple[Found, ...] = ()
    notes: dict[str, tuple[SkillNote, ...]] = {}


def plugin_owner(name: str) -> str:
    """Owner under which the skills of a plugin are registered."""
    return f"plugin:{name}"


def scan_roots(roots: Sequence[str], forbidden: ForbiddenNames) -> Finds:
    """The skills directly below the roots; of equal names the earlier root's counts."""
    scan = _Scan(_Source(USER, "user", clash="warning"), forbidden)
    for index, root in enumerate(roots):
        for entry in scan.directories(root):
            scan.add(entry, (0, index, entry.name), os.path.realpath(entry.path))
    return scan.finds()


def scan_plugin(plugin: PluginSkills, index: int, forbidden: ForbiddenNames) -> Finds:
    """The skills in the containers of a plugin.

    Args:
        index: Its place among the installed plugins.
    """
    source = _Source(
        plugin_owner(plugin.plugin), f"marketplace:{plugin.marketplace}", f"{plugin.plugin}:", plugin.version
    )
    scan = _Scan(source, forbidden)
    root = os.path.realpath(plugin.root)
    if plugin.plugin == "mcp":
        scan.say("warning", plugin.root, "a plugin called mcp makes names that look like those of MCP servers")
    seen: set[str] = set()
    for container in plugin.containers:
        real = os.path.realpath(os.path.join(root, container))
        if not _is_inside(real, root):
            scan.say("error", container, "the directory lies outside the plugin")
        elif real not in seen:
            seen.add(real)
            for entry in scan.directories(real):
                place = _real(entry)
                if _is_inside(place, root):
                    scan.add(entry, (1, index, len(seen), entry.name), place)
                else:
                    scan.say("error", entry.path, "the skill lies outside the plugin")
    return scan.finds()


def scan_plugins(plugins: Sequence[tuple[int, PluginSkills]], forbidden: ForbiddenNames) -> list[Finds]:
    """The skills of several plugins, each with its place among the installed ones."""
    return [scan_plugin(plugin, index, forbidden) for index, plugin in plugins]


class _Source(msgspec.Struct, frozen=True):
    """What all skills of one scan have in common. `clash` is how bad it is that a name is taken."""

    owner: str
    source: str
    prefix: str = ""
    version: str | None = None
    clash: Level = "error"


class _Scan:
    """One scan of one source."""

    def __init__(self, source: _Source, forbidden: ForbiddenNames) -> None:
        self._source = source
        self._forbidden = forbidden
        self._skills: dict[str, Found] = {}
        self._notes: dict[str, list[SkillNote]] = {}

    def finds(self) -> Finds:
        return Finds(tuple(self._skills.values()), {place: tuple(notes) for place, notes in self._notes.items()})

    def say(self, level: Level, place: str, text: str) -> None:
        self._notes.setdefault(place, []).append(SkillNote(level, self._source.owner, place, text))

    def directories(self, container: str) -> Iterator[os.DirEntry[str]]:
        """Directories one level below a container, in name order; a missing container has none."""
        try:
            with os.scandir(container) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self.say("error", container, f"the directory cannot be read: {type(error).__name__}")
            return
        for entry in found:
            if entry.name == SKILL_ENTRY:
                self.say("debug", entry.path, "not looked at: a skill needs a directory of its own")
            elif not entry.name.startswith(".") and _is_directory(entry):
                yield entry

    def add(self, entry: os.DirEntry[str], rank: Rank, real: str) -> None:
        """Takes in one directory, or says why not; `real` is where it lies."""
        name = self._source.prefix + entry.name
        place = os.path.join(entry.path, SKILL_ENTRY)
        spelled = _entry_file(entry.path)
        if spelled is None:
            self.say("debug", entry.path, "no SKILL.md in it; none is looked for any deeper")
        elif spelled != SKILL_ENTRY:
            self.say("warning", os.path.join(entry.path, spelled), "not looked at: the name must be SKILL.md")
        elif skill_kind(entry.name) != "user":
            self.say("error", entry.path, "the directory's name is not lower-case words with hyphens between them")
        elif name in self._skills:
            self.say(self._source.clash, entry.path, "another skill has this name already; the first one counts")
        elif (manifest := self._manifest(entry, place)) is not None:
            ref = make_ref(name, self._source.source, real, manifest, version=self._source.version)
            self._skills[name] = Found(ref, rank, tree_signature(real, MOST_ENTRIES, self._forbidden.__contains__))

    def _manifest(self, entry: os.DirEntry[str], place: str) -> Manifest | None:
        try:
            with open_package_file(entry.path, SKILL_ENTRY, self._forbidden, _READ_LIMIT) as file:
                head = read_slice(file.found.fd, 0, head_bytes())
            manifest = read_manifest(head, lambda level, text: self.say(level, place, text))
        except Refused as refused:
            self.say("error", place, _WHY.get(refused.reason, refused.reason))
            return None
        except (BadFrontmatter, OSError) as bad:
            self.say("error", place, str(bad) if isinstance(bad, BadFrontmatter) else type(bad).__name__)
            return None
        if manifest.name != entry.name:
            self.say("debug", place, "name: differs from the directory, whose name counts")
        return manifest


def make_ref(
    name: str, source: str, path: str, manifest: Manifest, *, version: str | None = None, uri: str | None = None
) -> A2CSkillRef:
    """The reference of a skill; what is not known is left out (C-SKILL-7)."""
    return A2CSkillRef(
        name=name,
        source=source,
        path=path,
        description=manifest.description,
        uri=msgspec.UNSET if uri is None else uri,
        license=manifest.license,
        compatibility=manifest.compatibility,
        allowed_tools=manifest.allowed_tools,
        tags=manifest.tags,
        skill_metadata=manifest.metadata,
        version=msgspec.UNSET if version is None else version,
    )


def _real(entry: os.DirEntry[str]) -> str:
    """Where an entry of a directory that was named without links lies. Links are rare, and resolving is dear."""
    return os.path.realpath(entry.path) if entry.is_symlink() else entry.path


def _entry_file(directory: str) -> str | None:
    """How the SKILL.md of a directory is really spelled; `None` when there is none."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    if SKILL_ENTRY in names:
        return SKILL_ENTRY
    return next((name for name in sorted(names) if name.lower() == SKILL_ENTRY.lower()), None)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_inside(path: str, directory: str) -> bool:
    """Whether a place is a directory or in it; both are without links."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)
