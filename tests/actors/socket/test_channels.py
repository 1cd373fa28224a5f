"""Answers of desktop, skills, blobs and documents, between a real Socket.IO server and stand-ins for the owners."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, handler
from smcp_runtime.actors.socket import office
from smcp_runtime.wire import payload
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.blobs import (
    BlobChunk,
    ChangeOffice,
    EndUploads,
    GetBlobChunk,
    PutAnswer,
    ReceiveChunk,
)
from smcp_runtime.wire.messages.channels import SliceChanged
from smcp_runtime.wire.messages.desktop import Desktop, GetDesktop
from smcp_runtime.wire.messages.finder import DocumentPage, ListDocuments, OpenDocument, ResolvedDocument
from smcp_runtime.wire.messages.skills import GetSkillFile, ListSkills, SkillFile, SkillList
from smcp_runtime.wire.messages.socket import GetLinkStatus, Leave

from .conftest import SOCKET, Stage, stage

pytestmark = pytest.mark.anyio

BASE = {"agent": "a", "req_id": "q1", "computer": "desk"}
BLOBS = Address("blobs")


class Owners:
    """What the stand-ins were asked, in order; `refusal` is raised instead of answering, `hang` never answers."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refusal: payload.ErrorPayload | None = None
        self.hang = False

    async def hear(self, message: Any) -> None:
        self.asked.append(message)
        if self.hang:
            await anyio.sleep_forever()
        if self.refusal is not None:
            raise self.refusal.to_error()

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.asked if isinstance(message, kind)]

    def actors(self) -> dict[str, Callable[[], Actor]]:
        return {
            "desktop": lambda: DesktopOwner(self),
            "skills": lambda: SkillOwner(self),
            "blobs": lambda: BlobOwner(self),
            "finder": lambda: FinderOwner(self),
        }


class DesktopOwner(Actor):
    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    @handler(concurrent=8)
    async def get(self, message: GetDesktop) -> Desktop:
        await self._owners.hear(message)
        return Desktop(Attachment(b'["window://a"]'))


class SkillOwner(Actor):
    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    @handler(concurrent=8)
    async def list_skills(self, message: ListSkills) -> SkillList:
        await self._owners.hear(message)
        return SkillList(Attachment(b'[{"name":"s"}]'))

    @handler(concurrent=8)
    async def file(self, message: GetSkillFile) -> SkillFile:
        await self._owners.hear(message)
        return SkillFile(Attachment(b'{"name":"s","rel_path":"SKILL.md","body":"x"}'))


class BlobOwner(Actor):
    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    @handler(concurrent=8)
    async def get(self, message: GetBlobChunk) -> BlobChunk:
        await self._owners.hear(message)
        return BlobChunk(Attachment(b"\x00\xff!"), "image/png", 3, "ab" * 32, 0, True)

    @handler(concurrent=8)
    async def put(self, message: ReceiveChunk) -> PutAnswer:
        await self._owners.hear(message)
        return PutAnswer(Attachment(b'{"upload_id":"u","chunk_offset":0}'))

    @handler
    async def change(self, message: ChangeOffice) -> None:
        await self._owners.hear(message)

    @handler
    async def end(self, message: EndUploads) -> None:
        self._owners.asked.append(message)


class FinderOwner(Actor):
    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    @handler(concurrent=8)
    async def find(self, message: ListDocuments) -> DocumentPage:
        await self._owners.hear(message)
        return DocumentPage(Attachment(b'[{"doc_ref":"d"}]'), 7)

    @handler(concurrent=8)
    async def open(self, message: OpenDocument) -> ResolvedDocument:
        await self._owners.hear(message)
        return ResolvedDocument("https://x/d", "text/plain", 5)


@pytest.fixture
def owners() -> Owners:
    return Owners()


@pytest.fixture
async def desk(owners: Owners) -> AsyncIterator[Stage]:
    async with stage(beside=owners.actors()) as made:
        await made.join()
        yield made


