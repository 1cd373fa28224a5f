"""JSON as peers in Python write it."""

from __future__ import annotations

import math

import pytest

from smcp_runtime.wire.lenient_json import read_leniently


@pytest.mark.spec("DEC-6")
def test_what_python_writes_is_read_and_half_a_pair_is_replaced() -> None:
    assert read_leniently(b'\xef\xbb\xbf{"a\\udCe9":["\\uD83D\\uDE00","\\ud83d"]}') == {
        "a\N{REPLACEMENT CHARACTER}": ["\N{GRINNING FACE}", "\N{REPLACEMENT CHARACTER}"]
    }
    assert math.isnan(read_leniently(b'["\\udc00", NaN]')[1])


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read_leniently(text)
