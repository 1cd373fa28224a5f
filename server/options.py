"""What a deployer may choose about a Server."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from ..wire.protocol import PROTOCOL_VERSION, SOCKETIO_PATH
from .auth import AuthProvider, TokenAuth
from .limits import Limits


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of both shells.

    Attributes:
        auth: Decides about connections; the default denies everybody, because it has no token (W-AUTH-10).
        protocol_version: The one version served (W-HS-19).
        socketio_path: Where Socket.IO and the version check are mounted; relative to the mount point of a host
            application (W-ARCH-3).
        limits: What peers may take.
        known_offices: Offices that exist from the start; `None` lets them come into being by joining (W-ROOM-17).
        hide_names: Answer 404 instead of 4104 for a Computer of another office (W-CALL-1).
        ping_interval: Seconds between heartbeats.
        ping_timeout: Seconds a peer has to answer one.
        cors_allowed_origins: As python-socketio takes it; `None` allows the same origin only.
        audit: Leave an info line in the security log for each relayed call, if that log is at INFO when the Server is
            made.
    """

    auth: AuthProvider = msgspec.field(default_factory=TokenAuth)
    protocol_version: str = PROTOCOL_VERSION
    socketio_path: str = SOCKETIO_PATH
    limits: Limits = Limits()
    known_offices: Collection[str] | None = None
    hide_names: bool = False
    ping_interval: float = 25.0
    ping_timeout: float = 20.0
    cors_allowed_origins: Any = None
    audit: bool = True
