"""What the SocketActor may be told to do differently, and the part of it that its link is told."""

from __future__ import annotations

import msgspec

from ...bus.link import AuthSource, LinkOptions
from ...wire.backoff import Backoff
from ...wire.messages.socket import LinkTarget
from ...wire.protocol import DEFAULT_TRANSPORTS

EMIT_LIMIT = 5.0
"""Seconds for one announcement to be sent."""
GOODBYE_LIMIT = 2.0
"""Seconds for the leave that precedes a disconnect, and for the disconnect of a dying actor."""
ANSWERS_LIMIT = 1.0
"""Seconds for the answers of what was ended by a drain to leave."""


class SocketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the actor. Times in seconds.

    Attributes:
        computer: Protocol name.
        in_flight: Requests in work at once; more are refused, never queued.
        drain_timeout: How long calls of a lost connection go on (R-LIFE-14).
    """

    computer: str
    coalesce: float = 0.3
    coalesce_longest: float = 2.0
    drain_timeout: float = 5.0
    transports: tuple[str, ...] = DEFAULT_TRANSPORTS
    connect_timeout: float = 10.0
    reconnect: bool = True
    backoff: Backoff = Backoff()
    rejoin_budget: float = 60.0
    in_flight: int = 2048


def link_options(settings: SocketSettings, target: LinkTarget, auth: AuthSource) -> LinkOptions:
    """Options of the link to a Server.

    Raises:
        ConfigValidationError: The target is unusable.
    """
    return LinkOptions(
        url=target.url,
        namespace=target.namespace,
        socketio_path=target.socketio_path,
        headers=target.headers,
        auth=auth,
        transports=settings.transports,
        connect_timeout=settings.connect_timeout,
        reconnect=settings.reconnect,
        backoff=settings.backoff,
        rejoin_budget=settings.rejoin_budget,
    )
