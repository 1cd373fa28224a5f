"""What others do to a package between one step of the sandbox and the next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.skills import beneath
from smcp_runtime.actors.skills.beneath import CheckedTree, Missing
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.actors.skills.package_file import open_package_file
from smcp_runtime.actors.skills.rel_path import Refused

spec = pytest.mark.spec
FORBIDDEN = ForbiddenNames()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package with one file, and something beside it that has the same name."""
    package = tmp_path / "package"
    (package / "docs").mkdir(parents=True)
    (package / "docs" / "a.md").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("secret")
    return package


@pytest.fixture
def swapper(root: Path) -> Iterator[None]:
    """Replaces `docs/a.md` and `docs` by links to the outside, and back, as fast as it can."""
    folder = root / "docs"
    end = threading.Event()

    def swap() -> None:
        while not end.is_set():
            (root / "spare").symlink_to("../outside/a.md")
            os.rename(root / "spare", folder / "a.md")
            os.rename(folder, root / "kept")
            os.symlink("../outside", folder)
            os.unlink(folder)
            os.rename(root / "kept", folder)
            (folder / "a.md").unlink()
            (folder / "a.md").write_text("a")

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    end.set()
    thread.join()


@spec("C-SKILL-67", "C-SEC-11", "R-SEC-10")
@pytest.mark.usefixtures("swapper")
def test_a_swap_between_check_and_use_never_shows_what_lies_outside(root: Path) -> None:
    seen: set[bytes | str] = set()
    for _ in range(3_000):
        try:
            with open_package_file(str(root), "docs/a.md", FORBIDDEN, 1_000) as file:
                seen.add(os.read(file.found.fd, 100))
        except Refused as refused:
            seen.add(refused.reason)
    assert seen <= {b"a", b"", "traversal", "not_found"}
    assert len(seen) > 1


@spec("C-SKILL-67")
@pytest.mark.parametrize("moment", ["lstat", "open"])
def test_without_handles_a_file_that_is_swapped_while_it_is_checked_is_not_found(
    root: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system call itself is what swaps: nothing else can hit the moment reliably."""
    tree = CheckedTree(str(root))
    real = getattr(os, moment)

    def swapped(path: Any, *arguments: Any, **more: Any) -> Any:
        if not str(path).endswith("a.md"):
            return real(path, *arguments, **more)
        os.rename(root / "docs", root / "kept")
        os.symlink("../outside", root / "docs")
        try:
            return real(path, *arguments, **more)
        finally:
            os.unlink(root / "docs")
            os.rename(root / "kept", root / "docs")

    with tree.open(("docs", "a.md"), lambda _: False) as found:
        assert os.read(found.fd, 100) == b"a"
    monkeypatch.setattr(beneath.os, moment, swapped)
    with pytest.raises(Missing):
        tree.open(("docs", "a.md"), lambda _: False)
