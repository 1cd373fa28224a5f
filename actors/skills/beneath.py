"""Opening what lies beneath a directory, and nothing else, whatever links say and whoever swaps names meanwhile.

The walk holds a handle of every directory on its way and never lets the system follow a
link: a link is read, and its target walked like a path of our own. So there is no moment
between a check and its use. Where the system cannot open relative to a handle,
`CheckedTree` looks before and after instead.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Protocol

MAX_LINKS: Final = 40
"""Links one walk follows; more are taken for a loop."""

_DIRECTORY: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FILE: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

Veto = Callable[[str], bool]
"""Says of a name that the walk must not touch it."""


class Escapes(Exception):
    """The path leaves the tree, or its links form a loop."""


class Vetoed(Exception):
    """The path leads through a name that must not be touched."""


class Missing(Exception):
    """There is no readable regular file or directory of that name."""


class Found:
    """An open regular file or directory; closes its descriptor at the end of a `with`.

    Attributes:
        fd: Its descriptor.
        info: What the descriptor says of it.
        parts: Where it really lies, relative to the tree.
    """

    def __init__(self, fd: int, parts: tuple[str, ...]) -> None:
        self.fd = fd
        self.parts = parts
        self.info = os.fstat(fd)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Found:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Tree(Protocol):
    """A directory that things are opened beneath."""

    fd: int

    @property
    def real(self) -> str: ...

    def open(self, parts: Iterable[str], veto: Veto) -> Found: ...

    def close(self) -> None: ...


def open_tree(path: str) -> Tree:
    """A tree by its path, opened in the best way the system has.

    Raises:
        OSError: It is no readable directory.
    """
    return HeldTree(path) if HAS_HANDLES else CheckedTree(path)


HAS_HANDLES: Final = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")


class HeldTree:
    """A tree held by a handle of its root."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self.fd = os.open(path, _DIRECTORY)
        except OSError:
            self.fd = os.open(os.path.realpath(path), _DIRECTORY)

    def close(self) -> None:
        os.close(self.fd)

    @functools.cached_property
    def real(self) -> str:
        """Path of the root without links. Looked up when a link leads above the root, which hardly any does.

        Raises:
            OSError: Something else is at the path by now.
        """
        found = os.path.realpath(self._path)
        if not os.path.samestat(os.stat(found), os.fstat(self.fd)):
            raise FileNotFoundError(errno.ENOENT, "the directory was moved", found)
        return found

    @functools.cached_property
    def _names(self) -> list[str]:
        return [name for name in self.real.split("/") if name]

    def open(self, parts: Iterable[str], veto: Veto) -> Found:
        """Opens a regular file or directory.

        Raises:
            Escapes, Vetoed, Missing: See there.
        """
        walk = _Walk(self, veto)
        try:
            return walk.along(parts)
        except FileNotFoundError:
            raise Missing from None
        except OSError as error:
            raise (Escapes if error.errno == errno.ELOOP else Missing) from None
        finally:
            walk.close()

    def inside(self, path: str) -> list[str] | None:
        """The components of an absolute path relative to the root; `None` when it lies elsewhere."""
        names = [name for name in path.split("/") if name]
        return names[len(self._names) :] if names[: len(self._names)] == self._names else None

    def path_above(self, levels: int) -> list[str]:
        """The components of the root's ancestor that many levels up."""
        return self._names[: len(self._names) - levels]

    def name_above(self, levels: int) -> str:
        """The component by which one comes back down from that many levels up."""
        return self._names[-levels]

    @property
    def depth(self) -> int:
        return len(self._names)


