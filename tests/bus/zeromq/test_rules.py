"""The pure rules of the transport: credit, routes, greeting, pulse, notices, authentication."""

from __future__ import annotations

import logging

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from zmq.utils import z85

from smcp_runtime.bus import Verdict
from smcp_runtime.bus.zeromq import zap
from smcp_runtime.bus.zeromq.attempts import REFUSALS, Attempts, End
from smcp_runtime.bus.zeromq.flow import FactFlow, Flow
from smcp_runtime.bus.zeromq.frames import WORDS_MAX, Hello, printable
from smcp_runtime.bus.zeromq.hello import PROTOCOL, Terms, contract
from smcp_runtime.bus.zeromq.notices import Notices
from smcp_runtime.bus.zeromq.pulse import Pulse, Watch
from smcp_runtime.bus.zeromq.routes import Routes
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import NodeRefused
from smcp_runtime.wire.message import Tell, schema_hash

A, B = Address("a"), Address("b")


def letter(number: int) -> Envelope:
    return Envelope("ask", "Find", A, id=number)


def fact(number: int, key: str = "", subject: str = "Said") -> Envelope:
    return Envelope("fact", subject, Address(""), key=key, trace=str(number))


class TestFlow:
    def test_a_window_lets_so_many_out_a_line_keeps_so_many_and_the_rest_is_refused(self) -> None:
        flow = Flow(window=2, line=1)
        verdicts = [flow.offer(letter(number)) for number in (1, 2, 3, 4)]
        assert verdicts == [Verdict.ADMITTED, Verdict.ADMITTED, Verdict.WAITING, Verdict.REFUSED]

    def test_a_place_given_back_goes_to_the_first_in_line(self) -> None:
        flow = Flow(window=1, line=5)
        for number in (1, 2, 3):
            flow.offer(letter(number))
        assert flow.release() == letter(2)
        assert flow.release() == letter(3)
        assert flow.release() is None
        assert flow.out == 0

    def test_who_comes_later_does_not_overtake_the_line(self) -> None:
        flow = Flow(window=2, line=5)
        for number in (1, 2, 3):
            flow.offer(letter(number))
        flow.release()
        assert flow.offer(letter(4)) is Verdict.WAITING

    def test_who_leaves_the_line_is_not_sent(self) -> None:
        flow = Flow(window=1, line=5)
        for number in (1, 2, 3):
            flow.offer(letter(number))
        assert flow.withdraw(2) == "waiting"
        assert flow.withdraw(2) is None
        assert flow.withdraw(1) is None
        assert flow.release() == letter(3)

    @given(st.lists(st.booleans(), max_size=200))
    def test_never_more_out_than_the_window_and_nothing_is_lost(self, steps: list[bool]) -> None:
        flow = Flow(window=3, line=4)
        sent = out = 0
        for offer in steps:
            if offer:
                verdict = flow.offer(letter(sent + 1))
                sent += verdict is not Verdict.REFUSED
                out += verdict is Verdict.ADMITTED
            elif out:
                out -= 1
                out += flow.release() is not None
            assert flow.out == out <= 3
            assert len(flow.line) <= 4
            assert not len(flow.line) or out == 3


class TestFactFlow:
    def test_facts_wait_for_credit_then_coalesce_then_are_dropped(self) -> None:
        flow = FactFlow(window=1, line=2)
        offers = [fact(1), fact(2, "x"), fact(3, "x"), fact(4), fact(5)]
        assert [flow.offer(offer) for offer in offers] == [
            Verdict.ADMITTED, Verdict.WAITING, Verdict.COALESCED, Verdict.WAITING, Verdict.REFUSED,
        ]  # fmt: skip
        assert flow.release(1) == [fact(3, "x")]
        assert flow.release(1) == [fact(4)]

    def test_a_subject_of_many_keys_leaves_room_for_those_of_few(self) -> None:
        flow = FactFlow(window=1, line=6)
        flood = [flow.offer(fact(number, f"key {number}")) for number in range(20)]
        assert flood == [Verdict.ADMITTED, *[Verdict.WAITING] * 6, *[Verdict.REFUSED] * 13]
        state = fact(20, "state", "StatusChanged")
        assert flow.offer(state) is Verdict.WAITING
        assert flow.offer(fact(21, "key 3")) is Verdict.COALESCED
        assert flow.release(1) == [fact(1, "key 1")]
        assert flow.offer(fact(22, "key 22")) is Verdict.WAITING
        assert flow.offer(fact(23, "key 23")) is Verdict.REFUSED
        left = [one for _ in range(7) for one in flow.release(1)]
        assert left[5] == state
        assert len(left) == 7

    def test_a_receipt_for_more_than_was_sent_gives_no_more_credit_than_there_is(self) -> None:
        flow = FactFlow(window=2, line=10)
        for number in range(6):
            flow.offer(fact(number))
        assert len(flow.release(1_000_000)) == 2
        assert flow.release(-5) == []


