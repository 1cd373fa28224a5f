"""The mailbox against a model that is too simple to be wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smcp_runtime.bus import Mailbox, Verdict
from smcp_runtime.wire.envelope import Address, Envelope, Kind

CAPACITY, WAITING = 4, 3


def letter(number: int, kind: Kind = "ask", *, lane: str = "ordinary", key: str = "") -> Envelope:
    return Envelope(kind, "Thing", Address("a"), id=0 if kind == "fact" else number, lane=lane, key=key)


class Model:
    """Three plain lists."""

    def __init__(self) -> None:
        self.control: list[Envelope] = []
        self.ordinary: list[Envelope] = []
        self.waiting: list[Envelope] = []
        self.admitted_late: list[Envelope] = []

    def offer(self, envelope: Envelope) -> Verdict:
        if envelope.key:
            for place, old in enumerate(self.ordinary):
                if old.key == envelope.key:
                    self.ordinary[place] = envelope
                    return Verdict.COALESCED
        if envelope.lane == "control":
            if len(self.control) == CAPACITY:
                return Verdict.REFUSED
            self.control.append(envelope)
            return Verdict.ADMITTED
        if len(self.ordinary) < CAPACITY:
            self.ordinary.append(envelope)
            return Verdict.ADMITTED
        if not envelope.id or len(self.waiting) == WAITING:
            return Verdict.REFUSED
        self.waiting.append(envelope)
        return Verdict.WAITING

    def take(self) -> Envelope | None:
        lane = self.control or self.ordinary
        if not lane:
            return None
        envelope = lane.pop(0)
        self.advance()
        return envelope

    def withdraw(self, number: int) -> str | None:
        for lane, where in ((self.waiting, "waiting"), (self.control, "queued"), (self.ordinary, "queued")):
            for envelope in lane:
                if envelope.id == number:
                    lane.remove(envelope)
                    self.advance()
                    return where
        return None

    def advance(self) -> None:
        while self.waiting and len(self.ordinary) < CAPACITY:
            self.ordinary.append(self.waiting.pop(0))
            self.admitted_late.append(self.ordinary[-1])


class MailboxMachine(RuleBasedStateMachine):
    """Does the same to both."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.admitted_late: list[Envelope] = []
        self.mailbox = Mailbox(CAPACITY, WAITING, on_admit=self.admitted_late.append)
        self.last = 0

    def offer(self, envelope: Envelope) -> None:
        assert self.mailbox.offer(envelope) is self.model.offer(envelope)

    @rule(control=st.booleans(), kind=st.sampled_from(["ask", "tell"]))
    def message(self, control: bool, kind: Kind) -> None:
        self.last += 1
        self.offer(letter(self.last, kind, lane="control" if control else "ordinary"))

    @rule(key=st.sampled_from(["", "x", "y"]))
    def fact(self, key: str) -> None:
        self.offer(letter(0, "fact", key=key))

    @rule()
    def message_without_id(self) -> None:
        self.offer(letter(0, "tell"))

    @rule()
    def take(self) -> None:
        assert self.mailbox.take() is self.model.take()

    @precondition(lambda self: self.last)
    @rule(back=st.integers(0, 12))
    def withdraw(self, back: int) -> None:
        number = max(1, self.last - back)
        assert self.mailbox.withdraw(number) == self.model.withdraw(number)

    @rule()
    def empty(self) -> None:
        model = self.model
        expected = [*model.control, *model.ordinary, *model.waiting]
        for lane in (model.control, model.ordinary, model.waiting):
            lane.clear()
        left = self.mailbox.empty()
        assert len(left) == len(expected)
        assert all(one is other for one, other in zip(left, expected, strict=True))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        model = self.model
        assert len(self.mailbox) == len(model.control) + len(model.ordinary) + len(model.waiting)
        assert len(self.mailbox) <= self.mailbox.high_water <= 2 * CAPACITY + WAITING
        assert [envelope.id for envelope in self.admitted_late] == [envelope.id for envelope in model.admitted_late]


TestMailboxAgainstTheModel = MailboxMachine.TestCase
TestMailboxAgainstTheModel.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_a_keyed_fact_keeps_the_place_of_the_oldest_and_the_content_of_the_newest(keys: list[int]) -> None:
    mailbox = Mailbox(100, 0)
    newest: dict[str, int] = {}
    for number, key in enumerate(keys):
        envelope = letter(0, "fact", key=f"k{key}")
        envelope.trace = str(number)
        mailbox.offer(envelope)
        newest[f"k{key}"] = number
    assert [(envelope.key, int(envelope.trace)) for envelope in mailbox.empty()] == list(newest.items())


def test_a_full_control_lane_refuses_and_leaves_the_ordinary_lane_its_places() -> None:
    mailbox = Mailbox(2, 2)
    verdicts = [mailbox.offer(letter(number, lane="control")) for number in (1, 2, 3)]
    assert verdicts == [Verdict.ADMITTED, Verdict.ADMITTED, Verdict.REFUSED]
    assert mailbox.offer(letter(4)) is Verdict.ADMITTED


def test_emptying_admits_nobody_from_the_waiting_line() -> None:
    admitted: list[Envelope] = []
    mailbox = Mailbox(1, 2, on_admit=admitted.append)
    for number in (1, 2, 3):
        mailbox.offer(letter(number, "tell"))
    assert [envelope.id for envelope in mailbox.empty()] == [1, 2, 3]
    assert admitted == []
