"""What the acknowledgement of an answered call keeps byte for byte."""

from __future__ import annotations

import json

import pytest

from smcp_runtime.actors.tools.calls import Call
from smcp_runtime.actors.tools.exposure import Route
from smcp_runtime.actors.tools.outcome import answer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.mcp import ToolOutcome

spec = pytest.mark.spec
ROUTE = Route("b__x", "b", "b (display)", "x")


def sealed(text: str) -> bytes:
    return answer(ToolOutcome("answered", Attachment(text.encode())), ROUTE, Call("r", 5.0, 0.0))


@spec("W-CALL-18", "W-GEN-2")
def test_content_structure_and_unknown_members_stay_as_the_server_wrote_them() -> None:
    text = '{"content":[{"type":"text","text":"\\t x","n":1.50}],"structuredContent":{"b": 1,"a":2},"strange":[ 1 ]}'
    result = sealed(text)
    for part in ('[{"type":"text","text":"\\t x","n":1.50}]', '{"b": 1,"a":2}', "[ 1 ]"):
        assert part.encode() in result


@spec("W-CALL-19")
def test_a_result_without_configuration_has_no_metadata_at_all() -> None:
    assert set(json.loads(sealed('{"content":[]}'))) == {"content", "isError"}
