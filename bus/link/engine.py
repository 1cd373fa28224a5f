"""One Engine.IO session on aiohttp: polling first, upgraded before any message leaves.

A session is opened once, carries Socket.IO packets, and ends; it never comes back.
Where the network allows no upgrade it goes on polling, with payloads an official
Server accepts (DEC-17). The client of python-socketio is not used: it forgets the
headers of a refusal, cannot bound its payloads, waits for ever on a silent upgrade,
drops what was sent just before a disconnect, and spends twice the time on each packet.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import anyio
import msgspec
from aiohttp import WSMsgType

from ...wire.errors import NetworkError
from ...wire.handshake import refusal, refused_by_close
from ...wire.protocol import PACKET_LIMIT, VERSION_REFUSED_CLOSE_CODE
from .lost import CLOSED, Lost
from .outbox import Outbox

MESSAGE_MAX = 16_777_216
"""Largest message, or answer to a poll, read from a Server; what it sends is its operator's choice."""
REFUSAL_MAX = 65_536
CLOSE_WAIT = 2.0

_OPEN, _CLOSE, _PING, _MESSAGE = "0", "1", "2", "4"
_PROBE, _PROBED, _UPGRADE = "2probe", "3probe", "5"
_SEPARATOR = "\x1e"

_log = logging.getLogger(__name__)


class Opened(msgspec.Struct, frozen=True, rename="camel"):
    """The Server's open packet; intervals in milliseconds."""

    sid: str
    upgrades: tuple[str, ...] = ()
    ping_interval: int = 25_000
    ping_timeout: int = 20_000
    max_payload: int = PACKET_LIMIT


