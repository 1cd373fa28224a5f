"""Notices: what merges, what is bounded, what is counted."""

from __future__ import annotations

import msgspec
import pytest

from smcp_runtime.agent.notices import Notice, NoticeQueue, read_notice
from smcp_runtime.wire.errors import NetworkError
from smcp_runtime.wire.rooms import EnterOfficeNotification, LeaveOfficeNotification, UpdateToolListNotification


def update(computer: str) -> Notice:
    return Notice("notify:update_tool_list", UpdateToolListNotification(computer=computer))


def entered(computer: str) -> Notice:
    return Notice("notify:enter_office", EnterOfficeNotification(office_id="o", computer=computer))


def left(computer: str) -> Notice:
    return Notice("notify:leave_office", LeaveOfficeNotification(office_id="o", computer=computer))


def everything(queue: NoticeQueue) -> list[Notice]:
    found = []
    while (notice := queue.take()) is not None:
        found.append(notice)
    return found


def test_equal_updates_merge_at_the_place_of_the_last_one() -> None:
    queue = NoticeQueue()
    for notice in (update("pc1"), update("pc2"), update("pc1")):
        queue.put(notice)
    assert everything(queue) == [update("pc2"), update("pc1")]
    assert queue.dropped == 0


def test_comings_and_goings_never_merge() -> None:
    queue = NoticeQueue()
    story = [entered("pc"), left("pc"), entered("pc"), left("pc")]
    for notice in story:
        queue.put(notice)
    assert everything(queue) == story


def test_a_slow_reader_loses_the_oldest_and_can_see_how_many() -> None:
    queue = NoticeQueue(capacity=3)
    for number in range(5):
        queue.put(update(f"pc{number}"))
    assert [notice.computer for notice in everything(queue)] == ["pc2", "pc3", "pc4"]
    assert queue.dropped == 2


@pytest.mark.parametrize(
    ("event", "data"),
    [
        ("notify:unknown", b'{"computer":"pc"}'),
        ("notify:update_tool_list", b'{"computer":5}'),
        ("notify:update_tool_list", b"[]"),
        ("notify:enter_office", b'{"office_id":"o"}'),
        ("notify:enter_office", b'{"office_id":"o","computer":"a","agent":"b"}'),
        ("client:get_tools", b"{}"),
    ],
)
def test_what_is_no_notification_of_ours_is_none(event: str, data: bytes) -> None:
    assert read_notice(event, msgspec.Raw(data)) is None
    assert read_notice(event, None) is None


@pytest.mark.spec("W-GEN-2")
def test_unknown_members_do_not_spoil_a_notification() -> None:
    assert read_notice("notify:update_tool_list", msgspec.Raw(b'{"computer":"pc","new":1}')) == update("pc")


def test_a_notice_has_a_json_form() -> None:
    assert entered("pc").to_dict() == {"event": "notify:enter_office", "payload": {"office_id": "o", "computer": "pc"}}
    lost = Notice("link:lost", error=NetworkError("gone")).to_dict()
    assert lost == {"event": "link:lost", "error": {"category": "network", "code": "network", "message": "gone"}}
