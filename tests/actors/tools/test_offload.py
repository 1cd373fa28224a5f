"""Large tool results: what leaves, in which order, and what an Agent can put back (C-BLOB-19…29)."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.tools.offload import OffloadLimits, offload
from smcp_runtime.agent.tool_blobs import handles, put_back
from smcp_runtime.agent.tool_result import CallToolResult
from smcp_runtime.wire.errors import StartupError
from smcp_runtime.wire.messages.blobs import BlobTicket
from smcp_runtime.wire.results import seal

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

LIMITS = OffloadLimits(inline=100, cap=5_000, kept_text=64)
BUDGET = 2_000


class Spool:
    """Keeps what it is given; refuses when it is full."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.kept: dict[str, tuple[bytes, str]] = {}

    async def __call__(self, data: bytes, mime_type: str) -> BlobTicket:
        if self.full:
            raise StartupError("the spool has no room", code="spool_full")
        digest = hashlib.sha256(data).hexdigest()
        handle = f"b1.{digest[:12]}"
        self.kept[handle] = (data, mime_type)
        return BlobTicket(handle, len(data), digest)

    def fetch(self, meta: dict[str, Any]) -> bytes:
        """What an Agent gets for the keys of an item, after its checks."""
        data, _ = self.kept[meta["a2c_blob_handle"]]
        assert meta["a2c_total_size"] == len(data)
        assert meta["a2c_sha256"] == hashlib.sha256(data).hexdigest()
        return data


def image(data: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode(), **more}


def text(length: int) -> dict[str, Any]:
    return {"type": "text", "text": "é" * length}


async def run(
    *content: Any, spool: Spool | None = None, budget: int = BUDGET, limits: OffloadLimits = LIMITS, **members: Any
) -> dict[str, Any]:
    sealed = seal(json.dumps({"content": list(content), **members}).encode())
    result = await offload(sealed, budget, limits, spool or Spool())
    assert len(result) <= budget or len(sealed) <= budget
    answer: dict[str, Any] = json.loads(result)
    return answer


@spec("C-BLOB-22", "W-CALL-24", "C-BLOB-19")
@pytest.mark.parametrize(("size", "moved"), [(99, False), (100, False), (101, True)])
async def test_each_binary_is_judged_alone_by_its_decoded_size(size: int, *, moved: bool) -> None:
    spool = Spool()
    item = image(b"x" * size)
    result = await run(item, image(b"small"), isError=True, spool=spool)
    assert (result["content"][0] != item) is moved
    assert result["content"][1] == image(b"small")
    assert result["isError"] is True
    assert len(spool.kept) == moved


@spec("C-BLOB-23", "C-BLOB-21", "W-CALL-24", "C-BLOB-18")
@pytest.mark.parametrize(
    ("item", "carrier"),
    [
        (image(b"x" * 200, _meta={"own": 1}, annotations={"priority": 1}), ("data",)),
        ({**image(b"x" * 200), "type": "audio", "mimeType": "é"}, ("data",)),
        (
            {"type": "resource", "resource": {"uri": "u", "blob": base64.b64encode(b"x" * 200).decode()}},
            ("resource", "blob"),
        ),
    ],
)
async def test_the_payload_leaves_and_everything_else_stays(item: dict[str, Any], carrier: tuple[str, ...]) -> None:
    spool = Spool()
    (moved,) = (await run(item, spool=spool))["content"]
    assert spool.fetch(moved["_meta"]) == b"x" * 200
    holder = moved["resource"] if len(carrier) == 2 else moved
    assert holder.pop(carrier[-1]) == ""
    original = json.loads(json.dumps(item))
    (original["resource"] if len(carrier) == 2 else original).pop(carrier[-1])
    own = {key: value for key, value in moved.pop("_meta").items() if not key.startswith("a2c_")}
    assert own == original.pop("_meta", {})
    assert moved == original


@spec("C-BLOB-20", "C-SEC-24")
async def test_a_server_cannot_plant_keys_of_the_computer() -> None:
    planted = {"a2c_blob_handle": "b1.stolen", "a2c_structured": True, "own": 1}
    result = await run(
        image(b"x", _meta=planted),
        {"type": "resource", "resource": {"uri": "u", "text": "t", "_meta": planted}},
        _meta=planted,
    )
    assert "a2c_" not in json.dumps(result)
    assert result["meta"] == {"own": 1}


