"""The bus: moves envelopes between addresses, in process or over ZeroMQ."""

from .bus import DEFAULT_TIMEOUT, Answer, Bus, Settled
from .dead_letter import DeadLetter, DeadLetters
from .mailbox import Mailbox, Verdict
from .measure import Meter, NullMeter
from .observer import Observer
from .ports import Gateway, Receiver

__all__ = [
    "DEFAULT_TIMEOUT",
    "Answer",
    "Bus",
    "DeadLetter",
    "DeadLetters",
    "Gateway",
    "Mailbox",
    "Meter",
    "NullMeter",
    "Observer",
    "Receiver",
    "Settled",
    "Verdict",
]
