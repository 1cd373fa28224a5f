"""Frames: what is packed is unpacked alike, and everything else is malformed."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.bus.zeromq import frames
from smcp_runtime.bus.zeromq.frames import Malformed, encode_header, unpack
from smcp_runtime.wire.envelope import Address, Envelope

text = st.text(max_size=20)
number = st.integers(-(2**63), 2**63 - 1)
texts = st.lists(text, max_size=4).map(tuple)
blobs = st.lists(st.binary(max_size=50), max_size=4).map(tuple)
HEADERS = st.one_of(
    st.builds(frames.Carry, number, st.booleans(), text, text, text, st.floats(0, 1e9), st.booleans(), texts, text),
    *(st.builds(kind, number) for kind in (frames.Replied, frames.Failed, frames.Accepted, frames.Cancel)),
    st.builds(frames.Dropped, number, st.sampled_from([None, "waiting", "queued", "running"])),
    st.builds(frames.Published, text, text, text, text),
    st.builds(frames.Taken, number),
    st.just(frames.Beat()),
    *(st.builds(kind, texts) for kind in (frames.Announce, frames.Observe, frames.Unobserve)),
    st.builds(frames.Withdraw, texts, st.none() | text),
    st.builds(frames.Hello, number, text, text, texts, texts),
    st.builds(frames.Welcome, text, texts, texts, st.floats(0.1, 10), st.floats(0.1, 10)),
    st.builds(frames.Refused, text, text),
    st.builds(frames.Bye, text),
)


@given(HEADERS, st.binary(max_size=100), blobs)
def test_every_header_comes_back_as_it_was_with_body_and_attachments(
    header: frames.Header, body: bytes, attachments: tuple[bytes, ...]
) -> None:
    assert unpack([encode_header(header), body, *attachments]) == (header, body, attachments)


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_frames_are_malformed_or_a_header_but_never_anything_else(message: list[bytes]) -> None:
    try:
        header, _, _ = unpack(message)
    except Malformed:
        return
    assert isinstance(header, frames.Frame)


@given(HEADERS, st.data())
def test_a_header_cut_short_is_malformed(header: frames.Header, data: st.DataObject) -> None:
    packed = encode_header(header)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(Malformed):
        unpack([packed[:cut]])


@pytest.mark.parametrize("message", [[], [b""], [b"\xc1"], [b"\x91\x63"], [b"x"] * (frames.FRAMES_MAX + 1)])
def test_what_is_no_message_is_malformed(message: list[bytes]) -> None:
    with pytest.raises(Malformed):
        unpack(message)


def test_deeply_nested_bytes_are_malformed_and_do_not_exhaust_the_stack() -> None:
    with pytest.raises(Malformed):
        unpack([b"\x99\x01" + b"\x91" * 100_000])


def test_a_header_of_a_later_release_with_one_more_field_is_understood() -> None:
    assert unpack([msgspec.msgpack.encode([6, 17, "new"])])[0] == frames.Cancel(17)


@given(st.floats(-100, 1e6) | st.just(math.inf))
def test_a_deadline_crosses_as_the_seconds_that_remain(left: float) -> None:
    envelope = Envelope("ask", "Find", Address("a"), id=7, deadline=5000.0 + left, body=b"body", attachments=(b"x",))
    message = frames.carry(envelope, 7, now=5000.0)
    header, body, attachments = unpack(message)
    assert isinstance(header, frames.Carry)
    assert header.left == pytest.approx(max(0.0, left))
    assert (body, attachments) == (b"body", (b"x",))
    # On a clock that runs elsewhere.
    assert frames.deadline(header, 20.0) == pytest.approx(20.0 + max(0.0, left))


@pytest.mark.parametrize("left", [math.nan, -math.inf, -1.0])
def test_seconds_that_make_no_sense_mean_no_time(left: float) -> None:
    header = frames.Carry(1, False, "Find", "a", "", left, False)
    assert frames.deadline(header, 20.0) == 20.0


def test_bodies_and_attachments_are_the_same_objects_in_the_message() -> None:
    body, attachment = b"b" * 1000, b"a" * 1000
    message = frames.carry(Envelope("ask", "Find", Address("a"), body=body, attachments=(attachment,)), 1, 0.0)
    assert message[1] is body
    assert message[2] is attachment


def test_a_frame_too_large_for_a_peer_does_not_fit() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return frames.FRAME_MAX + 1

    assert frames.fits(b"", ())
    assert not frames.fits(Huge(), ())
    assert not frames.fits(b"", (Huge(),))
    assert not frames.fits(b"", (b"",) * frames.FRAMES_MAX)
