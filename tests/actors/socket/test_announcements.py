"""When `server:update_*` are sent, on a clock we move."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.socket.announcements import EVENTS, Announcements

FILLED = ("config", "tool_list")


def joined(now: float = 0.0) -> Announcements:
    announcements = Announcements(window=0.3, longest=2.0)
    announcements.joined(now)
    return announcements


@pytest.mark.spec("R-PROJ-6", "C-GEN-13")
def test_a_change_is_announced_after_the_quiet_window_and_not_before() -> None:
    announcements = joined()
    announcements.committed(["config"], FILLED, now=10.0)
    assert announcements.next_due() == pytest.approx(10.3)
    assert announcements.take_due(10.29) == ()
    assert announcements.take_due(10.3) == ("config",)
    assert announcements.next_due() is None


@pytest.mark.spec("R-PROJ-6")
def test_changes_in_a_row_extend_the_window_but_never_past_its_limit() -> None:
    announcements = joined()
    for step in range(20):
        announcements.committed(["tool_list"], FILLED, now=step * 0.2)
        if announcements.take_due(step * 0.2):
            assert step * 0.2 == pytest.approx(2.0)
            return
    pytest.fail("the announcement never came")


@pytest.mark.spec("R-PROJ-6")
def test_each_type_has_its_own_window_and_a_burst_is_one_announcement() -> None:
    announcements = joined()
    for step in range(5):
        announcements.committed(["tool_list", "config"], FILLED, now=step * 0.01)
    announcements.committed(["desktop"], FILLED, now=0.3)
    assert announcements.take_due(0.35) == ("config", "tool_list")
    assert announcements.take_due(0.6) == ("desktop",)
    assert announcements.owed == ()


@pytest.mark.spec("R-PROJ-7", "W-EVT-13")
def test_outside_an_office_nothing_is_ever_due() -> None:
    announcements = Announcements()
    announcements.committed(["config", "tool_list"], FILLED, now=0.0)
    assert announcements.next_due() is None
    assert announcements.take_due(1e9) == ()
    assert announcements.owed == ("config", "tool_list")


@pytest.mark.spec("R-PROJ-7", "DEC-27")
def test_what_is_owed_is_due_once_at_the_join() -> None:
    announcements = Announcements()
    announcements.committed(["tool_list"], FILLED, now=0.0)
    announcements.committed(["tool_list", "config"], FILLED, now=1.0)
    announcements.joined(5.0)
    assert announcements.take_due(5.0) == ("config", "tool_list")
    assert announcements.take_due(1e9) == ()


@pytest.mark.spec("R-PROJ-7")
def test_leaving_cancels_windows_but_keeps_what_is_owed_for_the_next_office() -> None:
    announcements = joined()
    announcements.committed(["config"], FILLED, now=0.0)
    announcements.left()
    assert announcements.take_due(1e9) == ()
    announcements.joined(7.0)
    assert announcements.take_due(7.0) == ("config",)


@pytest.mark.spec("DEC-27", "R-PROJ-7")
def test_a_lost_connection_makes_every_filled_slice_news_and_no_empty_one() -> None:
    announcements = joined()
    announcements.committed(["config", "tool_list"], FILLED, now=0.0)
    assert announcements.take_due(1.0) == ("config", "tool_list")
    announcements.lost()
    assert announcements.owed == ("config", "tool_list")
    announcements.joined(3.0)
    assert announcements.take_due(3.0) == ("config", "tool_list")


@pytest.mark.spec("DEC-27")
def test_a_connection_lost_outside_an_office_owes_nothing_because_nobody_knew_us() -> None:
    announcements = Announcements()
    announcements.committed([], FILLED, now=0.0)
    announcements.lost()
    assert announcements.owed == ()


@pytest.mark.spec("R-PROJ-6")
def test_an_announcement_that_cannot_be_sent_stays_owed_without_a_window() -> None:
    announcements = joined()
    announcements.committed(["config"], FILLED, now=0.0)
    (slice,) = announcements.take_due(0.3)
    announcements.unsent(slice)
    assert announcements.next_due() is None
    assert announcements.owed == ("config",)
    announcements.committed(["config"], FILLED, now=50.0)
    assert announcements.take_due(50.3) == ("config",)


@pytest.mark.spec("R-PROJ-3")
def test_a_change_while_its_announcement_is_being_sent_is_announced_again() -> None:
    announcements = joined()
    announcements.committed(["config"], FILLED, now=0.0)
    assert announcements.take_due(0.3) == ("config",)
    announcements.committed(["config"], FILLED, now=0.31)
    announcements.unsent("config")
    assert announcements.take_due(0.7) == ("config",)


@pytest.mark.spec("E-14", "E-15", "E-16", "E-17", "E-31")
def test_every_slice_has_the_event_of_its_name() -> None:
    assert EVENTS == {
        "config": "server:update_config",
        "tool_list": "server:update_tool_list",
        "desktop": "server:update_desktop",
        "skills": "server:update_skills",
        "finder": "server:update_finder",
    }
