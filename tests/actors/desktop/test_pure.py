"""Choosing, ordering and rendering windows: the rows of A.2, A.5, A.6 and A.8, without a server."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.desktop.contents import Contents
from smcp_runtime.actors.desktop.organise import Shown, matching, organise
from smcp_runtime.actors.desktop.render import entry_of, render
from smcp_runtime.actors.desktop.windows import Window, list_windows, shared_hosts, signature
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.channels import ResourceSlice
from smcp_runtime.wire.server_order import server_order


def listed(bundle_id: str, *resources: Any, **state: Any) -> ResourceSlice:
    settings: dict[str, Any] = {"declared": True, "subscribe": True, "connected": True, **state}
    return ResourceSlice(bundle_id, "one name (display)", Attachment(msgspec.json.encode(resources)), **settings)


def window(uri: str, priority: Any = None, fullscreen: Any = None, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "name": "w", "annotations": {"priority": priority, **more}, "_meta": {"fullscreen": fullscreen}}


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"uri": "window://h", "text": one} for one in texts]


def show(
    *servers: ResourceSlice,
    contents: dict[tuple[str, str], Any],
    history: tuple[str, ...] = (),
    size: int | None = None,
) -> list[str]:
    windows = [found for server in servers for found in list_windows(server).windows]
    return [entry_of(shown) for shown in organise(windows, contents, history, size)]


class TestMetadata:
    @pytest.mark.spec("C-DESK-5", "C-DESK-6", "C-DESK-35")
    @pytest.mark.parametrize("priority", [1.5, -0.1, "high", True, {}])
    def test_a_priority_outside_the_unit_interval_counts_as_zero_and_is_reported(self, priority: Any) -> None:
        listing = list_windows(listed("s", window("window://h/a", priority), window("window://h/b", 0.5)))
        assert [found.priority for found in listing.windows] == [0.0, 0.5]
        assert len(listing.notes) == 1

    @pytest.mark.spec("C-DESK-5", "C-DESK-35")
    @pytest.mark.parametrize("priority", [float("nan"), float("inf"), float("-inf")])
    def test_a_number_that_json_cannot_say_counts_as_zero(self, priority: float) -> None:
        listing = list_windows(listed("s", window("window://h/a", priority), window("window://h/b", 0.5)))
        assert [found.priority for found in listing.windows] == [0.0, 0.5]

    @pytest.mark.spec("C-DESK-6", "C-DESK-36")
    @pytest.mark.parametrize("resource", [{}, {"annotations": None, "_meta": None}, {"annotations": {}, "_meta": {}}])
    def test_missing_layout_data_is_no_news(self, resource: dict[str, Any]) -> None:
        listing = list_windows(listed("s", {"uri": "window://h", **resource}))
        assert (listing.windows[0].priority, listing.windows[0].fullscreen, listing.notes) == (0.0, False, ())

    @pytest.mark.spec("C-DESK-37", "C-DESK-5")
    @pytest.mark.parametrize("value", ["true", 1, {}])
    def test_only_a_boolean_makes_a_window_fullscreen(self, value: Any) -> None:
        listing = list_windows(listed("s", window("window://h", fullscreen=value)))
        assert not listing.windows[0].fullscreen
        assert len(listing.notes) == 1

    @pytest.mark.spec("C-DESK-41", "C-DESK-5")
    @pytest.mark.parametrize("audience", [["user"], [], "assistant"])
    def test_a_window_not_meant_for_assistants_is_kept_with_a_note(self, audience: Any) -> None:
        listing = list_windows(listed("s", window("window://h", audience=audience)))
        assert len(listing.windows) == len(listing.notes) == 1

    @pytest.mark.spec("C-DESK-7", "C-DESK-44")
    @pytest.mark.parametrize("state", [{"subscribe": False}, {"declared": False}, {"connected": False}])
    def test_a_server_that_is_down_or_cannot_be_subscribed_to_takes_no_part(self, state: dict[str, bool]) -> None:
        assert list_windows(listed("s", window("window://h"), **state)).windows == ()

    @pytest.mark.spec("C-GEN-9", "C-DESK-43", "C-SEC-4")
    def test_malformed_resources_do_not_hide_their_siblings(self) -> None:
        rubbish = [None, 5, [], {}, {"uri": 5}, {"uri": "window:///x"}, {"uri": "file:///etc/passwd"}]
        listing = list_windows(listed("s", *rubbish, window("window://h/good")))
        assert [found.uri for found in listing.windows] == ["window://h/good"]

    @pytest.mark.spec("C-DESK-4")
    def test_a_host_of_two_servers_is_noted_and_hides_nobody(self) -> None:
        windows = tuple(
            w for s in ("a", "b") for w in list_windows(listed(s, window(f"window://{s.upper()}host"))).windows
        )
        assert shared_hosts(windows) == ()
        both = tuple(w for s in ("a", "b") for w in list_windows(listed(s, window("window://Same"))).windows)
        assert len(shared_hosts(both)) == 1
        assert len(both) == 2

    @pytest.mark.spec("C-DESK-27")
    def test_the_signature_sees_priority_and_fullscreen_but_not_order(self) -> None:
        one, two = window("window://h/1"), window("window://h/2")
        plain = signature(list_windows(listed("s", one, two)).windows)
        assert plain == signature(list_windows(listed("s", two, one)).windows)
        assert plain != signature(list_windows(listed("s", one, window("window://h/2", 0.5))).windows)
        assert plain != signature(list_windows(listed("s", one, window("window://h/2", fullscreen=True))).windows)


class TestOrganising:
    @pytest.mark.spec("C-DESK-20")
    def test_priority_sorts_and_listing_order_breaks_ties(self) -> None:
        server = listed("s", window("window://h/a"), window("window://h/b", 0.9), window("window://h/c", 0))
        contents = {("s", f"window://h/{name}"): text(name) for name in "abc"}
        assert show(server, contents=contents) == ["window://h/b\n\nb", "window://h/a\n\na", "window://h/c\n\nc"]

    @pytest.mark.spec("C-DESK-20", "C-DESK-38")
    def test_the_first_listed_fullscreen_window_wins_over_a_more_urgent_one(self) -> None:
        server = listed(
            "s", window("window://h/0"), window("window://h/1", 0.1, True), window("window://h/2", 0.9, True)
        )
        contents = {("s", f"window://h/{n}"): text(str(n)) for n in range(3)}
        assert show(server, contents=contents) == ["window://h/1\n\n1"]

    @pytest.mark.spec("C-DESK-39", "C-DESK-32")
    def test_an_empty_fullscreen_window_shadows_nothing(self) -> None:
        server = listed("s", window("window://h/full", fullscreen=True), window("window://h/plain"))
        contents = {("s", "window://h/full"): [], ("s", "window://h/plain"): text("x")}
        assert show(server, contents=contents) == ["window://h/plain\n\nx"]

    @pytest.mark.spec("C-DESK-40", "C-DESK-21")
    def test_size_cuts_after_servers_are_ordered(self) -> None:
        servers = [listed(name, window(f"window://{name}", fullscreen=True)) for name in "ab"]
        contents = {(name, f"window://{name}"): text(name) for name in "ab"}
        assert show(*servers, contents=contents, size=1) == ["window://a\n\na"]
        assert show(*servers, contents=contents, size=1, history=("b",)) == ["window://b\n\nb"]

    @pytest.mark.spec("C-DESK-19", "C-DESK-18", "C-DESK-42")
    def test_servers_are_ordered_by_their_latest_call_then_by_id(self) -> None:
        assert server_order("dcba", ("a", "c", "a", "gone")) == ("a", "c", "b", "d")
        servers = [listed("x", window("window://x")), listed("w", window("window://w"))]
        contents = {(name, f"window://{name}"): text(name) for name in "xw"}
        assert show(*servers, contents=contents, history=("x",))[0].startswith("window://x")

    @pytest.mark.spec("C-DESK-17", "C-DESK-33", "C-DESK-34")
    def test_only_windows_with_a_text_block_survive(self) -> None:
        server = listed("s", *(window(f"window://h/{n}") for n in range(4)))
        blob = {"uri": "window://h", "blob": "eA=="}
        contents: dict[tuple[str, str], Any] = {
            ("s", "window://h/0"): [blob],
            ("s", "window://h/1"): text(""),
            ("s", "window://h/2"): [blob, *text("beside")],
        }
        assert show(server, contents=contents) == ["window://h/1", "window://h/2\n\nbeside"]

    @pytest.mark.spec("C-DESK-13", "C-DESK-31", "C-SEC-5")
    def test_the_filter_is_exact_on_raw_uri_or_identity(self) -> None:
        servers = [listed("a", window("window://h/p?q=1")), listed("b", window("window://h/p"), window("window://H/p"))]
        windows = [found for server in servers for found in list_windows(server).windows]
        assert [w.bundle_id for w in matching(windows, "window://h/p")] == ["a", "b"]
        assert [w.bundle_id for w in matching(windows, "window://h/p?q=1")] == ["a"]
        for nothing in ("", "window://h", "window://h/", "file:///etc/passwd", "window://h/P"):
            assert matching(windows, nothing) == ()

    @given(st.data())
    def test_organising_never_invents_repeats_or_mixes_servers(self, data: st.DataObject) -> None:
        drawn = data.draw(
            st.lists(
                st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.floats(0, 1), st.booleans(), st.booleans()),
                max_size=20,
                unique_by=lambda row: row[:2],
            )
        )
        windows = [
            Window(server, f"window://{server}/{n}", server, priority, full, index)
            for index, (server, n, priority, full, _) in enumerate(drawn)
        ]
        contents = {(w.bundle_id, w.uri): text("t") for w, row in zip(windows, drawn, strict=True) if row[4]}
        history = data.draw(st.lists(st.sampled_from("abcd"), max_size=10))
        size = data.draw(st.none() | st.integers(0, 25))
        everything = organise(windows, contents, history, None)
        assert organise(windows, contents, history, size) == everything[:size]
        shuffled = windows[:]
        random.Random(1).shuffle(shuffled)
        assert organise(shuffled, contents, history, None) == everything
        servers = [shown.window.bundle_id for shown in everything]
        assert len(set(servers)) == len([s for i, s in enumerate(servers) if i == 0 or servers[i - 1] != s])
        for server in set(servers):
            mine = [shown.window for shown in everything if shown.window.bundle_id == server]
            alive = [w for w in windows if w.bundle_id == server and (server, w.uri) in contents]
            assert set(mine) <= set(alive)
            assert (len(mine) == 1) if any(w.fullscreen for w in alive) else len(mine) == len(alive)


class TestRendering:
    @pytest.mark.spec("C-DESK-22", "C-DESK-24", "C-DESK-26")
    @pytest.mark.parametrize(
        ("texts", "entry"),
        [
            (("a", "", " b "), "window://h\n\na\n\n b "),
            (("",), "window://h"),
            ((" \n",), "window://h"),
        ],
    )
    def test_an_entry_is_the_identity_and_the_untrimmed_texts(self, texts: tuple[str, ...], entry: str) -> None:
        assert entry_of(Shown(Window("s", "window://h?x", "h", 0.0, False, 0), texts)) == entry

    @pytest.mark.spec("C-DESK-25", "C-SEC-3")
    @pytest.mark.parametrize("letter", ["x", "é", "😀", '"', "\\"])
    def test_the_entry_that_does_not_fit_is_cut_at_a_code_point_and_later_ones_left_out(self, letter: str) -> None:
        shown = [Shown(Window("s", f"window://h/{n}", "h", 0.0, False, n), (letter * 20_000,)) for n in range(3)]
        budget = len(msgspec.json.encode([entry_of(shown[0])])) + 9_000
        rendered = render(shown, budget)
        assert (rendered.cut, rendered.left_out, len(rendered.entries)) == (1, 1, 2)
        assert len(msgspec.json.encode(rendered.entries)) <= budget + 1
        body, mark = rendered.entries[1].rsplit("\n", 1)
        kept = len(body.encode())
        assert mark == f"[truncated: {kept} of {len(entry_of(shown[1]).encode())} bytes shown]"
        assert entry_of(shown[1]).startswith(body)

    @pytest.mark.spec("C-DESK-25")
    def test_less_than_four_kibibytes_of_room_show_nothing_of_a_window(self) -> None:
        shown = [Shown(Window("s", f"window://h/{n}", "h", 0.0, False, n), ("x" * 5_000,)) for n in range(2)]
        rendered = render(shown, 5_100 + 4_000)
        assert (len(rendered.entries), rendered.cut, rendered.left_out) == (1, 0, 1)


class TestContents:
    @pytest.mark.spec("C-DESK-10")
    def test_contents_without_a_live_subscription_are_not_kept(self) -> None:
        contents = Contents()
        contents.listed("s", 1, b"[]")
        contents.keep(("s", "u"), contents.stamp(("s", "u")), "old")
        assert contents.known == {}

    @pytest.mark.spec("C-DESK-10")
    def test_an_update_during_a_read_keeps_the_read_out(self) -> None:
        contents = Contents()
        contents.listed("s", 1, b"[]")
        contents.watched("s", ["u"])
        stamp = contents.stamp(("s", "u"))
        contents.updated(("s", "u"))
        contents.keep(("s", "u"), stamp, "stale")
        assert contents.known == {}
        contents.keep(("s", "u"), contents.stamp(("s", "u")), "fresh")
        assert contents.known == {("s", "u"): "fresh"}

    @pytest.mark.spec("C-DESK-10")
    @pytest.mark.parametrize(("session", "listing"), [(1, b"[1]"), (2, b"[]")])
    def test_a_new_list_or_session_drops_what_was_kept_of_that_server_only(self, session: int, listing: bytes) -> None:
        contents = Contents()
        for server in ("s", "t"):
            contents.listed(server, 1, b"[]")
            contents.watched(server, ["u"])
            contents.keep((server, "u"), contents.stamp((server, "u")), server)
        assert not contents.listed("s", 1, b"[]")
        assert contents.listed("s", session, listing)
        assert contents.known == {("t", "u"): "t"}

    @pytest.mark.spec("DEC-23")
    def test_suspicion_ends_with_a_success_or_a_new_session(self) -> None:
        contents = Contents()
        contents.listed("s", 1, b"[]")
        assert contents.suspect("s")
        assert not contents.suspect("s")
        contents.trust("s")
        assert contents.suspect("s")
        contents.listed("s", 2, b"[]")
        assert not contents.is_suspect("s")
