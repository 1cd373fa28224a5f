"""The value store: what was answered to inputs that are no secrets, for the next run (03 §5.6). Blocking.

One flat object in the state directory, readable by its owner only. A secret never gets here;
a file that cannot be read is an empty one, and is set aside before it is written over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ....wire.errors import ConfigValidationError
from ..config.json_text import load
from ..files.atomic import read_file, replace_file
from ..files.derived import set_aside
from ..files.jsonc import dump
from ..files.lock import locked
from ..rendering.candidates import Value

FILE_NAME = "input-values.json"


class ValueStore:
    """The store of one state directory.

    Args:
        wall_clock: Unix seconds.
    """

    def __init__(self, state: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self.path = state / FILE_NAME
        self._wall_clock = wall_clock

    def read(self) -> dict[str, Value]:
        """All values by resolved input id."""
        return self._read()[0]

    def put(self, input_id: str, value: Value) -> bool:
        """Keeps a value; `False` when it was kept already.

        Raises:
            ConflictError, StartupError: The file cannot be locked or written.
        """
        return self._change(lambda known: {**known, input_id: value})

    def remove(self, input_id: str) -> bool:
        """Forgets a value; `False` when there was none. Raises as `put`."""
        if input_id not in self.read():
            return False  # a disk that takes nothing has nothing to be told
        return self._change(lambda known: {key: value for key, value in known.items() if key != input_id})

    def clear(self) -> int:
        """Forgets everything; returns how many values there were. Raises as `put`."""
        count = len(self.read())
        if count:
            self._change(lambda _: {})
        return count

    def _change(self, decide: Callable[[dict[str, Value]], dict[str, Value]]) -> bool:
        with locked(self.path):
            known, is_sound = self._read()
            wanted = decide(known)
            if wanted == known:
                return False
            if not is_sound:
                set_aside(self.path, self._wall_clock())
            replace_file(self.path, (dump(wanted) + "\n").encode("utf-8"), mode=0o600)
            return True

    def _read(self) -> tuple[dict[str, Value], bool]:
        try:
            data = read_file(self.path)
            tree = {} if data is None else load(data, FILE_NAME)
        except ConfigValidationError:
            return {}, False
        if not isinstance(tree, Mapping):
            return {}, False
        return {key: value for key, value in tree.items() if isinstance(value, str | int | bool)}, True
