"""A disk that can be full: a small file system of its own where mounting is permitted, else a stub with a quota.

The stub stands in front of the spool and of what an upload writes.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from smcp_runtime.actors.blobs.landing import Part
from smcp_runtime.actors.blobs.spool import Spool

SIZE = 8 * 1024 * 1024


class Disk:
    """Made by `small_disk`.

    Attributes:
        folder: Where everything goes that is to be written to it.
        how: What it is, for people.
    """

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.how = folder, how

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more can be written to it inside the block."""
        with ExitStack() as stack:
            if self.how == "tmpfs":
                filler = self.folder / "filler"
                stack.callback(filler.unlink)
                with filler.open("wb", buffering=0) as file:
                    _fill(file.write)
            else:
                stack.enter_context(mock.patch.object(Spool, "store", _refuse))
                stack.enter_context(mock.patch.object(Part, "write", _refuse))
            yield


def _fill(write: Callable[[bytes], int | None]) -> None:
    for size in (65536, 1):
        try:
            while True:
                write(bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _refuse(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A disk at this empty folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and not subprocess.run(command, check=False, capture_output=True).returncode
    )
    if not mounted:
        yield Disk(folder, "stub, since nothing may be mounted here")
        return
    try:
        yield Disk(folder, "tmpfs")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