@spec("C-BLOB-24")
async def test_invalid_base64_passes_when_short_and_is_refused_when_long() -> None:
    short = {"type": "image", "mimeType": "image/png", "data": "*" * 100}
    long = {"type": "image", "mimeType": "image/png", "data": "*" * 1_000}
    result = await run(short, long, limits=LIMITS)
    assert result["content"][0] == short
    assert result["content"][1]["type"] == "text"
    assert (result["isError"], result["meta"]["error_code"]) == (True, 4003)


@spec("C-BLOB-25", "W-CALL-25")
async def test_a_binary_above_the_cap_becomes_a_text_that_names_kind_size_and_limit() -> None:
    spool = Spool()
    result = await run(image(b"x" * 5_001), text(1), spool=spool)
    assert result["content"][0]["type"] == "text"
    for word in ("image", "5001", "5000"):
        assert word in result["content"][0]["text"]
    assert result["content"][1] == text(1)
    assert (result["isError"], result["meta"], spool.kept) == (True, {"error_code": 4003}, {})


@spec("C-BLOB-25", "C-BLOB-29")
async def test_with_a_full_spool_what_fits_stays_and_what_does_not_is_refused() -> None:
    item = image(b"x" * 200)
    assert (await run(item, spool=Spool(full=True)))["content"] == [item]
    result = await run(item, image(b"y" * 3_000), spool=Spool(full=True))
    assert (result["isError"], result["meta"]["error_code"]) == (True, 4003)


@spec("C-BLOB-26")
async def test_then_the_largest_small_binaries_leave_until_the_rest_fits() -> None:
    spool = Spool()
    limits = OffloadLimits(inline=1_000)
    result = await run(
        *(image(bytes([n]) * (500 + 3 * n)) for n in range(20)), spool=spool, budget=8_000, limits=limits
    )
    moved = [n for n, item in enumerate(result["content"]) if item["data"] == ""]
    assert 0 < len(moved) < 20
    assert moved == list(range(20 - len(moved), 20))
    for n in moved:
        assert spool.fetch(result["content"][n]["_meta"]) == bytes([n]) * (500 + 3 * n)


@spec("C-BLOB-27", "C-SEC-3", "F-40")
async def test_then_long_texts_are_shortened_with_the_whole_behind_a_handle() -> None:
    spool = Spool()
    embedded = {"type": "resource", "resource": {"uri": "u", "text": "z" * 3_000}}
    result = await run(text(5), text(2_000), embedded, spool=spool, isError=False)
    short, cut, cut_too, whole_one, whole_two = result["content"]
    assert short == text(5)
    assert cut["text"] == "é" * 32
    assert cut_too["resource"]["text"] == "z" * 64
    assert [item["_meta"] for item in (cut, cut_too)] == [
        {"a2c_truncated": True, "a2c_sha256": hashlib.sha256(whole).hexdigest()}
        for whole in (("é" * 2_000).encode(), b"z" * 3_000)
    ]
    wholes = {spool.fetch(item["_meta"]) for item in (whole_one, whole_two)}
    assert wholes == {("é" * 2_000).encode(), b"z" * 3_000}
    for item in (whole_one, whole_two):
        digest = item["_meta"]["a2c_sha256"]
        expected = {"uri": f"a2c-text:///{digest}", "mimeType": "text/plain; charset=utf-8", "blob": ""}
        assert (item["type"], item["resource"]) == ("resource", expected)
    assert result["isError"] is False


@spec("C-BLOB-27", "C-BLOB-39")
@pytest.mark.parametrize("lost", [None, "a", "b", "c"])
async def test_texts_that_begin_alike_come_back_to_the_items_they_left(lost: str | None) -> None:
    spool = Spool()
    texts = ["log line\n" * 50 + end for end in ("a" * 900, "b" * 950, "c" * 920)]
    items = [{"type": "text", "text": one} for one in texts]
    result = CallToolResult.read(await run(*items, spool=spool, budget=2_400))
    assert len(result.content) == 6, "each text is shortened"
    wholes = {handle.index: spool.fetch(result.content[handle.index]["_meta"]) for handle in handles(result)}
    fetched = {index: data for index, data in wholes.items() if data.decode()[-1] != lost}
    answer = put_back(result, fetched).content
    for position, item in enumerate(items):
        assert answer[position] == (result.content[position] if item["text"][-1] == lost else item)
    assert len(answer) == (3 if lost is None else 4)