class TestRoutes:
    def test_the_first_owner_keeps_an_address_until_it_lets_go(self) -> None:
        routes = Routes()
        assert routes.claim(A, "one")
        assert routes.claim(A, "one")
        assert not routes.claim(A, "two")
        assert not routes.release(A, "two")
        assert routes.release(A, "one")
        assert routes.claim(A, "two")
        assert routes.owner(A) == "two"

    def test_a_forgotten_node_owns_and_wants_nothing(self) -> None:
        routes = Routes()
        routes.claim(A, "one")
        routes.claim(B, "two")
        routes.observe("Said", "one")
        assert routes.forget("one") == (A,)
        assert routes.owner(A) is None
        assert routes.of("two") == (B,)
        assert list(routes.observers("Said")) == []

    def test_a_node_is_told_what_others_want_not_what_it_wants_itself(self) -> None:
        routes = Routes()
        routes.observe("Said", "one")
        assert routes.wanted_elsewhere("one") == set()
        assert routes.wanted_elsewhere("two") == {"Said"}
        routes.observe("Said", "two")
        assert routes.wanted_elsewhere("one") == {"Said"}
        routes.unobserve("Said", "two")
        assert routes.wanted_elsewhere("one") == set()


class TestGreeting:
    TERMS = Terms("feedc0de")

    def hello(self, *, protocol: int = PROTOCOL, schema: str = "feedc0de", name: str = "worker/1") -> Hello:
        return Hello(protocol, schema, name)

    def test_one_release_on_both_sides_is_welcome(self) -> None:
        assert self.TERMS.judge(self.hello(), None) is None

    def test_another_schema_is_refused_and_told_both_hashes(self) -> None:
        refusal = self.TERMS.judge(self.hello(schema="0badbeef"), None)
        assert refusal is not None
        assert refusal.code == "schema"
        assert "feedc0de" in refusal.text
        assert "0badbeef" in refusal.text

    def test_another_protocol_is_refused_before_its_schema_is_looked_at(self) -> None:
        refusal = self.TERMS.judge(self.hello(protocol=PROTOCOL + 1, schema="x"), None)
        assert refusal is not None
        assert refusal.code == "protocol"

    @pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 200, "-x"])
    def test_a_name_nobody_can_print_is_refused(self, name: str) -> None:
        refusal = self.TERMS.judge(self.hello(name=name), None)
        assert refusal is not None
        assert refusal.code == "name"

    def test_a_key_allows_its_own_name_only(self) -> None:
        assert self.TERMS.judge(self.hello(name="w1"), "w1") is None
        refusal = self.TERMS.judge(self.hello(name="w1"), "w2")
        assert refusal is not None
        assert refusal.code == "name"

    def test_the_contract_is_that_of_the_release_whatever_else_is_loaded(self) -> None:
        before, everything = contract.__wrapped__(), schema_hash()

        class BusUnrelated(Tell):
            number: int = 0

        assert contract.__wrapped__() == before == contract()
        assert schema_hash() != everything


class TestPulse:
    def test_a_peer_cannot_be_lost_before_its_next_beat(self) -> None:
        with pytest.raises(ValueError, match="beat"):
            Pulse(every=2, lost_after=1)

    def test_who_slept_longer_than_others_wait_was_away(self) -> None:
        watch = Watch(Pulse(1, 5), now=100)
        assert not watch.was_away(105)
        assert watch.was_away(105.1)
        watch.tick(105)
        assert not watch.was_away(110)


