"""What a worker hosts, and where it keeps things of it."""

from __future__ import annotations

import msgspec


class Terms(msgspec.Struct, frozen=True):
    """The terms of one worker.

    Attributes:
        node: Name of its node on the bus.
        records, logs: Directories for process records and for what the server writes to stderr.
        stop_within: Seconds handlers in work get at a graceful end, and then the server.
    """

    bundle_id: str
    node: str
    records: str
    logs: str
    stop_within: float = 6.0