class Engine:
    """One session. `open` it, `run` it in one task, `send` from any; `close` it whatever happened.

    Args:
        url: Address with the version in its query (`wire.handshake.request_url`).
        headers: Sent with every request.
        tls: An SSL context, `True` for the system's trust, `False` to trust anybody.
    Attributes:
        max_payload: Bytes the Server takes in one payload.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str], tls: ssl.SSLContext | bool) -> None:
        self._url = f"{url}&EIO=4"
        self._headers = dict(headers)
        # Load balancers pin a session to a process with a cookie, also where they are addressed by number.
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0), cookie_jar=aiohttp.CookieJar(unsafe=True)
        )
        self._sid = ""
        self._ws: aiohttp.ClientWebSocketResponse | None = None
        self._outbox = Outbox(PACKET_LIMIT)
        self._silence = 45.0
        self._seen = 0.0
        self._ended: Lost | None = None
        self._running = False
        self.max_payload = PACKET_LIMIT

    @property
    def transport(self) -> str:
        """`websocket` once upgraded, else `polling`."""
        return "polling" if self._ws is None else "websocket"

    async def open(self, *, upgrade: bool, upgrade_timeout: float) -> None:
        """Shakes hands, and upgrades if wanted and possible.

        Raises:
            ProtocolVersionError: The Server speaks another version, said over polling or by close code 4900.
            AuthError: Refused with status 401 or 403.
            NetworkError: Anything else.
        """
        opened = await self._handshake()
        self._sid = opened.sid
        self._silence = (opened.ping_interval + opened.ping_timeout) / 1000
        self.max_payload = opened.max_payload
        self._outbox = Outbox(opened.max_payload)
        if upgrade and "websocket" in opened.upgrades:
            self._ws = await self._upgraded(upgrade_timeout)

    async def _handshake(self) -> Opened:
        url = f"{self._url}&transport=polling"
        try:
            async with self._http.get(url, headers=self._headers, allow_redirects=False) as response:
                body = await _beginning(response, REFUSAL_MAX)
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error
        if response.status != 200:
            raise refusal(response.status, body, response.headers)
        text = body.decode("utf-8", "replace").partition(_SEPARATOR)[0]
        try:
            if text[:1] == _OPEN:
                return msgspec.json.decode(text[1:], type=Opened)
        except msgspec.DecodeError:
            pass
        raise NetworkError("what answered the handshake is no Socket.IO Server", code="handshake_refused")

    async def _upgraded(self, timeout: float) -> aiohttp.ClientWebSocketResponse | None:
        """The probed WebSocket, or `None` where the network does not let one through."""
        ws: aiohttp.ClientWebSocketResponse | None = None
        try:
            async with asyncio.timeout(timeout):
                ws = await self._http.ws_connect(
                    f"{self._url}&transport=websocket&sid={self._sid}",
                    headers=self._headers,
                    max_msg_size=MESSAGE_MAX,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_WAIT),
                )
                await ws.send_str(_PROBE)
                if (await ws.receive()).data == _PROBED:
                    await ws.send_str(_UPGRADE)
                    return ws
        except (aiohttp.ClientError, OSError) as error:
            _log.info("no upgrade to WebSocket (%s), polling on", type(error).__name__)
        if ws is not None:
            await ws.close()
            if ws.close_code == VERSION_REFUSED_CLOSE_CODE:
                raise refused_by_close()
        return None

    async def run(self, on_packet: Callable[[str], None]) -> Lost:
        """Hands every Socket.IO packet to `on_packet`, in order, until the session ends; says why it did."""
        self._running = True
        self._heard()
        lost = Lost("the Server fell silent")
        try:
            async with asyncio.timeout(None) as patience:
                self._look(patience)
                lost = await (self._poll(on_packet) if self._ws is None else self._converse(self._ws, on_packet))
        except TimeoutError:
            pass
        finally:
            self._watch.cancel()
            self._running = False
            self._ended = lost
            self._outbox.close()
        return lost

    def _heard(self) -> None:
        self._seen = asyncio.get_running_loop().time()

    def _look(self, patience: asyncio.Timeout) -> None:
        """Ends `run` when the Server has been silent too long; one timer, however many packets arrive."""
        loop = asyncio.get_running_loop()
        left = self._seen + self._silence - loop.time()
        if left <= 0:
            patience.reschedule(loop.time())
        else:
            self._watch = loop.call_later(left, self._look, patience)

    async def _converse(self, ws: aiohttp.ClientWebSocketResponse, on_packet: Callable[[str], None]) -> Lost:
        while True:
            message = await ws.receive()
            if message.type is not WSMsgType.TEXT:
                if message.type is not WSMsgType.BINARY:
                    return Lost("the connection was closed", ws.close_code)
                continue
            self._heard()
            packet: str = message.data
            kind = packet[:1]
            if kind == _MESSAGE:
                on_packet(packet[1:])
            elif kind == _PING:
                try:
                    await ws.send_str(_pong(packet))
                except (aiohttp.ClientError, OSError):
                    return Lost("the connection broke")
            elif kind == _CLOSE:
                return Lost("the Server closed the session")

    async def _poll(self, on_packet: Callable[[str], None]) -> Lost:
        reader = asyncio.ensure_future(self._get(on_packet))
        writer = asyncio.ensure_future(self._post())
        try:
            done, _ = await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            reader.cancel()
            writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _get(self, on_packet: Callable[[str], None]) -> Lost:
        while True:
            status, body = await self._exchange(self._http.get)
            if status != 200:
                return Lost(f"polling ended with {status}")
            self._heard()
            for packet in body.split(_SEPARATOR):
                kind = packet[:1]
                if kind == _MESSAGE:
                    on_packet(packet[1:])
                elif kind == _PING:
                    await self._outbox.put(_pong(packet).encode())
                elif kind == _CLOSE:
                    return Lost("the Server closed the session")

    async def _post(self) -> Lost:
        while True:
            payload = await self._outbox.payload()
            status, _ = await self._exchange(self._http.post, payload)
            if status != 200:
                return Lost(f"sending ended with {status}")
            self._outbox.sent()

    async def _exchange(self, method: Callable[..., Any], payload: bytes | None = None) -> tuple[int | str, str]:
        """Status (or the name of what went wrong) and text of one polling request."""
        try:
            async with method(
                f"{self._url}&transport=polling&sid={self._sid}",
                headers={**self._headers, "Content-Type": "text/plain;charset=UTF-8"},
                data=payload,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self._silence),
            ) as response:
                body = await _beginning(response, MESSAGE_MAX + 1)
                if len(body) > MESSAGE_MAX:
                    return f"an answer of more than {MESSAGE_MAX} bytes", ""
                return response.status, body.decode("utf-8", "replace")
        except (aiohttp.ClientError, OSError) as error:
            return type(error).__name__, ""

    async def send(self, packet: bytes) -> None:
        """Sends one Socket.IO packet; waits while the network takes no more.

        Raises:
            NetworkError: The session has ended.
        """
        if self._ended is not None:
            raise self._ended.error(executed="no")
        if self._ws is None:
            if not await self._outbox.put(b"4" + packet):
                raise (self._ended or CLOSED).error(executed="no")
            return
        try:
            await self._ws.send_frame(b"4" + packet, WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError) as error:
            raise Lost("the connection broke").error() from error

    async def close(self) -> None:
        """Ends the session: what was sent before is handed to the network first, within a bound (F-83)."""
        try:
            async with asyncio.timeout(CLOSE_WAIT):
                if self._running and self._ws is not None:
                    await self._ws.send_str(_CLOSE)
                elif self._running:
                    await self._outbox.put(_CLOSE.encode())
                    await self._outbox.flushed()
        except (aiohttp.ClientError, OSError):
            pass
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Ends the session without waiting for what is on its way. Safe to call twice."""
        try:
            if self._ws is not None:
                await self._ws.close()
        finally:
            self._ended = self._ended or CLOSED
            # Also for a caller whose patience ended while a frozen Server owed its farewell.
            with anyio.CancelScope(shield=True):
                await self._http.close()


def _pong(ping: str) -> str:
    return f"3{ping[1:]}"


async def _beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The first bytes of a body, so that a hostile one cannot fill the memory."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= most:
            break
    return bytes(body[:most])


def _unreachable(error: Exception) -> NetworkError:
    """The error for a request that got no answer. Its text names no URL: a query may hold a secret."""
    if isinstance(error, aiohttp.ClientSSLError):
        cause = getattr(error, "certificate_error", None) or error.os_error
        reason = getattr(cause, "verify_message", "") or type(cause).__name__
        return NetworkError(f"no secure connection to the Server: {reason}", code="tls")
    reason = error.strerror if isinstance(error, aiohttp.ClientConnectorError) else type(error).__name__
    return NetworkError(f"the Server cannot be reached: {reason}", code="unreachable", causes=(type(error).__name__,))
