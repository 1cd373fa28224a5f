"""The desktop of an Agent, from real MCP servers over both transports and in both eras, through a real Server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.computer import channels
from smcp_runtime.actors.desktop import DesktopActor, DesktopSettings
from smcp_runtime.agent import AsyncAgent
from smcp_runtime.wire.errors import PeerError
from support.http_servers import over_http
from support.peers import Peers
from support.shelf import fixture_server, shelf, window
from support.stack import OFFICE, QUICK, Stack, config, open_stack, options

pytestmark = pytest.mark.anyio

EDITOR = "window://com.example.editor"


async def until_shown(stack: Stack, expected: list[str], timeout: float = 20.0) -> None:
    """Waits until the desktop is this."""
    shown: list[str] = []
    with anyio.move_on_after(timeout):
        while (shown := list(await stack.agent.desktop("desk"))) != expected:
            assert len(shown) <= 1000, shown
            await anyio.sleep(0.02)
    if shown != expected:
        servers = (await stack.computer.diagnostics()).servers
        raise AssertionError(f"shown is {shown}, of {servers}")


@pytest.fixture(params=["stdio", "streamable"])
async def editor(request: pytest.FixtureRequest, peers: Peers) -> dict[str, Any]:
    """The desktop server of the fixtures, written with the official package, over each transport."""
    if request.param == "stdio":
        return fixture_server("desktop_server")
    return await over_http(peers, "desktop_server")


@pytest.mark.spec("C-DESK-7", "C-DESK-8", "C-DESK-20", "C-DESK-24", "C-DESK-27", "C-DESK-28", "E-16", "E-24")
async def test_a_server_of_the_newer_era_fills_the_desktop_and_every_change_reaches_the_agent(
    editor: dict[str, Any],
) -> None:
    async with open_stack(config(editor)) as stack:
        code = f"{EDITOR}/file\n\ndef greet() -> str:\n    return 'hello'"
        await until_shown(stack, [code, f"{EDITOR}/problems\n\nno problems", f"{EDITOR}/outline\n\ngreet()"])
        async with stack.agent.notifications() as notices:
            await stack.call("desktop_server__show", window="problems", text="1 problem")
            with anyio.fail_after(10):
                async for notice in notices:
                    if notice.event == "notify:update_desktop":
                        break
            assert (await stack.agent.desktop("desk"))[1] == f"{EDITOR}/problems\n\n1 problem"
        await stack.call("desktop_server__show", window="help", text="press F1", priority=1.0, fullscreen=True)
        await until_shown(stack, [f"{EDITOR}/help\n\npress F1"])
        await stack.call("desktop_server__close", window="help")
        await stack.call("desktop_server__close", window="outline")
        await until_shown(stack, [code, f"{EDITOR}/problems\n\n1 problem"])


@pytest.mark.spec("C-DESK-8", "C-DESK-10", "C-DESK-27", "C-DESK-29")
async def test_a_handshake_era_server_is_subscribed_to_and_followed(tmp_path: Path) -> None:
    entry = shelf(tmp_path, "shelf", [window("window://a/1", "one"), window("window://a/2", "two")])
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, ["window://a/1\n\none", "window://a/2\n\ntwo"])
        assert json.loads(await stack.text("shelf_display__subscriptions")) == ["window://a/1", "window://a/2"]
        await stack.call("shelf_display__put", entry=window("window://a/2", "zwei"))
        await until_shown(stack, ["window://a/1\n\none", "window://a/2\n\nzwei"])
        await stack.call("shelf_display__drop", uri="window://a/1")
        await until_shown(stack, ["window://a/2\n\nzwei"])
        await stack.until(lambda: subscribed_to(stack, ["window://a/2"]))


async def subscribed_to(stack: Stack, uris: list[str]) -> bool:
    return json.loads(await stack.text("shelf_display__subscriptions")) == uris


@pytest.mark.spec("C-DESK-10", "DEC-23")
async def test_an_unchanged_desktop_reads_nothing_upstream(tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = shelf(tmp_path, "shelf", [window(f"window://a/{n}", str(n)) for n in range(5)], "--log", str(log))
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, [f"window://a/{n}\n\n{n}" for n in range(5)])

        async def all_is_kept() -> bool:
            reads = log.read_text().count("resources/read")
            await stack.agent.desktop("desk")
            return log.read_text().count("resources/read") == reads

        await stack.until(all_is_kept)  # nothing is while the subscriptions are on their way
        before = log.read_text().count("resources/read")
        for size in (None, 1, 3):
            for _ in range(5):
                await stack.agent.desktop("desk", size=size)
        assert log.read_text().count("resources/read") == before
        await stack.call("shelf_display__put", entry=window("window://a/3", "drei"))
        await stack.until(lambda: shows(stack, "window://a/3\n\ndrei"))
        assert log.read_text().count("resources/read") == before + 1


async def shows(stack: Stack, entry: str) -> bool:
    return entry in await stack.agent.desktop("desk")


@pytest.mark.spec("C-DESK-19", "C-DESK-23", "C-DESK-42", "C-DESK-31", "C-DESK-13")
async def test_servers_called_lately_come_first_and_one_host_is_shown_from_both(tmp_path: Path) -> None:
    first, second = (
        shelf(tmp_path, name, [window("window://same/x", f"of {name}")], name="One name", bundle_id=name)
        for name in ("a", "b")
    )
    async with open_stack(config(first, second)) as stack:
        await until_shown(stack, ["window://same/x\n\nof a", "window://same/x\n\nof b"])
        await stack.call("b__echo", text="hello")
        assert list(await stack.agent.desktop("desk")) == ["window://same/x\n\nof b", "window://same/x\n\nof a"]
        assert len(await stack.agent.desktop("desk", window="window://same/x")) == 2
        assert await stack.agent.desktop("desk", window="window://same") == ()
        findings = (await stack.computer.diagnostics()).findings
        assert any("window host same is exposed by a, b" in finding for finding in findings)


@pytest.mark.spec(
    "T-PROJ-7",
    "C-DESK-2",
    "C-DESK-12",
    "C-DESK-14",
    "C-DESK-30",
    "C-DESK-33",
    "C-DESK-35",
    "C-DESK-43",
    "C-DESK-44",
    "C-GEN-9",
)
async def test_t_proj_7_what_servers_do_wrong_costs_only_itself(tmp_path: Path) -> None:
    odd = [
        window("window://a/query?priority=1", "query"),
        window("window://a/high", "high", annotations={"priority": 1.5}),
        window("window://a/text", "text", annotations={"priority": "high", "audience": ["user"]}),
        window("window://a/full", "full", _meta={"fullscreen": "true"}),
        {"uri": "window://a/blob", "contents": [{"bytes": 10}]},
        window("window://a/none"),
        window("window:///nobody", "nobody"),
        window("windows://a/other", "other"),
        window("window://a/best", "best", annotations={"priority": 0.1}),
        {"uri": "window://a/meta", "_meta": "no object", "contents": [{"text": "meta"}]},
    ]
    silent = shelf(tmp_path, "silent", [window("window://s/1", "not subscribed")], "--no-subscribe")
    async with open_stack(config(shelf(tmp_path, "odd", odd), silent)) as stack:
        expected = ["best", "query", "high", "text", "full", "meta"]
        await until_shown(stack, [f"window://a/{name}\n\n{name}" for name in expected])
        assert await stack.agent.desktop("desk", size=0) == ()
        assert await stack.agent.desktop("desk", size=-1) == ()
        assert await stack.agent.desktop("desk", window="") == ()


@pytest.mark.spec("C-DESK-9", "C-DESK-45", "C-SEC-4", "DEC-23", "C-GEN-10")
async def test_a_window_that_hangs_delays_one_answer_and_hides_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = DesktopSettings(read_timeout=1.0, retry_interval=0.2)
    monkeypatch.setattr(channels, "DesktopActor", partial(DesktopActor, settings))
    hanging = shelf(
        tmp_path, "hanging", [window("window://h/1", "never", then="hang"), window("window://h/2", "there")]
    )
    good = shelf(tmp_path, "good", [window("window://g/1", "good")])
    async with open_stack(config(hanging, good)) as stack:
        await stack.until(lambda: shows(stack, "window://g/1\n\ngood"))
        started = anyio.current_time()
        for _ in range(5):
            assert "window://g/1\n\ngood" in await stack.agent.desktop("desk")
        assert anyio.current_time() - started < 2.0
        await stack.call("hanging_display__put", entry={**window("window://h/1", "now"), "then": None})
        await stack.until(lambda: shows(stack, "window://h/1\n\nnow"))


@pytest.mark.spec("C-SEC-6", "C-DESK-11", "F-03")
async def test_a_server_that_announces_on_subscribe_and_on_read_starts_no_loop(tmp_path: Path) -> None:
    resources = [window(f"window://a/{n}", str(n)) for n in range(3)]
    entry = shelf(tmp_path, "loud", resources, "--announce-on-subscribe")
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, [f"window://a/{n}\n\n{n}" for n in range(3)])
        updates = 0
        async with stack.agent.notifications() as notices:
            with anyio.move_on_after(1.5):
                async for notice in notices:
                    if notice.event == "notify:update_desktop":
                        updates += 1
                        await stack.agent.desktop("desk")
        assert updates <= 1


@pytest.mark.spec("C-SEC-6", "C-GEN-13")
async def test_a_server_that_announces_at_each_read_is_told_about_at_the_pace_of_the_coalescing_window(
    tmp_path: Path,
) -> None:
    entry = shelf(tmp_path, "loud", [window("window://a/1", "one")], "--announce-on-read")
    async with open_stack(config(entry), runtime=options(coalesce_ms=200.0, coalesce_max_wait_ms=400.0)) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        updates = 0
        async with stack.agent.notifications() as notices:
            with anyio.move_on_after(2.0):
                async for notice in notices:
                    updates += notice.event == "notify:update_desktop"
                    await stack.agent.desktop("desk")
        assert updates <= 11


@pytest.mark.spec("C-SEC-5")
@pytest.mark.parametrize("filter", ["file:///etc/passwd", "../../etc/passwd", "http://127.0.0.1:1/", "*", "window://"])
async def test_a_filter_is_only_compared(tmp_path: Path, filter: str) -> None:
    async with open_stack(config(shelf(tmp_path, "shelf", [window("window://a/1", "one")]))) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        assert await stack.agent.desktop("desk", window=filter) == ()


@pytest.mark.spec("C-DESK-25", "C-GEN-7", "C-SEC-3")
async def test_a_desktop_too_large_for_an_answer_is_cut_and_says_so(tmp_path: Path) -> None:
    resources = [{"uri": f"window://a/{n}", "contents": [{"chars": 5_000_000}]} for n in range(2)]
    async with open_stack(config(shelf(tmp_path, "big", resources))) as stack:
        await stack.until(lambda: any_window(stack), timeout=20)
        (entry,) = await stack.agent.desktop("desk")
        assert entry.startswith("window://a/0\n\nxxx")
        assert entry.endswith(" of 5000014 bytes shown]")
        assert 800_000 < len(entry.encode()) <= 900_000


async def any_window(stack: Stack) -> bool:
    return bool(await stack.agent.desktop("desk"))


@pytest.mark.spec("C-DESK-27", "R-PROJ-3", "R-PROJ-5", "R-PROJ-10")
async def test_windows_come_and_go_with_their_server_and_the_agent_is_told_each_time(tmp_path: Path) -> None:
    entry = shelf(tmp_path, "shelf", [window("window://a/1", "one")])
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        await until_told(stack, stack.computer.control("shelf_display", "stop"))
        assert await stack.agent.desktop("desk") == ()
        await until_told(stack, stack.computer.control("shelf_display", "start"))
        assert await stack.agent.desktop("desk") == ("window://a/1\n\none",)
        await until_told(stack, stack.computer.sync_config(config()))
        assert await stack.agent.desktop("desk") == ()


async def until_told(stack: Stack, change: Any) -> None:
    """Makes a change and waits for the notification of it."""
    async with stack.agent.notifications() as notices:
        await change
        with anyio.fail_after(10):
            async for notice in notices:
                if notice.event == "notify:update_desktop":
                    return


@pytest.mark.spec("C-GEN-15", "C-DESK-27", "R-PROJ-5")
@pytest.mark.parametrize("actor", ["desktop", "reconcile", "socket"])
async def test_a_killed_actor_loses_no_window_and_announces_no_change(tmp_path: Path, actor: str) -> None:
    entry = shelf(tmp_path, "shelf", [window("window://a/1", "one")])
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        told: list[str] = []
        async with stack.agent.notifications() as notices:
            await until_quiet(notices)  # the notice of the first window may still be under way
            assert stack.computer.kill_actor(actor)
            await stack.until(lambda: shown_again(stack))
            await stack.call("shelf_display__put", entry=window("window://a/1", "eins"))
            await stack.until(lambda: shows(stack, "window://a/1\n\neins"))
            with anyio.move_on_after(1.0):
                async for notice in notices:
                    told.append(notice.event)
        if actor != "socket":
            assert told.count("notify:update_desktop") == 1, told


async def until_quiet(notices: AsyncIterator[Any]) -> None:
    """Reads notices until none has come for ten times as long as they are held back."""
    while True:
        with anyio.move_on_after(0.3) as silence:
            await anext(notices)
        if silence.cancelled_caught:
            return


async def shown_again(stack: Stack) -> bool:
    try:
        return await stack.agent.desktop("desk") == ("window://a/1\n\none",)
    except PeerError:
        return False  # the Computer is not back in its office yet


@pytest.mark.spec("C-GEN-15", "C-DESK-8")
async def test_a_server_that_was_killed_is_subscribed_to_again(tmp_path: Path) -> None:
    entry = shelf(tmp_path, "shelf", [window("window://a/1", "one")])
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        assert stack.computer.kill_actor("mcp/shelf_display")
        await stack.computer.wait_for("degraded")
        await stack.until(lambda: shown_again(stack))
        await stack.until(lambda: subscribed_to(stack, ["window://a/1"]))
        await stack.call("shelf_display__put", entry=window("window://a/1", "eins"))
        await stack.until(lambda: shows(stack, "window://a/1\n\neins"))


async def test_an_agent_that_comes_later_sees_the_same_desktop(tmp_path: Path) -> None:
    entry = shelf(tmp_path, "shelf", [window("window://a/1", "one")])
    async with open_stack(config(entry)) as stack:
        await until_shown(stack, ["window://a/1\n\none"])
        await stack.agent.close()
        async with AsyncAgent(stack.server.url, name="second", office=OFFICE, backoff=QUICK) as second:
            assert await second.desktop("desk") == ("window://a/1\n\none",)
