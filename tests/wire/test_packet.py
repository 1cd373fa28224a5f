"""Socket.IO packets as text (wire/packet.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.wire import packet
from smcp_runtime.wire.packet import MalformedPacket


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


def test_an_escaped_lone_surrogate_from_a_python_peer_still_passes() -> None:
    text = json.dumps([{"text": "\ud800"}])
    [value] = packet.split_arguments(text)
    assert json.loads(bytes(value)) == {"text": "\ud800"}
    assert packet.loads(text) == [{"text": "\ud800"}]