@pytest.mark.spec(
    "W-CMP-2", "E-4", "E-6", "E-7", "E-8", "E-9", "E-30", "E-33", "W-EVT-1", "C-GEN-1", "C-GEN-6", "W-ARCH-5"
)
@pytest.mark.parametrize(
    ("event", "request_fields", "answer", "asked"),
    [
        (
            "client:get_desktop",
            {"desktop_size": 3, "window": "window://a"},
            {"desktops": ["window://a"]},
            GetDesktop(3, "window://a"),
        ),
        ("client:get_desktop", {"desktop_size": None, "window": None}, {"desktops": ["window://a"]}, GetDesktop()),
        ("client:get_skills", {}, {"skills": [{"name": "s"}]}, ListSkills()),
        (
            "client:get_skill",
            {"name": "s", "rel_path": "a/b"},
            {"name": "s", "rel_path": "SKILL.md", "body": "x"},
            GetSkillFile("s", "a/b"),
        ),
        (
            "client:get_blob",
            {"blob_handle": "h", "chunk_offset": 2, "max_chunk_bytes": 9},
            {
                "blob_handle": "h",
                "mime_type": "image/png",
                "total_size": 3,
                "sha256": "ab" * 32,
                "chunk_offset": 0,
                "eof": True,
                "blob": base64.b64encode(b"\x00\xff!").decode(),
            },
            GetBlobChunk("h", 2, 9),
        ),
        (
            "client:list_finder",
            {"tags": ["t"], "file_type": "pdf", "offset": 4, "limit": 500},
            {"documents": [{"doc_ref": "d"}], "total_count": 7},
            ListDocuments(("t",), "pdf", 4, 100),
        ),
        (
            "client:get_dpe",
            {"uri": "dpe://h/d", "timeout": 1000},
            {"uri": "https://x/d", "mime_type": "text/plain", "size": 5},
            OpenDocument("dpe://h/d", 300.0),
        ),
    ],
)
async def test_each_event_asks_its_owner_and_answers_with_its_words(
    desk: Stage, owners: Owners, *, event: str, request_fields: dict[str, Any], answer: dict[str, Any], asked: Any
) -> None:
    assert await desk.server.ask(event, {**BASE, **request_fields}) == {**answer, "req_id": "q1"}
    assert owners.asked[-1] == asked


@pytest.mark.spec("C-UP-1", "C-UP-2", "E-9")
async def test_a_chunk_reaches_the_owner_as_it_came(desk: Stage, owners: Owners) -> None:
    chunk = {
        **BASE,
        "upload_id": None,
        "chunk_offset": 0,
        "eof": True,
        "blob": "QQ==",
        "name_hint": "\u00fc",
        "more": 1,
    }
    answer = await desk.server.ask("client:put_blob", chunk)
    assert answer == {"upload_id": "u", "chunk_offset": 0, "req_id": "q1"}
    (received,) = owners.of(ReceiveChunk)
    assert received.agent == "a"
    assert json.loads(received.request.data) == chunk


@pytest.mark.spec("C-GEN-5", "C-SKILL-59", "C-BLOB-7", "C-DOC-9", "C-DOC-18", "C-DESK-12")
@pytest.mark.parametrize(
    ("event", "fields", "field", "expected"),
    [
        ("client:get_desktop", {"desktop_size": True}, "desktop_size", "integer"),
        ("client:get_desktop", {"desktop_size": 1.5}, "desktop_size", "integer"),
        ("client:get_desktop", {"desktop_size": 2**63}, "desktop_size", "integer"),
        ("client:get_desktop", {"window": 5}, "window", "string"),
        ("client:get_skill", {}, "name", "string"),
        ("client:get_skill", {"name": 5}, "name", "string"),
        ("client:get_skill", {"name": "s", "rel_path": 5}, "rel_path", "string"),
        ("client:get_blob", {}, "blob_handle", "string"),
        ("client:get_blob", {"blob_handle": "h", "max_chunk_bytes": "9"}, "max_chunk_bytes", "integer"),
        ("client:list_finder", {"tags": "t"}, "tags", "array"),
        ("client:list_finder", {"tags": [5]}, "tags[0]", "string"),
        ("client:list_finder", {"offset": -1}, "offset", "integer >= 0"),
        ("client:list_finder", {"limit": -1}, "limit", "integer >= 0"),
        ("client:get_dpe", {}, "uri", "string"),
        ("client:get_dpe", {"uri": "dpe://h/d", "timeout": 0}, "timeout", "number > 0"),
    ],
)
async def test_a_request_of_another_shape_is_400_and_reaches_nobody(
    desk: Stage, owners: Owners, *, event: str, fields: dict[str, Any], field: str, expected: str
) -> None:
    before = len(owners.asked)
    answer = await desk.server.ask(event, {**BASE, **fields})
    assert (answer["code"], answer["details"]) == (400, {"field": field, "expected": expected})
    assert "error" not in answer
    assert len(owners.asked) == before