class TestAttempts:
    NO_ANSWER = End("nobody listens there")
    REFUSED = End("the key", NodeRefused("the key", code="key"))
    TAKEN = End("the name", NodeRefused("the name", code="name_taken"))

    def test_a_hub_that_does_not_answer_is_tried_for_ever_with_growing_pauses(self) -> None:
        attempts = Attempts(unreachable=Backoff(initial=1, longest=8))
        pauses = [attempts.after(self.NO_ANSWER, was_up=False) for _ in range(50)]
        assert all(pause is not None for pause in pauses)
        first, later = pauses[0] or 0.0, pauses[10] or 0.0
        assert first < 2
        assert 6 < later < 10

    def test_a_refusal_before_the_first_welcome_is_final(self) -> None:
        assert Attempts().after(self.REFUSED, was_up=False) is None

    def test_a_taken_name_is_waited_for(self) -> None:
        attempts = Attempts()
        assert all(attempts.after(self.TAKEN, was_up=False) is not None for _ in range(50))

    @pytest.mark.spec("F-92")
    def test_refusals_after_a_welcome_end_at_the_limit_with_few_attempts_a_minute(self) -> None:
        attempts = Attempts()
        assert attempts.after(self.NO_ANSWER, was_up=True) is not None
        pauses = [attempts.after(self.REFUSED, was_up=False) for _ in range(REFUSALS)]
        assert pauses[-1] is None
        assert sum(pause for pause in pauses if pause is not None) > 55

    def test_a_welcome_makes_up_for_earlier_refusals(self) -> None:
        attempts = Attempts(refusals=2)
        for _ in range(10):
            assert attempts.after(self.NO_ANSWER, was_up=True) is not None
            assert attempts.after(self.REFUSED, was_up=False) is not None


def test_a_peers_words_are_short_and_cannot_garble_a_log() -> None:
    assert printable("gone\n\x1b[2JWARNING all is well") == "gone??[2JWARNING all is well"
    assert len(printable("x" * 10_000)) == WORDS_MAX


class TestNotices:
    def test_a_flood_is_counted_and_logged_once_in_a_while(self, caplog: pytest.LogCaptureFixture) -> None:
        now = 0.0
        notices = Notices(lambda: now, every=10)
        with caplog.at_level(logging.WARNING):
            for _ in range(1000):
                notices.note("malformed", "a peer sent rubbish")
            now = 11.0
            notices.note("malformed", "a peer sent rubbish")
        assert [record.getMessage() for record in caplog.records] == [
            "a peer sent rubbish (1 since the last such line)",
            "a peer sent rubbish (1000 since the last such line)",
        ]
        assert notices.counts["malformed"] == 1001


class TestAuthentication:
    def request(self, **changed: bytes) -> list[bytes]:
        parts = {
            "version": b"1.0", "id": b"7", "domain": zap.DOMAIN, "address": b"10.0.0.9", "identity": b"",
            "mechanism": b"CURVE", "key": b"",
        }  # fmt: skip
        return list((parts | changed).values())

    def test_a_key_on_the_list_comes_in_under_its_name(self) -> None:
        public, _ = zmq.curve_keypair()
        answer, why = zap.judge(self.request(key=z85.decode(public)), {public: "worker"}.get)
        assert answer == [b"1.0", b"7", b"200", b"OK", b"worker", b""]
        assert why is None

    @pytest.mark.parametrize(
        "changed",
        [
            {"key": b"\1" * 32}, {"key": b"short"}, {"mechanism": b"NULL"}, {"mechanism": b"PLAIN"},
            {"domain": b"other"}, {"version": b"2.0"},
        ],
    )  # fmt: skip
    def test_everything_else_stays_outside(self, changed: dict[str, bytes]) -> None:
        public, _ = zmq.curve_keypair()
        answer, why = zap.judge(self.request(**({"key": z85.decode(public)} | changed)), {public: "worker"}.get)
        assert answer[2] == b"400"
        assert why is not None
        assert "10.0.0.9" in why

    def test_what_is_no_request_gets_no_answer(self) -> None:
        assert zap.judge([b"1.0", b"7"], lambda _key: "worker") == ([], "malformed request")
