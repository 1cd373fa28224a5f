"""The catalogue is the same bytes in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from smcp_runtime.actors.tools.exposure import Catalogue, build
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.tools import ServerTools, ToolPolicy

def server(name):
    meta = {"tags": ["t"], "zone": 1, "area": {"x": 1, "a": 2}}
    native = {"q": 1, "b": [1], "a2c_tool_meta": {}}
    tools = [{"name": n, "inputSchema": {"type": "object"}, "_meta": native} for n in "xyz"]
    policy = ToolPolicy(name, name, default_tool_meta=meta, forbidden=("y",))
    return ServerTools(policy, Attachment(json.dumps(tools).encode()), True)

catalogue = Catalogue()
order = sys.argv[1]
for count in range(len(order) + 1):
    catalogue = build([server(name) for name in order[:count]], catalogue, 900_000)
sys.stdout.buffer.write(catalogue.tools)
"""


@pytest.mark.spec("DEC-5", "F-44")
def test_hash_seeds_and_start_orders_leave_no_trace() -> None:
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, order],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=30,
        ).stdout
        for seed, order in (("0", "abc"), ("1", "cab"), ("2", "bca"), ("3", "cba"), ("4", "acb"))
    }
    assert len(seen) == 1
    assert b"a__x" in seen.pop()
