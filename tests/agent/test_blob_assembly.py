"""Putting chunks together: every way a peer can lie ends in an error, never in wrong bytes."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.agent.blob_assembly import Assembly, BlobChanged, BlobUnavailable
from smcp_runtime.wire.blobs import GetBlobRet
from smcp_runtime.wire.errors import MalformedReplyError

DATA = bytes(range(100))


def chunk(start: int, end: int, data: bytes = DATA, **fields: Any) -> GetBlobRet:
    answer = {
        "blob_handle": "h",
        "mime_type": "m",
        "total_size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "chunk_offset": start,
        "eof": end == len(data),
        "blob": base64.b64encode(data[start:end]).decode(),
        "req_id": "r",
    }
    return GetBlobRet(**(answer | fields))


@pytest.mark.spec("C-BLOB-37")
def test_chunks_in_order_make_the_whole() -> None:
    assembly = Assembly("h")
    for start, end in ((0, 40), (40, 80), (80, 100)):
        assembly.add(assembly.check(start, chunk(start, end)))
    facts = assembly.finish()
    assert (facts.total_size, facts.mime_type) == (100, "m")


@pytest.mark.spec("C-BLOB-12")
def test_an_empty_blob_is_one_empty_final_chunk() -> None:
    assembly = Assembly("h")
    assembly.add(assembly.check(0, chunk(0, 0, b"")))
    assert assembly.finish().total_size == 0


@pytest.mark.spec("C-BLOB-37", "C-SEC-27")
@pytest.mark.parametrize(
    "lie",
    [
        {"blob": "", "eof": False},
        {"blob": "no base64"},
        {"blob": "AAAA\nAAAA"},
        {"chunk_offset": 41},
        {"blob_handle": "another"},
        {"eof": True},
        {"blob": base64.b64encode(bytes(61)).decode()},
    ],
)
def test_a_chunk_that_cannot_belong_there_is_malformed(lie: dict[str, Any]) -> None:
    assembly = Assembly("h")
    assembly.check(0, chunk(0, 40))
    with pytest.raises(MalformedReplyError):
        assembly.check(40, chunk(40, 80, **lie))


@pytest.mark.spec("C-BLOB-37", "C-SEC-27")
def test_an_end_that_is_not_announced_is_malformed() -> None:
    with pytest.raises(MalformedReplyError):
        Assembly("h").check(0, chunk(0, 100, eof=False))


@pytest.mark.spec("W-BLOB-3", "C-SEC-27")
@pytest.mark.parametrize("change", [{"total_size": 101}, {"sha256": "0" * 64}])
def test_another_size_or_hash_means_the_source_changed(change: dict[str, Any]) -> None:
    assembly = Assembly("h")
    assembly.check(0, chunk(0, 40))
    with pytest.raises(BlobChanged):
        assembly.check(40, chunk(40, 80, **change))


@pytest.mark.spec("W-BLOB-3", "C-BLOB-37")
def test_bytes_that_do_not_match_their_hash_are_not_delivered() -> None:
    assembly = Assembly("h")
    assembly.add(assembly.check(0, chunk(0, 100, sha256="0" * 64)))
    with pytest.raises(BlobChanged):
        assembly.finish()


@pytest.mark.spec("C-BLOB-37")
def test_a_blob_above_the_limit_is_refused_at_its_first_chunk() -> None:
    with pytest.raises(BlobUnavailable) as refused:
        Assembly("h", limit=99).check(0, chunk(0, 40))
    assert refused.value.code == "blob_too_large"


@pytest.mark.spec("C-BLOB-39")
@pytest.mark.parametrize("promise", [{"size": 99}, {"sha256": "0" * 64}])
def test_a_blob_that_is_not_what_its_producer_promised_counts_as_changed(promise: dict[str, Any]) -> None:
    with pytest.raises(BlobChanged):
        Assembly("h", **promise).check(0, chunk(0, 40))


def test_hashes_are_compared_without_regard_to_case() -> None:
    assembly = Assembly("h", sha256=hashlib.sha256(DATA).hexdigest().upper())
    assembly.add(assembly.check(0, chunk(0, 100, sha256=hashlib.sha256(DATA).hexdigest().upper())))
    assembly.finish()


@given(
    data=st.binary(max_size=200),
    start=st.integers(0, 205),
    total=st.integers(-5, 210),
    said=st.integers(-5, 210),
    eof=st.booleans(),
)
def test_whatever_a_peer_says_accepted_bytes_lie_within_the_stated_size(
    data: bytes, start: int, total: int, said: int, eof: bool
) -> None:
    lie = {"total_size": total, "chunk_offset": said, "eof": eof, "blob": base64.b64encode(data).decode()}
    try:
        accepted = Assembly("h").check(start, chunk(0, 0, **lie))
    except (MalformedReplyError, BlobUnavailable):
        return
    assert said == start
    assert start + len(accepted) <= total
    assert eof == (start + len(accepted) == total)
    assert accepted or eof
