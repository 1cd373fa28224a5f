"""The life of a Computer, operation by operation (03 §6), with real actors and a recording Server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime import fixtures
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    NetworkError,
    PolicyError,
    ProtocolVersionError,
)
from smcp_runtime.wire.lifecycle import StateChange
from support.leftovers import processes, tasks
from support.recording_server import RecordingServer
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio

MINIMAL = fixtures.config("minimal")


def computer(configuration: Any = None, **changes: Any) -> Computer:
    return Computer.from_config(configuration or MINIMAL, options(**changes))


class Log:
    """Every state change of a Computer."""

    def __init__(self, watched: Computer) -> None:
        self.changes: list[StateChange] = []
        self.forget = watched.observe(self.changes.append)

    @property
    def phases(self) -> list[str]:
        return [change.phase for change in self.changes]


# -- create ---------------------------------------------------------------------------------


@pytest.mark.spec("R-CFG-1", "T-CFG-1")
async def test_t_cfg_1_creating_does_nothing_but_read_the_configuration() -> None:
    before = tasks()
    made = computer(config(light("srv")))
    assert made.state == "created"
    assert tasks() == before
    assert processes() == set()


@pytest.mark.spec("R-CFG-2", "T-CFG-2")
async def test_an_invalid_configuration_gives_no_computer() -> None:
    with pytest.raises(ConfigValidationError) as refused:
        computer({"name": "desk", "mcp_servers": 5})
    assert refused.value.field == "mcp_servers"


# -- start and stop ---------------------------------------------------------------------------


@pytest.mark.spec("T-START-1", "R-LIFE-6", "R-LIFE-26")
async def test_t_start_1_a_start_and_a_shutdown_pass_through_their_phases_once_each_in_order() -> None:
    made = computer()
    log = Log(made)
    await made.start()
    assert made.state == "started"
    await made.shutdown()
    assert log.phases == ["starting", "started", "stopping", "shutdown"]
    assert [change.sequence for change in log.changes] == [1, 2, 3, 4]


@pytest.mark.spec("T-START-5")
async def test_t_start_5_starting_again_is_no_operation() -> None:
    async with computer(config(light("srv"))) as made:
        children = processes()
        log = Log(made)
        await made.start()
        assert log.changes == []
        assert processes() == children


@pytest.mark.spec("T-START-6", "R-LIFE-4")
async def test_t_start_6_after_a_shutdown_nothing_is_possible_any_more() -> None:
    made = computer()
    await made.shutdown()
    for operation in (made.start, made.connect, lambda: made.join("lab"), lambda: made.sync_config(MINIMAL)):
        with pytest.raises(ConflictError) as refused:
            await operation()
        assert refused.value.code == "lifecycle"
    await made.stop()
    await made.shutdown()
    await made.leave()
    await made.disconnect()
    assert made.state == "shutdown"


@pytest.mark.spec("T-STOP-2", "R-LIFE-19")
async def test_t_stop_2_a_stopped_computer_starts_again_with_its_intent() -> None:
    made = computer(config(light("srv")))
    await made.start()
    first = processes()
    await made.stop()
    assert (made.state, processes()) == ("stopped", set())
    assert (await made.diagnostics()).servers == ()
    await made.start()
    assert made.state == "started"
    assert len(processes()) == len(first)
    assert processes().isdisjoint(first)
    await made.shutdown()


@pytest.mark.spec("T-STOP-4", "R-LIFE-20")
async def test_t_stop_4_a_second_shutdown_waits_for_the_first_and_does_nothing() -> None:
    made = computer(config(light("srv")))
    await made.start()
    log = Log(made)
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(made.shutdown())
    assert log.phases == ["stopping", "shutdown"]


@pytest.mark.spec("R-LIFE-8", "R-SCOPE-3")
async def test_a_start_that_cannot_read_its_flag_file_is_an_error_that_a_repaired_file_ends(tmp_path: Path) -> None:
    flag = tmp_path / "servers.json"
    made = computer(flag_mcp_config=(str(flag),))
    log = Log(made)
    with pytest.raises(ConfigValidationError) as refused:
        await made.start()
    assert str(flag) in str(refused.value)
    assert made.state == "error"
    assert (await made.diagnostics()).failures["start"].kind == "ConfigValidationError"
    flag.write_text(json.dumps({"servers": [light("from a file")]}))
    await made.start()
    assert log.phases == ["starting", "error", "starting", "started"]
    assert [server.bundle_id for server in (await made.diagnostics()).servers] == ["from_a_file"]
    await made.shutdown()


@pytest.mark.spec("R-LIFE-5")
async def test_a_stop_interrupts_a_start_that_waits_for_its_servers() -> None:
    made = computer(config(light("slow", "--mute-initialize")), start_wait_s=30.0)
    log = Log(made)
    starting = asyncio.create_task(made.start())
    await until(processes)
    with anyio.fail_after(5):
        await made.stop()
    with pytest.raises(ConflictError) as interrupted:
        await starting
    assert interrupted.value.code == "interrupted"
    assert log.phases == ["starting", "stopped"]
    assert processes() == set()
    await made.shutdown()


@pytest.mark.spec("R-LIFE-5")
async def test_a_shutdown_interrupts_a_connect_to_a_server_that_never_answers() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    made = computer(connect_timeout_s=20.0)
    await made.start()
    log = Log(made)
    connecting = asyncio.create_task(made.connect(f"http://127.0.0.1:{port}"))
    await made.wait_for("connecting")
    with anyio.fail_after(3):
        await made.shutdown()
    with pytest.raises(ConflictError):
        await connecting
    assert log.phases == ["connecting", "started", "stopping", "shutdown"]
    listener.close()


@pytest.mark.spec("R-LIFE-2")
async def test_operations_asked_for_at_once_happen_one_after_another() -> None:
    async with RecordingServer() as server:
        made = computer(config(connection={"url": server.url, "office_id": "lab"}))
        log = Log(made)
        async with asyncio.TaskGroup() as group:
            for operation in (made.start, made.connect, made.leave, made.disconnect):
                group.create_task(operation())
        assert log.phases == [
            "starting", "started", "connecting", "connected", "joined_office", "connected", "disconnecting", "started",
        ]  # fmt: skip
        await made.shutdown()


# -- connect, join, leave ---------------------------------------------------------------------


@pytest.mark.spec("T-CONN-1", "T-CONN-2", "R-LIFE-10", "R-LIFE-11")
async def test_t_conn_1_t_conn_2_connecting_with_an_office_joins_it_and_shows_nothing_of_the_servers_credentials() -> (
    None
):
    async with RecordingServer() as server:
        secret = light("srv", "--token", "s3cret")
        secret["server_parameters"]["env"] = {"TOKEN": "s3cret"}
        connection = {
            "url": server.url + "?a=1",
            "office_id": "lab",
            "auth": {"user": "u"},
            "headers": {"X-Tenant": "t"},
        }
        async with computer(config(secret, connection=connection)) as made:
            await made.connect()
            assert (made.state, made.office) == ("joined_office", "lab")
            assert server.handshakes[0]["a2c_version"] == "0.4.0"
            assert server.handshakes[0]["a"] == "1"
            auth, headers = server.connects[0]
            assert auth == {"user": "u"}
            assert headers["HTTP_X_TENANT"] == "t"
            assert "s3cret" not in str((server.handshakes, server.connects, server.events))
            assert server.events[0] == (
                "server:join_office",
                {"role": "computer", "name": "desk", "office_id": "lab"},
            )


@pytest.mark.spec("T-CONN-3", "R-LIFE-12", "R-ERR-4")
@pytest.mark.parametrize("body", [b'{"code":4008,"message":"m","server_version":"9.9.9"}', b'{"code":4008'])
async def test_t_conn_3_a_refused_version_is_never_retried(body: bytes) -> None:
    async with RecordingServer() as server, computer() as made:
        server.refusal = (400, body, {"X-A2C-Error-Code": "4008"})
        with pytest.raises(ProtocolVersionError):
            await made.connect(server.url)
        assert made.state == "started"
        assert len(server.handshakes) == 1
        assert (await made.diagnostics()).failures["connect"].kind == "ProtocolVersionError"


@pytest.mark.spec("T-CONN-4", "R-LIFE-12")
async def test_t_conn_4_auth_network_and_join_failures_can_be_told_apart_and_leave_a_usable_computer() -> None:
    async with RecordingServer() as server, computer() as made:
        log = Log(made)
        server.admit = False
        with pytest.raises(AuthError):
            await made.connect(server.url)
        with pytest.raises(NetworkError):
            await made.connect("http://127.0.0.1:1")
        assert log.phases == ["connecting", "started", "connecting", "started"]
        server.admit = True
        server.on_join = lambda _request: (False, "[403] Name already in use")
        with pytest.raises(ConflictError) as refused:
            await made.connect(server.url, office="lab")
        assert (refused.value.code, made.state) == ("join_failed", "connected")
        server.on_join = lambda _request: (True, None)
        await made.join("lab")
        assert made.state == "joined_office"
        assert "connect" in (await made.diagnostics()).failures


@pytest.mark.spec("R-LIFE-4")
async def test_connecting_twice_to_one_server_is_no_operation_and_to_another_a_conflict() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url)
        await made.connect(server.url)
        with pytest.raises(ConflictError):
            await made.connect("http://127.0.0.1:1")
        assert len(server.connects) == 1


@pytest.mark.spec("R-LIFE-4")
async def test_joining_needs_a_connection_the_same_office_is_no_operation_and_another_means_leaving_first() -> None:
    async with RecordingServer() as server, computer() as made:
        with pytest.raises(ConflictError):
            await made.join("lab")
        await made.connect(server.url)
        await made.join("lab")
        await made.join("lab")
        await made.join("attic")
        assert made.office == "attic"
        assert server.named() == ["server:join_office", "server:leave_office", "server:join_office"]
        await made.leave()
        await made.leave()
        assert (made.state, made.office) == ("connected", None)


@pytest.mark.spec("R-LIFE-4")
async def test_without_a_url_there_is_nothing_to_connect_to() -> None:
    async with computer() as made:
        with pytest.raises(ConfigValidationError) as refused:
            await made.connect()
        assert refused.value.field == "connection.url"


@pytest.mark.spec("R-LIFE-14", "T-STOP-1")
async def test_t_stop_1_disconnecting_keeps_servers_running_and_announces_nothing_to_the_former_office() -> None:
    async with RecordingServer() as server, computer(config(light("srv"))) as made:
        await made.connect(server.url, office="lab")
        children = processes()
        await made.disconnect()
        server.events.clear()
        assert made.state == "started"
        assert processes() == children
        await made.mount(light("more"))
        await until(lambda: len(processes()) > len(children))
        assert [name for name in server.named() if name != "disconnect"] == []
        assert len((await made.diagnostics()).servers) == 2


@pytest.mark.spec("R-LIFE-6")
async def test_auto_connect_follows_a_start() -> None:
    async with RecordingServer() as server:
        connection = {"url": server.url, "office_id": "lab", "auto_connect": True}
        async with computer(config(connection=connection)) as made:
            assert made.state == "joined_office"


@pytest.mark.spec("R-LIFE-22", "W-AUTH-3")
async def test_a_provider_that_names_a_role_is_refused_before_anything_is_sent() -> None:
    async with RecordingServer() as server, computer(auth_payload_provider=lambda: {"role": "computer"}) as made:
        with pytest.raises(ConfigValidationError):
            await made.connect(server.url)
        assert server.connects == []


@pytest.mark.spec("R-LIFE-22", "W-AUTH-9")
@pytest.mark.parametrize("place", ["auth", "header"])
async def test_a_secret_resolved_for_a_server_is_refused_in_the_handshake(place: str) -> None:
    server_entry = light("srv")
    server_entry["server_parameters"]["env"] = {"TOKEN": "${input:api_token}"}
    inputs = [{"type": "promptString", "id": "api_token", "description": "d", "password": True}]
    environment = {"A2C_SMCP_api_token": "s3cret-value", "PATH": "/usr/bin:/bin"}
    async with RecordingServer() as server:
        connection = {"url": server.url, "headers": {"x-api-key": "s3cret-value"}} if place == "header" else None
        made = computer(
            config(server_entry, inputs=inputs, connection=connection),
            env=environment,
            auth_payload_provider={"token": "s3cret-value"} if place == "auth" else None,
        )
        async with made:
            with pytest.raises(PolicyError) as refused:
                await made.connect(server.url)
        assert refused.value.code == "secret_in_auth"
        assert server.connects == []


# -- losses -------------------------------------------------------------------------------------


@pytest.mark.spec("R-LIFE-13", "DEC-17")
async def test_a_lost_connection_is_repaired_and_the_state_says_so() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url, office="lab")
        log = Log(made)
        await server.kick()
        await until(lambda: log.phases[-1:] == ["joined_office"])
        assert log.phases == ["connecting", "connected", "joined_office"]
        assert made.office == "lab"


@pytest.mark.spec("R-LIFE-13")
async def test_leaving_while_the_server_is_gone_gives_up_the_office_for_good() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url, office="lab")
        await server.stop()
        await made.wait_for("connecting")
        await made.leave()
        server.events.clear()
        await server.start()
        await made.wait_for("connected")
        assert "server:join_office" not in server.named()


@pytest.mark.spec("R-LIFE-12")
async def test_a_version_refused_on_a_reconnect_ends_in_started_with_the_reason() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url, office="lab")
        server.refusal = (400, b'{"code":4008,"message":"m"}', {})
        await server.kick()
        await made.wait_for("started")
        failure = (await made.diagnostics()).link_failure
        assert failure is not None
        assert failure.code == "protocol_version"
        server.refusal = None
        await made.connect(server.url, office="lab")
        assert made.state == "joined_office"


@pytest.mark.spec("DEC-1")
@pytest.mark.parametrize("address", ["socket", "tools", "reconcile"])
async def test_each_core_actor_can_be_killed_and_the_computer_is_whole_again(address: str) -> None:
    async with RecordingServer() as server, computer(config(light("srv"))) as made:
        await made.connect(server.url, office="lab")
        children = processes()
        assert made.kill_actor(address)

        async def reborn() -> bool:
            known = await made.diagnostics()
            again = [actor for actor in known.actors if actor.address == address and actor.incarnation == 2]
            return bool(again) and again[0].state == "up" and known.link.phase == "joined"

        await until(reborn, 10)
        await made.wait_for("joined_office")
        answer = None
        with anyio.fail_after(10):
            while not (answer and answer.get("tools")):
                answer = await server.ask(
                    "client:get_tools", {"agent": "a", "req_id": "r", "computer": "desk"}, timeout=8
                )
        assert [tool["name"] for tool in answer["tools"]] == ["srv__echo"]
        assert processes() == children


@pytest.mark.spec("R-LIFE-7", "R-LIFE-24", "R-LIFE-1")
async def test_a_server_that_cannot_start_makes_the_computer_degraded_until_it_is_taken_away() -> None:
    broken = {"name": "broken", "type": "stdio", "server_parameters": {"command": "no-such-command-anywhere"}}
    async with computer(config(light("good"))) as made:
        log = Log(made)
        await made.mount(broken)
        await until(lambda: made.state == "degraded")
        assert made.phase == "started"
        (open_one,) = (await made.diagnostics()).degradations
        assert (open_one.component, open_one.identity, open_one.category) == ("server", "broken", "startup")
        await made.unmount("broken")
        await until(lambda: made.state == "started")
        assert [change.state for change in log.changes] == ["degraded", "started"]


@pytest.mark.spec("R-LIFE-26")
async def test_an_observer_that_fails_harms_nobody_and_one_that_left_hears_nothing() -> None:
    made = computer()
    heard: list[str] = []

    def broken(_change: StateChange) -> None:
        raise RuntimeError("no")

    made.observe(broken)
    forget = made.observe(lambda change: heard.append(change.phase))
    await made.start()
    forget()
    forget()
    await made.shutdown()
    assert heard == ["starting", "started"]


# -- several at once ------------------------------------------------------------------------------


@pytest.mark.spec("R-CORE-1")
async def test_two_computers_in_one_process_do_not_notice_each_other() -> None:
    async with RecordingServer() as one, RecordingServer() as two:
        first = computer(config(light("srv"), name="first"))
        second = computer(config(light("srv"), name="second"))
        async with first, second:
            await first.connect(one.url, office="lab")
            await second.connect(two.url, office="lab")
            before = len(processes())
            await first.stop()
            assert len(processes()) < before
            assert second.state == "joined_office"
            request = {"agent": "a", "req_id": "r", "computer": "second"}
            answer = await two.ask("client:get_tools", request)
            assert [tool["name"] for tool in answer["tools"]] == ["srv__echo"]


async def test_a_computer_can_be_started_in_one_task_and_shut_down_in_another() -> None:
    made = computer(config(light("srv")))
    await asyncio.create_task(made.start())
    await asyncio.create_task(made.shutdown())
    assert made.state == "shutdown"


@pytest.mark.spec("R-LIFE-15", "R-LIFE-18", "T-SYNC-6", "T-SYNC-7")
async def test_t_sync_6_t_sync_7_syncing_applies_a_difference_ignores_an_equal_config_and_refuses_an_invalid_one() -> (
    None
):
    first = config(light("one"))
    async with computer(first) as made:
        log = Log(made)
        await made.sync_config(first)
        assert log.changes == []
        with pytest.raises(ConfigValidationError):
            await made.sync_config({"name": "desk", "mcp_servers": 5})
        with pytest.raises(ConfigValidationError):
            await made.sync_config(config(name="other"))
        assert [server.bundle_id for server in (await made.diagnostics()).servers] == ["one"]
        result = await made.sync_config(config(light("one"), light("two")))
        assert result.started == ("two",)
        assert log.phases[:2] == ["syncing", "started"]
        assert made.config.name == "desk"
        assert len(made.config.servers) == 2


@pytest.mark.spec("R-LIFE-15")
async def test_syncing_a_stopped_computer_only_replaces_what_it_holds() -> None:
    made = computer()
    await made.sync_config(config(light("one")))
    assert made.state == "created"
    async with made:
        assert [server.bundle_id for server in (await made.diagnostics()).servers] == ["one"]


@pytest.mark.spec("R-LIFE-2", "DEC-37")
async def test_a_change_of_one_server_waits_neither_for_another_servers_end_nor_for_a_connection() -> None:
    stubborn = light("stubborn", "--ignore-eof", "--ignore-term")
    async with RecordingServer() as server, computer(config(stubborn, light("srv"))) as made:
        joining = anyio.Event()

        async def hold_the_join() -> None:
            joining.set()
            await anyio.sleep(2)

        server.before_join_ack = hold_the_join
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(made.control("stubborn", "stop"))
            connecting = group.create_task(made.connect(server.url, office="lab"))
            await joining.wait()
            with anyio.fail_after(1):
                await made.mount(light("quick"))
                assert (await made.control("srv", "stop")).activation == "stopped"
            assert not connecting.done()
            assert not stopping.done()
        assert stopping.result().activation == "stopped"
        assert made.state == "joined_office"


@pytest.mark.spec("R-LIFE-2")
async def test_a_change_asked_for_during_a_start_happens_after_it() -> None:
    made = computer()
    async with asyncio.TaskGroup() as group:
        group.create_task(made.start())
        await made.wait_for("starting")
        result = await made.mount(light("srv"))
    assert result.started == ("srv",)
    await made.shutdown()


@pytest.mark.spec("R-LIFE-4")
async def test_a_change_of_a_stopped_computer_is_a_conflict() -> None:
    made = computer()
    with pytest.raises(ConflictError) as refused:
        await made.mount(light("srv"))
    assert refused.value.code == "lifecycle"
