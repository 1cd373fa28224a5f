"""Who may connect: answers ZeroMQ's authentication requests (ZAP, RFC 27) from the allow-list.

ZeroMQ asks over an in-process socket of the same context before a peer's first message;
what is refused here never reaches the hub's socket. Requests are few, so the answer is
given in the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

import zmq
from zmq.utils import z85

from .drain import Drain

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"smcp-bus"

_NameOf = Callable[[bytes], str | None]


def judge(request: list[bytes], name_of: _NameOf) -> tuple[list[bytes], str | None]:
    """The answer to a request, and what to log about a refusal.

    Args:
        request: Version, request id, domain, peer address, peer identity, mechanism, credentials.
        name_of: Name for a public key in Z85, or `None`.
    """
    if len(request) < 6:
        return [], "malformed request"
    version, request_id, domain, address, _identity, mechanism, *credentials = request
    name = None
    if (
        version == b"1.0"
        and domain == DOMAIN
        and mechanism == b"CURVE"
        and len(credentials) == 1
        and len(credentials[0]) == 32
    ):
        name = name_of(z85.encode(credentials[0]))
    if name is None:
        where = address.decode("ascii", "replace")
        return [
            b"1.0",
            request_id,
            b"400",
            b"not allowed",
            b"",
            b"",
        ], f"a peer at {where} has a key that is not allowed"
    return [b"1.0", request_id, b"200", b"OK", name.encode(), b""], None


class Authenticator:
    """Answers for all sockets of a context, from now until `close`."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], name_of: _NameOf, refused: Callable[[str], None]
    ) -> None:
        self._name_of = name_of
        self._refused = refused
        socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        socket.bind(ENDPOINT)
        self._socket = socket
        self._drain = Drain(socket, self._receive)

    def close(self) -> None:
        """Stops answering: nobody else comes in."""
        self._drain.stop()
        self._socket.close(linger=0)

    def _receive(self, frames: list[bytes], _user: str) -> None:
        start = frames.index(b"") + 1
        answer, why = judge(frames[start:], self._name_of)
        if why is not None:
            self._refused(why)
        if answer:
            self._drain.send([*frames[:start], *answer])
