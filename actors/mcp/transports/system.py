"""Which system the servers run on: the one place that chooses by it what starts them."""

from __future__ import annotations

import sys

from .process_tree import StartTree

WINDOWS: bool = sys.platform == "win32"
"""Declared wider than the checker would infer, which reads `sys.platform` as that of its own run."""

start_tree: StartTree
if sys.platform == "win32":
    from .job_tree import JobTrees
    from .windows_kernel import WindowsKernel

    start_tree = JobTrees(WindowsKernel())
else:
    from .spawn import spawn

    start_tree = spawn