class _Walk:
    """One walk: where it stands, as handles inside the tree or as a number of levels above it."""

    def __init__(self, tree: HeldTree, veto: Veto) -> None:
        self._tree = tree
        self._veto = veto
        self._stack: list[tuple[str, int]] = []
        self._above = 0
        self._links = 0
        self._pending: list[str] = []

    def close(self) -> None:
        while self._stack:
            os.close(self._stack.pop()[1])

    def along(self, parts: Iterable[str]) -> Found:
        self._pending = list(parts)[::-1]
        while self._pending:
            name = self._pending.pop()
            if name == "..":
                self._up()
            elif name in ("", "."):
                continue
            elif self._above:
                self._down_again(name)
            elif found := self._enter(name):
                return found
        if self._above:
            raise Escapes
        return self._here()

    def _up(self) -> None:
        if self._stack:
            os.close(self._stack.pop()[1])
        else:
            self._above = min(self._above + 1, self._tree.depth)

    def _down_again(self, name: str) -> None:
        """Outside, the root's own path is the way back; any other way is only good if it ends inside after all."""
        if name == self._tree.name_above(self._above):
            self._above -= 1
            return
        outside = "/" + "/".join([*self._tree.path_above(self._above), name, *reversed(self._pending)])
        inside = self._tree.inside(os.path.realpath(outside))
        if inside is None:
            raise Escapes
        self._count_link()
        self._above = 0
        self._pending = inside[::-1]

    def _enter(self, name: str) -> Found | None:
        if self._veto(name):
            raise Vetoed
        here = self._stack[-1][1] if self._stack else self._tree.fd
        mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            self._follow(os.readlink(name, dir_fd=here))
        elif stat.S_ISDIR(mode):
            self._stack.append((name, os.open(name, _DIRECTORY, dir_fd=here)))
        elif stat.S_ISREG(mode) and all(rest in ("", ".") for rest in self._pending):
            return self._file(name, here)
        else:
            raise Missing
        return None

    def _file(self, name: str, here: int) -> Found:
        found = Found(os.open(name, _FILE, dir_fd=here), (*(name for name, _ in self._stack), name))
        # The name may stand for something else than a moment ago.
        if not stat.S_ISREG(found.info.st_mode):
            found.close()
            raise Missing
        return found

    def _follow(self, target: str) -> None:
        self._count_link()
        if target.startswith("/"):
            self.close()
            self._above = self._tree.depth
        self._pending.extend(target.split("/")[::-1])

    def _count_link(self) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise Escapes

    def _here(self) -> Found:
        here = self._stack[-1][1] if self._stack else self._tree.fd
        return Found(os.dup(here), tuple(name for name, _ in self._stack))


class CheckedTree:
    """The fallback: paths are resolved and checked, opened, and checked again to be still the same file."""

    def __init__(self, path: str) -> None:
        self.real = os.path.realpath(path)
        self.fd = -1
        if not os.path.isdir(self.real):
            raise NotADirectoryError(errno.ENOTDIR, "no directory", self.real)

    def close(self) -> None:
        """Nothing is held."""

    def open(self, parts: Iterable[str], veto: Veto) -> Found:
        """As `HeldTree.open`, with directories by name only where the system has no handles for them."""
        path = os.path.join(self.real, *parts)
        try:
            real = self._resolved(path)
            relative = os.path.relpath(real, self.real)
            inside = tuple(name for name in relative.split(os.sep) if name != ".")
            if ".." in inside[:1] or os.path.isabs(relative):
                raise Escapes
            if any(veto(name) for name in inside):
                raise Vetoed
            before = os.lstat(real)
            if not (stat.S_ISREG(before.st_mode) or stat.S_ISDIR(before.st_mode)):
                raise Missing
            found = Found(os.open(real, _FILE), inside)
        except OSError as error:
            raise (Escapes if error.errno == errno.ELOOP else Missing) from None
        except ValueError:  # another drive, or a name the system does not take
            raise Escapes from None
        if not self._is_still(path, real, before, found.info):
            found.close()
            raise Missing
        return found

    @staticmethod
    def _resolved(path: str) -> str:
        real = os.path.realpath(path)
        # Where links form a loop, resolving stops at one of them.
        if os.path.islink(real):
            raise Escapes
        return real

    def _is_still(self, path: str, real: str, before: os.stat_result, opened: os.stat_result) -> bool:
        """Whether what was checked, what was opened and what is there now are the same."""
        with contextlib.suppress(OSError, Escapes):
            resolved, after = self._resolved(path), os.lstat(real)
            return resolved == real and os.path.samestat(before, opened) and os.path.samestat(opened, after)
        return False
