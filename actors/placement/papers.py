"""What a spawned worker is told over the socket it inherits, before it can be told anything over the bus. Pure.

No secret is in it: the bus itself is a second inherited socket, which nobody else can have, and
what its server is started with comes over that.
"""

from __future__ import annotations

import msgspec

from .terms import Terms

LENGTH = 4
"""Bytes of the number in front that tells how long the papers are."""
STOP = b"s"
"""Says afterwards: end gracefully. So does nothing more to come, at once."""
WORDS_MAX = 500
"""Bytes a worker may say of why it ends."""


class Papers(msgspec.Struct, frozen=True, array_like=True):
    """Everything a worker needs to begin.

    Attributes:
        parent: Pid of the Computer's process.
        log_level, log_file: Of the Computer's own log, by name, and `""` for stderr.
    """

    parent: int
    terms: Terms
    log_level: str
    log_file: str = ""


def write(papers: Papers) -> bytes:
    """As they are sent."""
    body = msgspec.msgpack.encode(papers)
    return len(body).to_bytes(LENGTH, "big") + body


def read(body: bytes) -> Papers:
    """Papers that arrived, without the length in front. Raises `msgspec.DecodeError`."""
    return msgspec.msgpack.decode(body, type=Papers)
