"""The door of a Server: one attempt at a connection, from fresh credentials to the confirmed namespace.

The link knocks as often as it sees fit. Nothing of a failed attempt stays behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...wire.errors import NetworkError, ProtocolVersionError, SmcpError
from ...wire.handshake import REFUSED_BY_CLOSE, ignored_path, polling_first, request_url
from ..deferred import Deferred
from .connection import Connection, EventHandler
from .lost import Lost
from .options import LinkOptions, fresh_auth

if TYPE_CHECKING:
    from .engine import Engine

_log = logging.getLogger(__name__)


class Door:
    """Where the Server is, and how one gets in.

    Args:
        options: Where the Server is and how to reach it.
        on_event: Gets every event of the connections made here.
    Raises:
        ConfigValidationError: The URL is unusable.
    """

    def __init__(self, options: LinkOptions, on_event: EventHandler) -> None:
        self._options = options
        self._on_event = on_event
        self._url = request_url(options.url, options.socketio_path, options.version)
        self._transports = polling_first(options.transports)
        if self._transports != tuple(options.transports):
            _log.warning(
                "transports %s would hide why a handshake is refused; using %s", options.transports, self._transports
            )
        if path := ignored_path(options.url, options.socketio_path):
            _log.warning("the path %s of the Server URL has no effect, Socket.IO is at %s", path, options.socketio_path)

    async def connection(self, on_lost: Callable[[Lost], None]) -> Connection:
        """One connection with a confirmed namespace.

        Args:
            on_lost: Hears when it has ended.
        Raises:
            ProtocolVersionError: The Server speaks another version.
            AuthError: The Server refused the credentials.
            NetworkError: It cannot be reached, or did not answer in `connect_timeout`.
        """
        options = self._options
        try:
            async with asyncio.timeout(options.connect_timeout):
                auth = await fresh_auth(options.auth)
        except TimeoutError as error:
            # Not the Server's fault, but as little a reason to give up as any other moment without network.
            raise NetworkError(
                f"nobody gave credentials within {options.connect_timeout:g} s", code="no_credentials"
            ) from error
        engine = await self._engine()
        connection = Connection(engine, options.namespace, self._on_event, on_lost)
        try:
            async with asyncio.timeout(options.connect_timeout):
                await engine.open(upgrade="websocket" in self._transports, upgrade_timeout=options.connect_timeout / 2)
                await connection.establish(auth)
        except BaseException as error:
            await connection.abort()
            if isinstance(error, TimeoutError):
                raise NetworkError(
                    f"the Server did not complete the handshake within {options.connect_timeout:g} s",
                    code="connect_timeout",
                ) from error
            if isinstance(error, ProtocolVersionError) and error.code == REFUSED_BY_CLOSE:
                raise await self.explained(error) from None
            raise
        return connection

    async def explained(self, refused: ProtocolVersionError) -> ProtocolVersionError:
        """The refusal with the versions in it, asked for once over polling (W-HS-7)."""
        engine = await self._engine()
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await engine.open(upgrade=False, upgrade_timeout=0)
        except ProtocolVersionError as explained:
            return explained
        except (SmcpError, TimeoutError):
            pass
        finally:
            await engine.abort()
        return refused

    async def _engine(self) -> Engine:
        engine_class = await _engine_class.get()
        return engine_class(self._url, headers=self._options.headers, tls=self._options.tls)


def _import_engine() -> type[Engine]:
    from .engine import Engine  # noqa: PLC0415 - brings aiohttp, which only who connects need wait for

    return Engine


_engine_class = Deferred(_import_engine)