@spec("C-BLOB-28", "W-CALL-21", "DEC-33")
async def test_then_the_transformed_copy_goes_before_the_structure_moves_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    spool = Spool()
    structure = {"rows": ["r" * 10] * 50}
    slim = await run(text(1), structuredContent=structure, spool=spool, budget=900)
    assert slim["structuredContent"] == structure
    sealed = json.dumps(
        {"content": [], "isError": False, "meta": {"a2c_vrl_transformed": "v" * 900, "own": 1}}
    ).encode()
    assert json.loads(await offload(sealed, 600, LIMITS, spool))["meta"] == {"own": 1}
    assert spool.kept == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    large = {"rows": ["r" * 10] * 500}
    result = await run(text(1), structuredContent=large, spool=spool)
    assert "structuredContent" not in result
    carrier = result["content"][1]
    digest = carrier["_meta"]["a2c_sha256"]
    assert carrier["resource"] == {"uri": f"a2c-structured:///{digest}", "mimeType": "application/json", "blob": ""}
    assert carrier["_meta"]["a2c_structured"] is True
    assert json.loads(spool.fetch(carrier["_meta"])) == large


@spec("C-BLOB-29", "C-11", "W-CALL-21", "DEC-18")
async def test_what_still_does_not_fit_becomes_an_error_that_names_both_sizes() -> None:
    result = await run(*(text(30) for _ in range(100)))
    assert result["meta"] == {"error_code": 4003, "a2c_result_too_large": True}
    assert result["isError"] is True
    assert str(BUDGET) in result["content"][0]["text"]
    assert (await run(text(5_000), spool=Spool(full=True)))["meta"]["a2c_result_too_large"] is True


@spec("C-BLOB-29")
async def test_a_result_of_very_many_items_is_judged_in_a_moment() -> None:
    begun = time.process_time()
    result = await run(*[text(1)] * 50_000)
    assert result["meta"]["a2c_result_too_large"] is True
    assert time.process_time() - begun < 5.0


@spec("C-BLOB-22")
async def test_a_result_that_needs_nothing_is_the_same_bytes() -> None:
    sealed = seal(b'{"content":[{"type":"text","text":"x","n":1.50}],"structuredContent":{"b": 1}}')
    assert await offload(sealed, BUDGET, LIMITS, Spool()) is sealed
    long = seal(json.dumps({"content": [{"type": "text", "text": "x" * 500}]}).encode())
    assert await offload(long, BUDGET, LIMITS, Spool()) is long


@spec("C-BLOB-22", "C-GEN-7")
async def test_spaces_that_a_server_wrote_count_too() -> None:
    spaced = seal(b'{"content":[{"type" : "text" , "text" : "x"}' + b" " * 300 + b"]}")
    result = await offload(spaced, 200, LIMITS, Spool())
    assert len(result) <= 200
    assert json.loads(result)["content"] == [{"type": "text", "text": "x"}]


items = st.one_of(
    st.builds(lambda n: image(b"x" * n), st.integers(0, 6_000)),
    st.builds(text, st.integers(0, 3_000)),
    st.builds(lambda n: {"type": "image", "data": "*" * n}, st.integers(0, 500)),
    st.builds(lambda n: {"type": "resource", "resource": {"uri": "u", "blob": "A" * n}}, st.integers(0, 2_000)),
    st.sampled_from([{}, None, 5, "text", {"type": "image", "data": 5}, {"type": "resource", "resource": None}]),
)


@given(st.lists(items, max_size=6), st.booleans(), st.integers(400, 5_000))
async def test_whatever_a_server_sends_the_answer_fits_and_no_byte_is_lost_in_silence(
    content: list[Any], full: bool, budget: int
) -> None:
    spool = Spool(full=full)
    sealed = seal(json.dumps({"content": content}).encode())
    result = await offload(sealed, budget, LIMITS, spool)
    assert len(result) <= budget
    answer = json.loads(result)
    for item in answer["content"]:
        meta = item.get("_meta", {}) if isinstance(item, dict) else {}
        if "a2c_blob_handle" in meta:
            spool.fetch(meta)
