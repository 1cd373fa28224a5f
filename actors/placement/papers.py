"""What a spawned worker is told over the socket it inherits, before it can be told anything over the bus. Pure.

The one secret in it is the worker's own key, which nobody else has and which is worthless
once the worker is gone. What its server is started with is not in it.
"""

from __future__ import annotations

import msgspec

from ...bus.zeromq import KeyPair, NodeKeys
from .terms import Terms

LENGTH = 4
"""Bytes of the number in front that tells how long the papers are."""
STOP = b"s"
"""Says afterwards: end gracefully. So does nothing more to come, at once."""


class Papers(msgspec.Struct, frozen=True, array_like=True):
    """Everything a worker needs to find its Computer and to be let in.

    Attributes:
        parent: Pid of the Computer's process.
        endpoint: Of its hub.
        public, secret, hub: CURVE keys in Z85; all empty where peers have none.
        log_level: Of the Computer's own log, by name.
    """

    parent: int
    endpoint: str
    terms: Terms
    log_level: str
    public: bytes = b""
    secret: bytes = b""
    hub: bytes = b""

    def __repr__(self) -> str:
        return f"Papers({self.terms.node!r}, …)"

    @property
    def keys(self) -> NodeKeys | None:
        """The keys as a node wants them."""
        if not self.secret:
            return None
        return NodeKeys(KeyPair(self.terms.node, self.public, self.secret), self.hub)


def write(papers: Papers) -> bytes:
    """As they are sent."""
    body = msgspec.msgpack.encode(papers)
    return len(body).to_bytes(LENGTH, "big") + body


def read(body: bytes) -> Papers:
    """Papers that arrived, without the length in front. Raises `msgspec.DecodeError`."""
    return msgspec.msgpack.decode(body, type=Papers)
