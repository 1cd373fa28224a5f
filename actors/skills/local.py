"""Skills that lie on disk already: scans the user's roots and the trees of plugins into the registry."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

import anyio
import anyio.to_thread

from ...wire.messages.skills import PluginSkills, SkillNote
from ...wire.skill_name import SkillKind
from .discover import USER, Finds, Found, plugin_owner, scan_plugins, scan_roots
from .forbidden import ForbiddenNames
from .notes import NoteBook
from .registry import Registry
from .rounds import Rounds, Starter


class LocalSkills:
    """Scans on demand, one scan at a time.

    Args:
        threads: Bounds the work on disk.
        changed: Says that the registry may have changed.
    """

    def __init__(
        self,
        registry: Registry,
        notes: NoteBook,
        forbidden: ForbiddenNames,
        *,
        threads: anyio.CapacityLimiter,
        start: Starter,
        changed: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._notes = notes
        self._forbidden = forbidden
        self._threads = threads
        self._changed = changed
        self._rounds = Rounds(self._scan, start)
        self._roots: tuple[str, ...] = ()
        self._plugins: dict[str, tuple[int, PluginSkills]] = {}
        self._roots_due = False
        self._plugins_due: set[str] = set()
        self._touched: set[str] = set()
        self._trees: dict[str, bytes | None] = {}

    def want(self, roots: Sequence[str], plugins: Iterable[PluginSkills]) -> anyio.Event | None:
        """The sources of a commit; an event that is set when they have been scanned, `None` when nothing is new.

        What a plugin contributed that is gone now, is gone at once (R-PLUGIN-20).
        """
        before, self._plugins = self._plugins, {}
        for index, plugin in enumerate(plugins):
            if plugin.plugin not in self._plugins:
                self._plugins[plugin.plugin] = (index, plugin)
        for gone in before.keys() - self._plugins.keys():
            owner = plugin_owner(gone)
            self._registry.unregister(owner)
            self._notes.drop(owner)
        self._plugins_due |= {name for name, known in self._plugins.items() if before.get(name) != known}
        self._roots_due = self._roots_due or tuple(roots) != self._roots
        self._roots = tuple(roots)
        return self._rounds.mark() if self._roots_due or self._plugins_due else None

    def rescan(self, touched: Iterable[str] = ()) -> anyio.Event:
        """Scans the roots again.

        Args:
            touched: Names of directories below the roots in which files changed.
        """
        self._roots_due = True
        self._touched.update(touched)
        return self._rounds.mark()

    def rescan_plugin(self, name: str) -> anyio.Event | None:
        """Scans the tree of a plugin again; `None` for one that does not contribute."""
        if name not in self._plugins:
            return None
        self._plugins_due.add(name)
        return self._rounds.mark()

    async def _scan(self) -> None:
        if self._roots_due:
            self._roots_due = False
            touched, self._touched = self._touched, set()
            finds = await anyio.to_thread.run_sync(
                scan_roots, self._roots, self._forbidden, abandon_on_cancel=True, limiter=self._threads
            )
            self._take_in(USER, finds, "user", touched)
        while self._plugins_due:
            due = [self._plugins[name] for name in self._plugins_due if name in self._plugins]
            self._plugins_due.clear()
            found = await anyio.to_thread.run_sync(
                scan_plugins, due, self._forbidden, abandon_on_cancel=True, limiter=self._threads
            )
            for (index, plugin), finds in zip(due, found, strict=True):
                if self._plugins.get(plugin.plugin) == (index, plugin):
                    self._take_in(plugin_owner(plugin.plugin), finds, "marketplace")
        self._changed()

    def _take_in(self, owner: str, finds: Finds, kind: SkillKind, touched: Container[str] = ()) -> None:
        notes = dict(finds.notes)
        before, accepted = set(self._registry.names_of(owner)), {}
        for found in finds.skills:
            refusal = self._registry.put(found.ref, owner, found.rank, kind)
            if refusal is None:
                accepted[found.ref.name] = found
            else:
                place = found.ref.path
                notes[place] = (*notes.get(place, ()), SkillNote("error", owner, place, refusal))
        self._registry.settle(owner, {name: found.rank for name, found in accepted.items()})
        self._compare([accepted[name] for name in accepted if name in before], touched)
        for name in before:
            self._trees.pop(name, None)
        self._trees |= {name: found.tree for name, found in accepted.items()}
        self._notes.keep(owner, notes)
        for place, lines in notes.items():
            self._notes.write(owner, place, lines)

    def _compare(self, stayed: Iterable[Found], touched: Container[str]) -> None:
        """Notices changed files in skills that were there before; what cannot be told by looking is, if touched."""
        for found in stayed:
            name = found.ref.name
            if self._trees.get(name) != found.tree or (found.tree is None and name in touched):
                self._registry.content_changed()
