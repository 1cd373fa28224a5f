"""Why a session with a Server ended."""

from __future__ import annotations

import msgspec

from ...wire.errors import NetworkError


class Lost(msgspec.Struct, frozen=True):
    """A phrase for people, and the WebSocket close code if the Server sent one."""

    reason: str
    close_code: int | None = None

    def error(self, executed: str = "unknown") -> NetworkError:
        """What a caller is told whose request met the end of the session; `executed` is `no` if it was never sent."""
        return NetworkError(
            f"no connection to the Server: {self.reason}", code="connection_lost", details={"executed": executed}
        )


CLOSED = Lost("closed here")
"""On request."""
