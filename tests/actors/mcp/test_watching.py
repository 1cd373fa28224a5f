"""Reading, completing and watching resources for the channels: one error for each way to fail, nothing missed."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import msgspec
import pytest

from smcp_runtime.actors.mcp.failures import AuthorizationFailed, ConnectionLost, ErrorAnswer, TimeLimitReached
from smcp_runtime.actors.mcp.reading import read_failure
from smcp_runtime.actors.mcp.session.subscriptions import Subscriptions, updated_uri
from smcp_runtime.wire.errors import AuthError, NetworkError
from smcp_runtime.wire.messages.mcp import CompleteArgument, LaunchPlan, ReadResource, ResourceUpdated, WatchResources

from .conftest import Host, light

pytestmark = pytest.mark.anyio

CLOCK = "window://everything/clock"


def shelf_plan(folder: Path, *resources: dict[str, Any]) -> LaunchPlan:
    file = folder / "shelf.json"
    file.write_text(json.dumps(resources))
    arguments = ("-m", "smcp_runtime.fixtures.servers.light_shelf", "--shelf", str(file))
    return LaunchPlan("shelf", "shelf (display)", "stdio", command=sys.executable, args=arguments)


@pytest.mark.spec("C-DOC-22", "C-DOC-24", "C-DESK-9")
@pytest.mark.parametrize(
    ("failure", "modern", "code"),
    [
        (TimeLimitReached(1.0), False, "timeout"),
        (ErrorAnswer(-32002, "not found in /home"), False, "resource_not_found"),
        (ErrorAnswer(-32002, "gone"), True, "resource_not_found"),
        (ErrorAnswer(-32602, "unknown in /home"), True, "resource_not_found"),
        (ErrorAnswer(-32602, "Resource not found"), False, "upstream_error"),
        (ErrorAnswer(-32603, "Resource not found"), True, "upstream_error"),
        (ConnectionLost("the pipe closed"), False, "upstream_error"),
    ],
)
def test_how_a_read_failed_is_told_by_its_code_and_never_by_its_text(failure: Any, modern: bool, code: str) -> None:
    error = read_failure(failure, modern=modern)
    assert (type(error), error.code) == (NetworkError, code)
    assert str(failure) not in str(error)


@pytest.mark.spec("C-DESK-27", "C-DOC-30", "C-SKILL-75")
def test_new_contents_are_told_of_resources_that_a_channel_is_made_of_only() -> None:
    uris = ("window://s/a", "skill://s/a/SKILL.md", "DPE://h/r/pages/1", "file:///etc/motd", "windows://s", "dpe:h")
    told = [updated_uri(msgspec.Raw(json.dumps({"uri": uri}).encode())) for uri in uris]
    assert told == [*uris[:3], None, None, None]
    assert updated_uri(msgspec.Raw(b'{"uri": 7}')) is updated_uri(msgspec.Raw(b"{}")) is None


def test_a_read_without_authorization_is_an_error_of_its_own() -> None:
    assert isinstance(read_failure(AuthorizationFailed(4007, "forbidden")), AuthError)


class Breaking:
    """A session whose announcements break as they are given up: no server does that at a given turn of the loop."""

    modern = True
    capabilities = SimpleNamespace(tools_changed=True, resources_changed=False, subscribe=False)

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def listen(self, _uris: Sequence[str], on_open: Callable[[Sequence[str]], None]) -> None:
        on_open(())
        self.opened.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise ConnectionLost("the pipe closed")


async def test_a_stream_that_breaks_in_the_moment_its_session_ends_leaves_no_error_nobody_looked_at() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    session = Breaking()
    keeping = asyncio.create_task(Subscriptions(cast(Any, session), lambda _: None).keep())
    await session.opened.wait()
    keeping.cancel()
    await asyncio.wait([keeping])
    del keeping
    gc.collect()
    assert complaints == []


@pytest.mark.spec("C-DOC-22", "C-GEN-14")
async def test_each_way_to_fail_reaches_the_asker(host: Host, tmp_path: Path) -> None:
    plan = shelf_plan(
        tmp_path,
        {"uri": "a:hang", "then": "hang"},
        {"uri": "a:error", "then": {"error": -32603}},
        {"uri": "a:fine", "contents": [{"text": "fine"}]},
    )
    address = await host.start(plan)

    async def code(uri: str) -> str:
        with pytest.raises(NetworkError) as failed:
            await host.bus.ask(address, ReadResource(uri, timeout=0.3))
        return failed.value.code

    assert await code("a:hang") == "timeout"
    assert await code("a:error") == "upstream_error"
    assert await code("a:none") == "resource_not_found"
    assert json.loads((await host.bus.ask(address, ReadResource("a:fine", 5.0))).contents.data)[0]["text"] == "fine"
    await host.stop("shelf")
    assert await code("a:fine") == "not_connected"


@pytest.mark.spec("C-DOC-29")
async def test_completions_are_passed_on_and_a_server_without_them_proposes_nothing(host: Host, tmp_path: Path) -> None:
    address = await host.start(shelf_plan(tmp_path, *({"uri": f"dpe://h/{number}"} for number in range(120))))
    found = await host.bus.ask(address, CompleteArgument("dpe://h/{doc_ref}", "doc_ref", "dpe://h/1", {"x": "y"}))
    assert (len(found.values), found.total, found.has_more) == (31, 31, False)
    every = await host.bus.ask(address, CompleteArgument("dpe://h/{doc_ref}", "doc_ref", ""))
    assert (len(every.values), every.total, every.has_more) == (100, 120, True)
    plain = await host.start(light("plain"))
    assert (await host.bus.ask(plain, CompleteArgument("dpe://h/{doc_ref}", "doc_ref", ""))).values == ()


@pytest.mark.spec("C-DESK-8", "C-DESK-10", "F-53")
async def test_watching_something_else_as_well_misses_no_announcement(host: Host) -> None:
    module = "smcp_runtime.fixtures.servers.sdk_everything"
    plan = LaunchPlan("every", "Everything (display)", "stdio", command=sys.executable, args=("-m", module))
    address = await host.start(plan)
    await host.bus.ask(address, WatchResources("desktop", (CLOCK,)))
    for number in range(25):
        seen = len(host.seen(ResourceUpdated, "every"))
        async with anyio.create_task_group() as group:
            group.start_soon(host.bus.ask, address, WatchResources("skills", (f"skill://x/{number}",)))
            group.start_soon(host.call, "every", "set_clock", {"time": str(number)})
        await host.eventually(lambda seen=seen: len(host.seen(ResourceUpdated, "every")) > seen, timeout=3.0)