@pytest.mark.spec("C-BLOB-9")
@pytest.mark.parametrize("offset", ["0", 1.5, True, [], {"a": 1}, -1, 2**70])
async def test_an_offset_of_any_kind_is_the_owners_to_judge(desk: Stage, owners: Owners, offset: Any) -> None:
    await desk.server.ask("client:get_blob", {**BASE, "blob_handle": "h", "chunk_offset": offset})
    assert owners.of(GetBlobChunk)[-1].offset == (-1 if offset == 2**70 else offset)


@pytest.mark.spec("C-GEN-3", "C-GEN-17", "W-ERR-1")
@pytest.mark.parametrize(
    ("event", "fields", "refusal", "flat"),
    [
        (
            "client:get_skill",
            {"name": "s"},
            payload.skill_resource_refused("too_large", "x", 9),
            {"code": 4017, "details": {"reason": "too_large", "rel_path": "x", "total_size": 9}},
        ),
        (
            "client:get_blob",
            {"blob_handle": "h"},
            payload.blob_refused("forbidden"),
            {"code": 4018, "details": {"reason": "forbidden"}},
        ),
        (
            "client:put_blob",
            {"blob": ""},
            payload.upload_refused("busy"),
            {"code": 4019, "details": {"reason": "busy"}},
        ),
        (
            "client:get_dpe",
            {"uri": "dpe://h/d/pages/9"},
            payload.page_out_of_range("dpe://h/d/pages/9", "d", 9, 3),
            {"code": 4202, "uri": "dpe://h/d/pages/9", "doc_ref": "d", "page": 9, "page_count": 3},
        ),
    ],
)
async def test_a_refusal_of_the_owner_travels_flat(
    desk: Stage,
    owners: Owners,
    *,
    event: str,
    fields: dict[str, Any],
    refusal: payload.ErrorPayload,
    flat: dict[str, Any],
) -> None:
    owners.refusal = refusal
    answer = await desk.server.ask(event, {**BASE, **fields})
    assert {key: value for key, value in answer.items() if key != "message"} == flat
    assert answer["message"] == refusal.message


@pytest.mark.spec("C-GEN-2", "W-EVT-2")
@pytest.mark.parametrize("event", ["client:get_desktop", "client:get_skills", "client:put_blob", "client:list_finder"])
async def test_a_request_for_another_computer_reaches_no_owner(desk: Stage, owners: Owners, event: str) -> None:
    before = len(owners.asked)
    assert (await desk.server.ask(event, {**BASE, "computer": "other"}))["code"] == 404
    assert len(owners.asked) == before


@pytest.mark.spec("C-GEN-15", "DEC-35", "C-UP-28")
async def test_while_an_owner_restarts_reads_wait_for_it_and_uploads_are_gone(desk: Stage, owners: Owners) -> None:
    owners.hang = True
    async with anyio.create_task_group() as group:
        answers: dict[str, Any] = {}

        async def ask(name: str, event: str, **fields: Any) -> None:
            answers[name] = await desk.server.ask(event, {**BASE, **fields})

        group.start_soon(lambda: ask("read", "client:get_blob", blob_handle="h"))
        group.start_soon(lambda: ask("later", "client:put_blob", upload_id="u", blob=""))
        group.start_soon(lambda: ask("first", "client:put_blob", blob=""))
        await desk.until(lambda: len(owners.asked) >= 4)
        owners.hang = False
        assert desk.supervisor.kill_child(BLOBS)
    assert answers["read"]["eof"] is True
    assert answers["later"]["details"] == {"reason": "invalid_upload", "upload_id": "u"}
    assert answers["first"]["details"] == {"reason": "io_error"}


