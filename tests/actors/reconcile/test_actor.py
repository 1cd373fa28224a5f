"""The reconcile actor on a real bus: set, commits, starts, changes, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.reconcile.rendering.resolution import Chain, ValueRequest
from smcp_runtime.bus import Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import (
    ConfigValidationError,
    ConflictError,
    MissingInputError,
    PolicyError,
    SmcpError,
    StartupError,
)
from smcp_runtime.wire.messages.kernel import ActorDown
from smcp_runtime.wire.messages.projection import EndStart, GrantStart, SyncConfig

from .conftest import RECONCILE, SlowKeeper, World

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
PROMPT = {"id": "t", "description": "d", "type": "promptString"}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestStart:
    @spec("T-START-1", "R-LIFE-9", "DEC-27")
    async def test_an_empty_configuration_commits_an_empty_projection(self, world: World) -> None:
        await world.start()
        first = await world.next_commit()
        assert (first.number, first.changed, first.filled) == (1, (), ())
        assert (await world.servers(), await world.names()) == ({}, [])

    @spec("T-START-2", "R-LIFE-9")
    async def test_servers_start_and_their_tools_are_listed_under_their_identity(self, world: World) -> None:
        await world.start({"echo srv (display)": {"command": "c"}})
        await world.until_listed("echo_srv_display__echo")
        assert list(await world.servers()) == ["echo_srv_display"]

    @spec("DEC-27", "R-PROJ-3")
    async def test_the_first_commit_is_a_change_from_an_empty_projection(self, world: World) -> None:
        await world.start(["a"])
        assert (await world.next_commit()).changed == ("config",)
        await world.until_listed("a__echo")
        later = await world.next_commit()
        while "tool_list" not in later.changed:
            later = await world.next_commit()
        assert later.filled == ("config", "tool_list")

    @spec("R-LIFE-7", "DEC-4", "T-START-3", "F-54")
    async def test_a_server_that_cannot_be_rendered_degrades_and_hides_nothing_else(self, world: World) -> None:
        await world.start({"bad": {"command": "${input:ghost}"}, "good": {"command": "c"}})
        await world.until_listed("good__echo")
        await world.until(lambda: any(one == ("start", "bad") for one in world.orders))

        async def degraded() -> bool:
            return bool((await world.status()).degradations)

        await world.until(degraded)
        (found,) = (await world.status()).degradations
        assert (found.identity, found.category, found.since) == ("bad", "missing_input", 500.0)

    @spec("R-MCP-17")
    async def test_a_disabled_server_has_no_actor_and_is_shown_as_disabled(self, world: World) -> None:
        await world.start({"off": {"command": "c", "disabled": True}, "on": {"command": "c"}})
        await world.until_listed("on__echo")
        assert list(world.actors) == ["on"]
        assert (await world.servers())["off"]["disabled"] is True
        assert (await world.server("off")).activation == "stopped"

    async def test_without_auto_start_servers_have_actors_and_wait_for_an_order(self, world: World) -> None:
        await world.start(["a"], auto_start=False)
        await world.until(lambda: "a" in world.actors)
        assert (await world.server("a")).activation == "stopped"
        await world.control("a", "start")
        await world.until_listed("a__echo")

    @spec("DEC-37")
    async def test_a_server_that_is_not_up_yet_is_on_its_way_and_no_degradation(self, world: World) -> None:
        world.keeper = SlowKeeper(world.keeper, "slow")
        await world.start(["slow", "quick"])
        await world.until_listed("quick__echo")
        status = await world.status()
        assert (await world.server("slow")).connection == "connecting"
        assert status.degradations == ()
        world.keeper.let.set()
        await world.until_listed("quick__echo", "slow__echo")

    @spec("R-SCOPE-3", "R-LIFE-8")
    @pytest.mark.parametrize("text", [None, "{", '{"servers": {"a": {}}}'])
    async def test_a_bad_flag_file_fails_the_start(self, world: World, tmp_path: Path, text: str | None) -> None:
        path = tmp_path / "mcp.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigValidationError) as caught:
            await world.start(["a"], flag_mcp_config=[str(path)])
        assert caught.value.source == str(path)
        assert world.actors == {}

    @spec("R-SCOPE-3", "R-SCOPE-7")
    async def test_a_flag_file_beats_the_configuration(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "mcp.json").write_text(
            json.dumps({"mcpServers": {"a": {"command": "flag"}, "b": {"command": "c"}}})
        )
        await world.start(["a"], flag_mcp_config=[str(tmp_path / "mcp.json")])
        await world.until_listed("a__echo", "b__echo")
        assert world.plans["a"][0].command == "flag"


class TestPlans:
    async def test_a_plan_is_rendered_with_inputs_policies_and_places(self, world: World) -> None:
        server = {
            "command": "${input:t}",
            "env": {"H": "${env:HOST}"},
            "reconnect": {"max_retries": 2},
            "type": "stdio",
        }
        native = {**{k: v for k, v in server.items() if k in ("type", "reconnect")}}
        native["server_parameters"] = {"command": server["command"], "env": server["env"]}
        await world.start({"a": native}, [PROMPT], env={"A2C_SMCP_t": "tool", "HOST": "h"}, server_start_timeout_s=7.0)
        plan = await world.plan("a")
        assert (plan.command, plan.env, plan.cwd, plan.start_timeout) == ("tool", {"H": "h"}, "/project", 7.0)
        assert plan.reconnect.max_retries == 2

    @spec("R-INPUT-20", "R-INPUT-19", "T-RERES-1")
    async def test_every_start_resolves_again(self, world: World) -> None:
        asked: list[ValueRequest] = []

        class Counter:
            async def find(self, request: ValueRequest) -> object:
                asked.append(request)
                return f"v{len(asked)}"

        await world.start({"a": {"command": "${input:t}"}}, [PROMPT], chain=Chain(before=[Counter()]), auto_start=False)
        assert [(await world.plan("a")).command for _ in range(2)] == ["v1", "v2"]

    @spec("R-LIFE-22", "R-INPUT-23")
    async def test_resolved_secrets_are_registered_and_plain_values_are_not(self, world: World) -> None:
        secret = {**PROMPT, "id": "s", "password": True}
        await world.start(
            {"a": {"command": "c", "args": ["${input:t}", "${input:s}"]}},
            [PROMPT, secret],
            env={"A2C_SMCP_t": "plain", "A2C_SMCP_s": "sk-1"},
        )
        plan = await world.plan("a")
        assert (plan.secrets, world.held.secrets) == (("sk-1",), {"sk-1"})
        await world.sync([])
        await world.until(lambda: world.held.secrets == frozenset())

    @spec("T-PROJ-1", "R-MCP-10", "R-SEC-3")
    async def test_what_was_rendered_never_shows_in_the_projection(self, world: World) -> None:
        await world.start({"a": {"command": "c", "args": ["${input:t}"]}}, [PROMPT], env={"A2C_SMCP_t": "sk-1"})
        await world.until_listed("a__echo")
        shown = json.dumps(await world.servers())
        assert "${input:t}" in shown
        assert "sk-1" not in shown

    @spec("R-MCP-3", "R-MCP-4")
    async def test_an_env_file_is_read_for_each_start_and_a_missing_one_is_a_warning(
        self, world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "x.env").write_text("A=file\nB=file\n")
        native = {"type": "stdio", "envFile": "x.env", "server_parameters": {"command": "c", "env": {"A": "explicit"}}}
        await world.start({"a": native}, project_root=str(tmp_path), auto_start=False)
        assert (await world.plan("a")).env == {"A": "explicit", "B": "file"}
        (tmp_path / "x.env").unlink()
        assert (await world.plan("a")).env == {"A": "explicit"}
        assert "env file could not be read" in caplog.text

    @spec("R-MGMT-4")
    async def test_there_is_no_plan_for_unknown_and_disabled_servers(self, world: World) -> None:
        await world.start({"off": {"command": "c", "disabled": True}})
        with pytest.raises(ConfigValidationError) as unknown:
            await world.plan("ghost")
        with pytest.raises(PolicyError):
            await world.plan("off")
        assert unknown.value.code == "unknown_server"


class TestSync:
    @spec("T-SYNC-1", "R-LIFE-15", "W-CMP-4")
    async def test_an_added_server_starts_and_the_change_is_committed(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        result = await world.sync(["a", "b"])
        assert result.started == ("b",)
        assert list(await world.servers()) == ["a", "b"]
        await world.until_listed("a__echo", "b__echo")
        assert world.orders.count(("start", "a")) == 1

    @spec("T-SYNC-2", "R-LIFE-16", "W-CMP-4", "R-SEC-8")
    async def test_a_removed_server_is_withdrawn_before_it_has_stopped(self, world: World) -> None:
        await world.start(["a", "b"])
        await world.until_listed("a__echo", "b__echo")
        world.may_stop = anyio.Event()
        result = await world.sync(["a"])
        assert (result.stopped, await world.names(), list(await world.servers())) == (("b",), ["a__echo"], ["a"])
        world.may_stop.set()
        await world.until(lambda: "mcp/b" not in world.bus.addresses())

    @spec("T-SYNC-2", "R-MCP-17")
    async def test_a_server_disabled_by_a_sync_stops_and_starts_again_when_enabled(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.sync({"a": {"command": "a", "disabled": True}})
        assert await world.names() == []
        await world.until(lambda: "mcp/a" not in world.bus.addresses())
        await world.sync(["a"])
        await world.until_listed("a__echo")

    @spec("T-SYNC-3", "R-LIFE-15")
    async def test_metadata_alone_changes_the_list_without_a_restart(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        result = await world.sync({"a": {"command": "a", "tool_meta": {"echo": {"alias": "say"}}}})
        assert (result.remeta, result.restarted, await world.names()) == (("a",), (), ["a__say"])
        assert world.orders == [("start", "a")]

    @spec("R-LIFE-15", "R-INPUT-20")
    async def test_a_changed_command_restarts_its_server_from_the_new_entry(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        result = await world.sync({"a": {"command": "new"}})
        assert result.restarted == ("a",)
        await world.until(lambda: len(world.plans["a"]) == 2)
        assert [plan.command for plan in world.plans["a"]] == ["a", "new"]
        await world.until_listed("a__echo")

    @spec("R-LIFE-18", "T-SYNC-6")
    async def test_an_equal_configuration_changes_nothing_and_says_nothing(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        before = (await world.status()).commit
        result = await world.sync(["a"])
        assert (result.commit, world.orders) == (before, [("start", "a")])

    @spec("T-SYNC-7", "R-LIFE-15", "R-CFG-8")
    async def test_an_invalid_configuration_leaves_everything_as_it_was(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        with pytest.raises(ConfigValidationError):
            await world.bus.ask(RECONCILE, sync_of('{"name": "desk", "servers": {"a": {"command": 5}}}'))
        assert await world.names() == ["a__echo"]
        assert world.held.config == world.config(["a"])

    @spec("T-RERES-6", "R-INPUT-21", "R-LIFE-17")
    async def test_a_restart_that_cannot_be_rendered_keeps_the_old_server_and_the_old_view(self, world: World) -> None:
        await world.start(["a", "b"])
        await world.until_listed("a__echo", "b__echo")
        result = await world.sync({"a": {"command": "${input:ghost}"}, "b": {"command": "new"}})
        assert (result.failed, result.restarted) == (("a",), ("b",))
        assert (await world.servers())["a"]["server_parameters"]["command"] == "a"
        await world.until(lambda: ("restart", "b") in world.orders)
        assert ("restart", "a") not in world.orders
        assert [found.identity for found in (await world.status()).degradations] == ["a"]

    @spec("DEC-37", "F-14")
    async def test_an_operation_does_not_wait_for_the_server_of_another(self, world: World) -> None:
        await world.start(["a", "b"])
        await world.until_listed("a__echo", "b__echo")
        world.may_stop = anyio.Event()
        await world.sync(["b"])
        with anyio.fail_after(2):
            await world.sync(["b", "c"])
            await world.until_listed("b__echo", "c__echo")
            assert (await world.server("b")).connection == "connected"
        world.may_stop.set()

    @spec("DEC-37")
    async def test_a_server_that_is_removed_and_added_again_at_once_ends_up_running(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        world.may_stop = anyio.Event()
        await world.sync([])
        await world.sync({"a": {"command": "second"}})
        world.may_stop.set()
        await world.until(lambda: world.plans["a"][-1].command == "second")
        await world.until_listed("a__echo")


class TestMounts:
    @spec("F-09", "R-FIX-3", "R-PROJ-1", "R-CORE-9")
    async def test_a_computer_built_empty_shows_what_is_mounted_at_run_time_until_it_is_unmounted(
        self, world: World
    ) -> None:
        await world.start()
        await world.mount(name="m", command="c")
        assert list(await world.servers()) == ["m"]
        await world.until_listed("m__echo")
        await world.unmount("m")
        assert (await world.servers(), await world.names()) == ({}, [])

    @spec("R-MCP-9", "W-ID-20", "W-ID-22")
    async def test_mounting_a_known_id_replaces_it_in_place(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        result = await world.mount(name="another name", bundle_id="a", command="mounted")
        assert result.restarted == ("a",)
        await world.until(lambda: len(world.plans["a"]) == 2)
        assert list(world.actors) == ["a"]

    async def test_unmounting_lets_the_declared_entry_show_again(self, world: World) -> None:
        await world.start(["a"])
        await world.mount(name="a", command="mounted")
        await world.unmount("a")
        assert (await world.servers())["a"]["server_parameters"]["command"] == "a"

    @spec("R-MGMT-4")
    async def test_a_declared_server_cannot_be_unmounted(self, world: World) -> None:
        await world.start(["a"])
        with pytest.raises(ConflictError, match="declared by config"):
            await world.unmount("a")

    @spec("R-INPUT-18", "T-ENV-2")
    async def test_a_mount_that_would_share_a_variable_with_another_input_is_refused_whole(self, world: World) -> None:
        await world.start({"a-b": {"command": "${input:t}"}}, [PROMPT], env={"A2C_SMCP_t": "c"})
        with pytest.raises(ConflictError) as caught:
            await world.mount(name="a_b", command="${input:t}")
        assert caught.value.code == "env_name_collision"
        assert list(await world.servers()) == ["a-b"]

    @spec("W-ID-24")
    async def test_two_instances_of_one_software_live_side_by_side_under_their_own_ids(self, world: World) -> None:
        await world.start({"fs": {"command": "c", "bundle_id": "fs_1"}})
        await world.mount(name="fs", bundle_id="fs_2", command="c")
        await world.until_listed("fs_1__echo", "fs_2__echo")

    @spec("R-CFG-2")
    async def test_a_bad_mount_names_its_fault_and_changes_nothing(self, world: World) -> None:
        await world.start()
        with pytest.raises(ConfigValidationError) as caught:
            await world.mount(name="m", command=7)
        assert caught.value.field == "server.command"
        assert await world.servers() == {}


class TestControl:
    @spec("R-MGMT-4", "DEC-25")
    async def test_a_server_stopped_by_hand_stays_stopped_through_changes_until_it_is_started(
        self, world: World
    ) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        assert (await world.control("a", "stop")).activation == "stopped"
        await world.until_listed()
        await world.sync({"a": {"command": "new"}})
        await world.sync({"a": {"command": "newer"}})
        assert ("restart", "a") not in world.orders
        await world.control("a", "start")
        await world.until_listed("a__echo")
        assert world.plans["a"][-1].command == "newer"

    async def test_a_restart_renders_again(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.control("a", "restart")
        assert len(world.plans["a"]) == 2

    @spec("R-MCP-25", "R-MGMT-4")
    async def test_a_start_that_is_asked_for_is_told_how_it_ended(self, world: World) -> None:
        inputs = [{"type": "promptString", "id": "t", "description": "d"}]
        await world.start({"a": {"command": "c", "args": ["${input:t}"]}, "b": {"command": "c"}}, inputs)
        await world.until_listed("b__echo")
        with pytest.raises(MissingInputError) as caught:
            await world.control("a", "start")
        assert (caught.value.input_id, caught.value.bundle_id) == ("t", "a")
        await world.control("b", "stop")
        assert (await world.control("b", "start")).connection == "connected"

    @spec("R-MGMT-2", "R-MGMT-4", "T-MGMT-4")
    async def test_servers_are_addressed_by_identity_only(self, world: World) -> None:
        await world.start({"display name": {"command": "c"}})
        with pytest.raises(ConfigValidationError) as caught:
            await world.control("display name", "stop")
        assert caught.value.code == "unknown_server"

    @spec("R-MGMT-4")
    async def test_a_disabled_server_cannot_be_started(self, world: World) -> None:
        await world.start({"a": {"command": "c", "disabled": True}})
        with pytest.raises(PolicyError):
            await world.control("a", "start")


class TestFacts:
    @spec("DEC-25", "R-PROJ-8", "R-MCP-24")
    async def test_a_lost_server_is_withdrawn_and_returns_with_its_next_listing(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        server = world.actors["a"]
        server.lose()
        await world.until_listed()
        assert [found.code for found in (await world.status()).degradations] == ["lost"]
        server.session += 1
        server.connected = True
        server.report("connected", "ready")
        assert await world.names() == []
        server.list_tools()
        await world.until_listed("a__echo")
        assert (await world.status()).degradations == ()

    @spec("F-53", "R-PROJ-5")
    async def test_a_listing_that_says_the_same_is_no_change(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        before = (await world.status()).commit
        world.actors["a"].list_tools()
        await world.status()
        assert (await world.status()).commit == before

    @spec("DEC-4", "W-EXP-6")
    async def test_a_burst_of_listings_costs_few_commits_and_ends_with_the_last(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        before = (await world.status()).commit
        for number in range(50):
            world.actors["a"].list_tools(f"t{number}")
        await world.until_listed("a__t49")
        assert (await world.status()).commit - before < 10

    @spec("R-PROJ-3", "R-LIFE-3")
    async def test_a_commit_is_announced_after_it_can_be_read(self, world: World) -> None:
        await world.start(["a"])
        while "tool_list" not in (await world.next_commit()).changed:
            pass
        assert await world.names() == ["a__echo"]

    async def test_facts_about_servers_outside_the_set_are_ignored(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        stranger = world.actors["a"]
        stranger.bundle_id = "stranger"
        stranger.report("connected", "ready")
        stranger.list_tools()
        assert await world.names() == ["a__echo"]
        assert [status.bundle_id for status in (await world.status()).servers] == ["a"]

    @spec("W-ID-25", "R-LIFE-25", "W-EXP-5")
    async def test_diagnostics_stay_local(self, world: World) -> None:
        await world.start({"a": {"command": "c", "tool_meta": {"x": {"alias": "same"}, "y": {"alias": "same"}}}})
        world.tools["a"] = ("x", "y")
        await world.until_listed("a__same")

        async def told() -> bool:
            return any("hidden" in line for line in (await world.status()).findings)

        await world.until(told)
        assert "hidden" not in json.dumps(await world.servers())

    @spec("R-MCP-11")
    async def test_a_server_without_an_entry_is_omitted_and_reported(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        world.may_stop = anyio.Event()
        await world.sync([])
        assert await world.servers() == {}
        assert any(line.startswith("a: has no entry") for line in (await world.status()).findings)
        world.may_stop.set()


class TestGate:
    @spec("DEC-3")
    async def test_places_are_given_up_to_the_cap_and_passed_on(self, world: World) -> None:
        await world.start(max_concurrent_starts=1)
        got: list[str] = []

        async def take(name: str) -> None:
            await world.bus.ask(RECONCILE, GrantStart(name))
            got.append(name)

        async with anyio.create_task_group() as group:
            await take("a")
            group.start_soon(take, "b")
            await world.status()
            assert got == ["a"]
            await world.bus.ask(RECONCILE, EndStart("a"))
        assert got == ["a", "b"]

    @spec("DEC-3")
    async def test_who_stops_waiting_leaves_the_queue(self, world: World) -> None:
        await world.start(max_concurrent_starts=1)
        await world.bus.ask(RECONCILE, GrantStart("a"))
        with pytest.raises(SmcpError):
            await world.bus.ask(RECONCILE, GrantStart("b"), timeout=0.05)
        await world.bus.ask(RECONCILE, EndStart("a"))
        await world.bus.ask(RECONCILE, GrantStart("c"), timeout=5)

    @spec("DEC-3")
    async def test_a_dead_actor_gives_its_place_back(self, world: World) -> None:
        await world.start(["a"], max_concurrent_starts=1)
        await world.until_listed("a__echo")
        await world.bus.ask(RECONCILE, GrantStart("a"))
        world.supervisor.kill_child(Address("mcp/a"))
        await world.bus.ask(RECONCILE, GrantStart("other"), timeout=5)

    @spec("DEC-3", "R-LIFE-19")
    async def test_what_is_queued_at_a_halt_ends_at_once(self, world: World) -> None:
        await world.start(max_concurrent_starts=1)
        await world.bus.ask(RECONCILE, GrantStart("a"))
        refused: list[str] = []

        async def wait() -> None:
            with pytest.raises(StartupError) as caught:
                await world.bus.ask(RECONCILE, GrantStart("b"))
            refused.append(caught.value.code)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await world.status()
                await world.halt()
        assert refused == ["stopping"]


class TestFaults:
    @spec("DEC-35", "F-95")
    async def test_a_killed_server_actor_is_told_to_start_again(self, world: World) -> None:
        await world.start(["a", "b"])
        await world.until_listed("a__echo", "b__echo")
        world.supervisor.kill_child(Address("mcp/a"))
        await world.until(lambda: world.orders.count(("start", "a")) == 2)
        await world.until_listed("a__echo", "b__echo")
        assert (await world.status()).degradations == ()

    @spec("DEC-35", "F-95")
    async def test_a_server_actor_that_died_while_reconcile_was_down_is_told_to_start_again(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        for victims in (RECONCILE, Address("mcp/a")), (Address("mcp/a"), RECONCILE):
            before = world.orders.count(("start", "a"))
            for victim in victims:
                world.supervisor.kill_child(victim)
            await world.until(lambda before=before: world.orders.count(("start", "a")) > before)
            await world.until_listed("a__echo")

    @spec("DEC-35", "R-MCP-10")
    async def test_a_plan_handed_out_to_a_dead_actor_does_not_count_as_a_start_of_its_next_life(
        self, world: World
    ) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        with Observer(world.bus, ActorDown) as downs:
            world.supervisor.kill_child(Address("mcp/a"))
            with anyio.fail_after(5):
                await anext(aiter(downs))
        await world.plan("a")
        await world.until(lambda: world.orders.count(("start", "a")) == 2)

    @spec("DEC-35")
    async def test_a_killed_actor_of_a_stopped_server_stays_stopped(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.control("a", "stop")
        await world.kill("mcp/a")
        await world.status()
        assert world.orders.count(("start", "a")) == 1

    @spec("DEC-35", "C-GEN-15")
    async def test_a_killed_tool_actor_gets_its_slice_again_and_agents_hear_nothing(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        while "tool_list" not in (await world.next_commit()).changed:
            pass
        world.supervisor.kill_child(Address("tools"))
        assert (await world.next_commit()).changed == ()
        assert await world.names() == ["a__echo"]

    @spec("DEC-35", "R-CORE-4", "R-PROJ-5")
    async def test_a_killed_reconcile_actor_finds_its_servers_running_and_changes_nothing(self, world: World) -> None:
        await world.start(["a", "b"])
        await world.until_listed("a__echo", "b__echo")
        await world.mount(name="m", command="c")
        await world.until_listed("a__echo", "b__echo", "m__echo")
        await world.control("b", "stop")
        await world.until_listed("a__echo", "m__echo")
        orders, commit = list(world.orders), (await world.status()).commit
        await world.kill("reconcile")
        world.tools["a"] = ("echo", "new")
        world.actors["a"].list_tools()
        await world.until_listed("a__echo", "a__new", "m__echo")
        assert world.orders == orders
        assert (await world.status()).commit > commit
        assert sorted(await world.servers()) == ["a", "b", "m"]

    @spec("DEC-35")
    async def test_what_a_server_did_while_reconcile_was_down_is_learned_afterwards(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        world.supervisor.kill_child(RECONCILE)
        world.tools["a"] = ("other",)
        await world.until_listed("a__other")

    @spec("DEC-4", "DEC-35")
    async def test_the_configuration_is_committed_even_while_tools_are_down(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.supervisor.stop_child(Address("tools"))
        assert (await world.sync(["a", "b"])).started == ("b",)
        assert list(await world.servers()) == ["a", "b"]


class TestHalt:
    @spec("R-LIFE-19", "DEC-13")
    async def test_a_halt_ends_all_servers_side_by_side_and_empties_the_projection(self, world: World) -> None:
        await world.start(["a", "b", "c"])
        await world.until_listed("a__echo", "b__echo", "c__echo")
        await world.halt()
        assert [address for address in world.bus.addresses() if address.startswith("mcp/")] == []
        assert (await world.servers(), await world.names()) == ({}, [])
        assert (await world.status()).filled == ()

    async def test_nothing_starts_after_a_halt(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.halt()
        await world.sync(["a", "b"])
        await world.status()
        assert world.orders.count(("start", "b")) == 0


def sync_of(text: str) -> Any:
    return SyncConfig(Attachment(text.encode()))
