"""What one peer says to another: a header frame, then the body and attachments of an envelope as they are.

A ZeroMQ message is `[header, body, attachment…]`; the header is a msgpack array whose
first item is the tag of one struct below. Bodies and attachments are never re-encoded.
Deadlines cross as the seconds that remain, because clocks of two hosts differ. Pure:
bytes in, structs out, and `Malformed` for everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ...wire.envelope import Address, Envelope
from ...wire.message import Record
from ..mailbox import Whereabouts

FRAME_MAX = 128 * 1024 * 1024
"""Largest single frame in bytes; a peer that sends a larger one is disconnected."""
FRAMES_MAX = 4096
"""Most frames of one message."""
WORDS_MAX = 300


class Malformed(Exception):
    """These frames are nothing a peer of ours would send."""


class Frame(Record):
    """Root of all headers. Unknown trailing fields are ignored."""


class Carry(Frame, tag=1):
    """An ask or a tell with a body. `left` is in seconds, `inf` for no deadline; `id` is the sender's."""

    id: int
    tell: bool
    subject: str
    target: str
    sender: str
    left: float
    control: bool
    chain: tuple[str, ...] = ()
    trace: str = ""


class Replied(Frame, tag=2):
    """The ask of this id was answered; the body is the reply."""

    id: int


class Failed(Frame, tag=3):
    """The message of this id ended with an error; the body is a `Failure`."""

    id: int


class Accepted(Frame, tag=4):
    """The tell of this id is in a mailbox."""

    id: int


class Dropped(Frame, tag=5):
    """The message of this id was cancelled, and had come so far."""

    id: int
    where: Whereabouts | None = None


class Cancel(Frame, tag=6):
    """Nobody waits for the message of this id any more."""

    id: int


class Published(Frame, tag=7):
    """A fact with a body."""

    subject: str
    sender: str
    key: str = ""
    trace: str = ""


class Taken(Frame, tag=8):
    """So many facts have been handed to observers since the last such frame."""

    facts: int


class Beat(Frame, tag=9):
    """A sign of life."""


class Announce(Frame, tag=10):
    """These addresses are up at the sender, or behind it."""

    addresses: tuple[str, ...]


class Withdraw(Frame, tag=11):
    """These addresses are down; with `why` they will be back."""

    addresses: tuple[str, ...]
    why: str | None = None


class Observe(Frame, tag=12):
    """Facts of these subjects are wanted from now on."""

    subjects: tuple[str, ...]


class Unobserve(Frame, tag=13):
    """Facts of these subjects are not wanted any more."""

    subjects: tuple[str, ...]


class Hello(Frame, tag=20):
    """First frame of a node: who it is, what it speaks, what it has and wants."""

    protocol: int
    schema: str
    name: str
    addresses: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


class Welcome(Frame, tag=21):
    """The hub takes the node in: what exists elsewhere, what is wanted elsewhere, and the pulse in seconds."""

    name: str
    addresses: tuple[str, ...]
    subjects: tuple[str, ...]
    every: float
    lost_after: float


class Refused(Frame, tag=22):
    """The hub does not take the node in."""

    code: str
    text: str


class Bye(Frame, tag=23):
    """The sender leaves, or does not know the receiver; answered with a `Bye`."""

    why: str


Header = (
    Carry | Replied | Failed | Accepted | Dropped | Cancel | Published | Taken | Beat | Announce | Withdraw
    | Observe | Unobserve | Hello | Welcome | Refused | Bye
)  # fmt: skip

encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(Header).decode


def unpack(frames: Sequence[bytes]) -> tuple[Header, bytes, tuple[bytes, ...]]:
    """Header, body and attachments of a message.

    Raises:
        Malformed: There is no frame, there are too many, or the first is no header.
    """
    if not 0 < len(frames) <= FRAMES_MAX:
        raise Malformed(f"{len(frames)} frames")
    try:
        header: Header = _decode_header(frames[0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The text of a DecodeError names a path and types, never a value.
        raise Malformed(f"no header: {error}") from None
    if len(frames) == 1:
        return header, b"", ()
    return header, frames[1], tuple(frames[2:])


def carry(envelope: Envelope, link_id: int, now: float) -> list[bytes]:
    """The message that carries an ask or a tell."""
    header = Carry(
        link_id,
        envelope.kind == "tell",
        envelope.subject,
        envelope.target,
        envelope.sender,
        max(0.0, envelope.deadline - now),
        envelope.lane == "control",
        envelope.chain,
        envelope.trace,
    )
    return [encode_header(header), envelope.body, *envelope.attachments]


def published(envelope: Envelope) -> list[bytes]:
    """The message that carries a fact."""
    header = Published(envelope.subject, envelope.sender, envelope.key, envelope.trace)
    return [encode_header(header), envelope.body, *envelope.attachments]


def fact(header: Published, body: bytes, attachments: tuple[bytes, ...]) -> Envelope:
    """The envelope of a fact that arrived."""
    return Envelope(
        "fact", header.subject, Address(""), Address(header.sender), body=body, attachments=attachments,
        trace=header.trace, key=header.key,
    )  # fmt: skip


def fits(envelope_body: bytes, attachments: Sequence[bytes]) -> bool:
    """Whether a peer would accept this as one message."""
    return (
        len(envelope_body) <= FRAME_MAX
        and len(attachments) <= FRAMES_MAX - 2
        and max(map(len, attachments), default=0) <= FRAME_MAX
    )


def printable(text: str) -> str:
    """A peer's words, short and without what could garble a log."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:WORDS_MAX])


def deadline(header: Carry, now: float) -> float:
    """When a message that arrived now has to end, on the clock of this node."""
    return now + header.left if header.left > 0 and not math.isnan(header.left) else now