@pytest.mark.spec("C-UP-27", "C-BLOB-16", "C-SEC-2")
async def test_the_office_is_known_before_the_join_is_sent_and_forgotten_after_the_leave(owners: Owners) -> None:
    async with stage(beside=owners.actors()) as desk:
        known: list[Any] = []
        desk.server.on_join = lambda _: (known.extend(owners.of(ChangeOffice)), (True, None))[1]  # type: ignore[func-returns-value]
        await desk.join("lab")
        assert known == [ChangeOffice("lab")]
        await desk.ask(Leave(0.1))
        assert owners.of(ChangeOffice) == [ChangeOffice("lab"), ChangeOffice("")]


@pytest.mark.spec("C-UP-27")
async def test_a_refused_join_leaves_no_office_behind(owners: Owners) -> None:
    async with stage(beside=owners.actors()) as desk:
        desk.server.on_join = lambda _: (False, "[4104] no")
        with pytest.raises(Exception, match="no"):
            await desk.join("lab")
        assert owners.of(ChangeOffice) == [ChangeOffice("lab"), ChangeOffice("")]


@pytest.mark.spec("C-GEN-15", "C-BLOB-16")
async def test_a_restarted_owner_of_blobs_is_told_the_office_again(desk: Stage, owners: Owners) -> None:
    assert desk.supervisor.kill_child(BLOBS)
    await desk.until(lambda: owners.of(ChangeOffice) == [ChangeOffice("lab"), ChangeOffice("lab")])


@pytest.mark.spec("C-BLOB-16")
async def test_no_join_is_sent_before_a_slow_owner_of_blobs_knows_of_the_office(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office, "TELL_LIMIT", 0.05)
    owners.hang = True
    async with stage(beside=owners.actors()) as desk, asyncio.TaskGroup() as group:
        joining = group.create_task(desk.join("lab"))
        await desk.until(lambda: len(owners.of(ChangeOffice)) >= 2)
        assert desk.server.named() == []
        owners.hang = False
        assert (await joining).phase == "joined"
        assert set(owners.of(ChangeOffice)) == {ChangeOffice("lab")}


@pytest.mark.spec("C-UP-27", "E-21")
async def test_an_agent_that_leaves_ends_its_uploads_and_a_computer_that_leaves_ends_none(
    desk: Stage, owners: Owners
) -> None:
    await desk.server.tell("notify:leave_office", {"office_id": "lab", "computer": "other"})
    await desk.server.tell("notify:leave_office", {"nonsense": 1})
    await desk.server.tell("notify:leave_office", {"office_id": "lab", "agent": "planner"})
    await desk.until(lambda: owners.of(EndUploads))
    assert owners.of(EndUploads) == [EndUploads()]


@pytest.mark.spec("R-PROJ-3", "C-GEN-13", "E-16", "E-17", "E-31", "C-DESK-28")
async def test_changed_contents_are_announced_once_for_a_burst_and_name_only_the_computer(desk: Stage) -> None:
    for _ in range(20):
        for slice in ("desktop", "skills", "finder"):
            desk.bus.publish(SliceChanged(slice))  # type: ignore[arg-type]
    await desk.server.until(lambda: len(desk.server.named()) >= 4)
    await desk.quiet()
    assert desk.server.events[1:] == [
        ("server:update_desktop", {"computer": "desk"}),
        ("server:update_skills", {"computer": "desk"}),
        ("server:update_finder", {"computer": "desk"}),
    ]


@pytest.mark.spec("DEC-27", "R-PROJ-7")
async def test_after_a_loss_only_slices_that_still_hold_something_are_announced_again(desk: Stage) -> None:
    desk.bus.publish(SliceChanged("skills", "some"))
    desk.bus.publish(SliceChanged("desktop", ""))
    await desk.server.until(lambda: len(desk.server.named()) == 3)
    desk.server.events.clear()
    await desk.server.kick()
    await desk.server.until(lambda: "server:update_skills" in desk.server.named())
    await desk.quiet()
    assert desk.server.named() == ["disconnect", "server:join_office", "server:update_skills"]


@pytest.mark.spec("R-PROJ-7", "C-GEN-13")
async def test_changed_contents_outside_an_office_wait_for_the_join(owners: Owners) -> None:
    async with stage(beside=owners.actors()) as desk:
        await desk.connect()
        desk.bus.publish(SliceChanged("desktop"))
        await desk.quiet()
        assert desk.server.named() == []
        assert (await desk.bus.ask(SOCKET, GetLinkStatus())).unannounced == ("desktop",)
