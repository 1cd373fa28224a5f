"""Packets as python-socketio uses them in the Server (server/packets.py)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
import socketio

from smcp_runtime.server.packets import RawPacket
from smcp_runtime.wire import packet
from smcp_runtime.wire.packet import MalformedPacket


class Point(msgspec.Struct):
    x: int
    label: str | None = None


def decoded(text: str) -> RawPacket:
    return RawPacket(encoded_packet=text)


@pytest.mark.spec("W-GEN-2")
def test_raw_arguments_keep_unknown_fields_key_order_and_spacing() -> None:
    payload = '{"z":1, "a" : [1.0, 1e3], "unknown":{"\\u00e9":"é"}}'
    event = decoded(f'2/smcp,1["client:x",{payload}]')
    assert event.data[0] == "client:x"
    assert bytes(event.data[1]) == payload.encode()
    assert RawPacket(packet.EVENT, namespace="/smcp", id=9, data=event.data).encode() == (
        f'2/smcp,9["client:x",{payload}]'
    )


def test_the_connect_packet_is_always_a_plain_value() -> None:
    connect = decoded('0/smcp,{"sid":"abc"}')
    assert (connect.packet_type, connect.namespace, connect.data) == (packet.CONNECT, "/smcp", {"sid": "abc"})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "3/smcp,4"),
        ([], "3/smcp,4[]"),
        ([True, None], "3/smcp,4[true,null]"),
        ([{"a": 1}], '3/smcp,4[{"a":1}]'),
        ([msgspec.Raw(b'{"a": 1.0}')], '3/smcp,4[{"a": 1.0}]'),
        ([Point(1, "é")], '3/smcp,4[{"x":1,"label":"é"}]'),
    ],
)
def test_acknowledgements_encode_plain_values_structs_and_raw_json(data: Any, text: str) -> None:
    assert RawPacket(packet.ACK, namespace="/smcp", id=4, data=data).encode() == text


@pytest.mark.parametrize("value", [b"{}", bytearray(b"{}"), memoryview(b"{}")])
def test_bare_bytes_are_refused_because_msgspec_would_send_base64(value: Any) -> None:
    with pytest.raises(TypeError):
        RawPacket(packet.ACK, namespace="/smcp", id=4, data=[value]).encode()


@pytest.mark.spec("W-GEN-1")
def test_a_binary_event_loses_its_payload_and_waits_for_no_attachment() -> None:
    event = decoded('51-/smcp,7["client:x",{"_placeholder":true,"num":0}]')
    assert (event.packet_type, event.id, event.data, event.attachment_count) == (packet.EVENT, 7, ["client:x"], 0)


@pytest.mark.spec("W-GEN-1")
def test_a_binary_acknowledgement_has_no_values() -> None:
    ack = decoded('61-/smcp,7[{"_placeholder":true,"num":0}]')
    assert (ack.packet_type, ack.id, ack.data) == (packet.ACK, 7, [])


@pytest.mark.parametrize(
    "text",
    [
        "2/smcp,1[]",
        "2/smcp,1[5]",
        "2/smcp,1{}",
        "2/smcp,1",
        '2/smcp,1["a",{]',
        '2/smcp,1["a",NaN]',
        "3/smcp,1[",
        "3/smcp,1" + "[" * 100_000,
        "0/smcp,{",
    ],
)
def test_broken_json_and_shapes_are_refused_without_quoting_them(text: str) -> None:
    with pytest.raises(MalformedPacket) as caught:
        decoded(text)
    assert text not in str(caught.value)


def test_a_binary_frame_is_refused() -> None:
    with pytest.raises(MalformedPacket):
        RawPacket(encoded_packet=b"\x00\x01")


def test_two_stacks_in_one_process_do_not_share_the_json_module() -> None:
    socketio.AsyncServer(async_mode="asgi", serializer=RawPacket, logger=QUIET, engineio_logger=QUIET)
    assert socketio.packet.Packet.json is not RawPacket.json
    assert socketio.packet.Packet(data=["a"]).encode() == '2["a"]'


QUIET = logging.getLogger("tests.quiet")
