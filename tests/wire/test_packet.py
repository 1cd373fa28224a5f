"""Socket.IO packets on msgspec JSON (wire/packet.py)."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
import socketio

from smcp_runtime.wire import packet
from smcp_runtime.wire.packet import JsonPacket, MalformedPacket, RawPacket


class Point(msgspec.Struct):
    x: int
    label: str | None = None


def decoded(cls: type[JsonPacket], text: str) -> JsonPacket:
    return cls(encoded_packet=text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('2["a"]', (2, "/", None, '["a"]', False)),
        ('2/smcp,["a",{}]', (2, "/smcp", None, '["a",{}]', False)),
        ('2/smcp,12["a"]', (2, "/smcp", 12, '["a"]', False)),
        ('3/smcp,0[{"a":"[1,2]"}]', (3, "/smcp", 0, '[{"a":"[1,2]"}]', False)),
        ("0/smcp,", (0, "/smcp", None, "", False)),
        ("0/smcp", (0, "/smcp", None, "", False)),
        ('0/smcp?token=x,{"a":1}', (0, "/smcp", None, '{"a":1}', False)),
        ('52-/smcp,7["a",{"_placeholder":true,"num":0}]', (2, "/smcp", 7, '["a",{"_placeholder":true,"num":0}]', True)),
        ("61-/smcp,7[]", (3, "/smcp", 7, "[]", True)),
    ],
)
def test_a_packet_is_cut_where_socketio_cuts_it(text: str, parts: tuple[Any, ...]) -> None:
    assert tuple(packet.split(text)) == parts


@pytest.mark.parametrize("text", ["", "7", "x", "²", "5[]", "5x-[]", "599999999999-[]", "2" + "1" * 101 + '["a"]'])
def test_what_is_no_packet_is_refused(text: str) -> None:
    with pytest.raises(MalformedPacket):
        packet.split(text)


@pytest.mark.spec("W-GEN-2")
def test_raw_arguments_keep_unknown_fields_key_order_and_spacing() -> None:
    payload = '{"z":1, "a" : [1.0, 1e3], "unknown":{"\\u00e9":"é"}}'
    event = decoded(RawPacket, f'2/smcp,1["client:x",{payload}]')
    assert event.data[0] == "client:x"
    assert bytes(event.data[1]) == payload.encode()
    assert RawPacket(packet.EVENT, namespace="/smcp", id=9, data=event.data).encode() == (
        f'2/smcp,9["client:x",{payload}]'
    )


def test_json_packets_read_payloads_into_plain_values() -> None:
    event = decoded(JsonPacket, '2/smcp,1["client:x",{"a":[1,2.5,null]}]')
    assert event.data == ["client:x", {"a": [1, 2.5, None]}]


@pytest.mark.parametrize("cls", [JsonPacket, RawPacket])
def test_the_connect_packet_is_always_a_plain_value(cls: type[JsonPacket]) -> None:
    connect = decoded(cls, '0/smcp,{"sid":"abc"}')
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
    assert JsonPacket(packet.ACK, namespace="/smcp", id=4, data=data).encode() == text


@pytest.mark.parametrize("value", [b"{}", bytearray(b"{}"), memoryview(b"{}")])
def test_bare_bytes_are_refused_because_msgspec_would_send_base64(value: Any) -> None:
    with pytest.raises(TypeError):
        JsonPacket(packet.ACK, namespace="/smcp", id=4, data=[value]).encode()


@pytest.mark.spec("W-GEN-1")
@pytest.mark.parametrize("cls", [JsonPacket, RawPacket])
def test_a_binary_event_loses_its_payload_and_waits_for_no_attachment(cls: type[JsonPacket]) -> None:
    event = decoded(cls, '51-/smcp,7["client:x",{"_placeholder":true,"num":0}]')
    assert (event.packet_type, event.id, event.data, event.attachment_count) == (packet.EVENT, 7, ["client:x"], 0)


@pytest.mark.spec("W-GEN-1")
def test_a_binary_acknowledgement_has_no_values() -> None:
    ack = decoded(RawPacket, '61-/smcp,7[{"_placeholder":true,"num":0}]')
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
@pytest.mark.parametrize("cls", [JsonPacket, RawPacket])
def test_broken_json_and_shapes_are_refused_without_quoting_them(cls: type[JsonPacket], text: str) -> None:
    with pytest.raises(MalformedPacket) as caught:
        decoded(cls, text)
    assert text not in str(caught.value)


def test_a_binary_frame_is_refused() -> None:
    with pytest.raises(MalformedPacket):
        JsonPacket(encoded_packet=b"\x00\x01")


def test_an_escaped_lone_surrogate_from_a_python_peer_still_passes() -> None:
    text = json.dumps([{"text": "\ud800"}])
    [value] = packet.split_arguments(text)
    assert json.loads(bytes(value)) == {"text": "\ud800"}
    assert packet.loads(text) == [{"text": "\ud800"}]


def test_two_stacks_in_one_process_do_not_share_the_json_module() -> None:
    socketio.AsyncServer(async_mode="asgi", serializer=RawPacket, logger=QUIET, engineio_logger=QUIET)
    assert socketio.packet.Packet.json is not RawPacket.json
    assert socketio.packet.Packet(data=["a"]).encode() == '2["a"]'


QUIET = logging.getLogger("tests.quiet")
