"""Base64 as it travels: standard alphabet, padded, and nothing else accepted."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smcp_runtime.wire.base64_text import from_base64, to_base64


@given(some.binary())
def test_every_byte_string_survives_and_is_spelled_as_everybody_spells_it(data: bytes) -> None:
    assert to_base64(data) == base64.b64encode(data).decode()
    assert from_base64(to_base64(data)) == data


@pytest.mark.spec("C-UP-5", "C-BLOB-11", "C-BLOB-24")
@pytest.mark.parametrize(
    "text", ["QQ", "QQ=", "Q Q=", "QQ==\n", "QQ==QQ==", "=QQQ", "Q=Q=", "====", "QQ-_", "QUJD=", "é===", "QQ=\x00"]
)
def test_whatever_is_not_strict_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_base64(text)
