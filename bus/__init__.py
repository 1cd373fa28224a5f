"""The bus: moves envelopes between addresses, in process or over ZeroMQ."""

from .bus import DEFAULT_TIMEOUT, OVERTIME, Bus
from .dead_letter import DeadLetter, DeadLetters
from .mailbox import Mailbox, Verdict, Whereabouts
from .measure import Meter, NullMeter
from .observer import Observer
from .pending import Answer, Settled
from .ports import Gateway, Receiver
from .tally import Tally

__all__ = [
    "DEFAULT_TIMEOUT",
    "OVERTIME",
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
    "Tally",
    "Verdict",
    "Whereabouts",
]
