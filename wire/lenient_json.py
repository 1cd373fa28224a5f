"""JSON as peers in Python write it: with a byte order mark, `NaN`, or halves of surrogate pairs. Pure.

Tried only on what strict reading refused. A half comes from the name of a file that is no text; no UTF-8 can carry
it on, so it becomes the replacement character.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")
_HALF_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


def read_leniently(text: bytes) -> Any:
    """Plain values of a JSON text.

    Raises:
        ValueError: It is not JSON for that either.
        RecursionError: It is nested deeper than the stack.
    """
    found = json.loads(text)
    if _HALF_ESCAPED.search(text):
        return json.loads(_HALF.sub("\N{REPLACEMENT CHARACTER}", json.dumps(found, ensure_ascii=False)))
    return found
