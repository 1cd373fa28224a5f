"""Lazy servers in the set: started once to be listed, and from then on only when somebody calls them (F-68)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry, read_entry
from smcp_runtime.actors.reconcile.held import Held
from smcp_runtime.actors.reconcile.lazy import shelf
from smcp_runtime.wire.errors import StartupError
from smcp_runtime.wire.messages.projection import SeatServer

from .conftest import RECONCILE, World

spec = pytest.mark.spec
anyio_test = pytest.mark.anyio
LAZY = {"server_limits": {"lazy": True}}
OWN = ["smcp_call_tool", "smcp_describe_tool", "smcp_search_tools"]


def entry(**raw: Any) -> ServerEntry:
    found = read_entry({"name": "a", "command": "run", **raw}, "e", Findings())
    assert found is not None
    return found


def listing(*names: str) -> bytes:
    return json.dumps([{"name": name, "inputSchema": {}} for name in names], separators=(",", ":")).encode()


def keep(state: Path, *names: str, of: ServerEntry | None = None) -> None:
    """What an earlier run of `a` has left."""
    shelf.keep_all(state, {shelf.key_of(of or entry(command="a")): listing(*names)})


@spec("F-68")
class TestShelf:
    """Listings on disk."""

    def test_what_was_kept_is_read_again_and_is_the_owners_alone(self, tmp_path: Path) -> None:
        shelf.keep_all(tmp_path, {"k": listing("x", "y")})
        assert shelf.read_all(tmp_path, ["k", "other"]) == {"k": listing("x", "y")}
        assert (tmp_path / shelf.FOLDER / "k.json").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"version":2,"tools":[]}', '{"version":1,"tools":[{"x":1}]}'])
    def test_a_file_that_cannot_be_understood_counts_as_lost(self, tmp_path: Path, text: str) -> None:
        shelf.keep_all(tmp_path, {"k": listing("x")})
        (tmp_path / shelf.FOLDER / "k.json").write_text(text)
        assert shelf.read_all(tmp_path, ["k"]) == {}

    def test_another_definition_has_another_key_and_a_rotated_value_has_not(self) -> None:
        keys = [shelf.key_of(entry(**raw)) for raw in ({}, {"args": ["x"]}, {"command": "b"}, {"env": {"T": "1"}})]
        assert len(set(keys)) == len(keys)
        assert shelf.key_of(entry(env={"T": "1"})) == shelf.key_of(entry(env={"T": "2"}))

    def test_only_so_many_are_kept_and_the_newest_stay(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shelf, "MOST", 3)
        for number in range(5):
            shelf.keep_all(tmp_path, {f"k{number}": listing("x")})
            os.utime(tmp_path / shelf.FOLDER / f"k{number}.json", (number, number))
        shelf.keep_all(tmp_path, {"last": listing("x")})
        assert sorted(path.stem for path in (tmp_path / shelf.FOLDER).iterdir()) == ["k3", "k4", "last"]


@anyio_test
@spec("F-68")
class TestLazyServers:
    """Who is started, and when."""

    async def test_one_nobody_knows_is_started_once_and_known_from_then_on(self, world: World, tmp_path: Path) -> None:
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: list((tmp_path / shelf.FOLDER).glob("*.json")))
        assert (world.orders, await world.names()) == ([("start", "a")], OWN)
        assert shelf.read_all(tmp_path, [shelf.key_of(entry(command="a"))]).keys() == {shelf.key_of(entry(command="a"))}

    async def test_one_that_is_known_has_no_actor_and_says_that_it_idles(self, world: World, tmp_path: Path) -> None:
        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        assert (world.orders, world.actors, await world.names()) == ([], {}, OWN)
        assert (await world.status()).degradations == ()

    async def test_whoever_calls_it_finds_its_actor_standing_by(self, world: World, tmp_path: Path) -> None:
        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        for _ in range(2):
            await world.bus.ask(RECONCILE, SeatServer("a"))
        assert world.orders == [("stand by", "a")]

    async def test_one_whose_actor_did_not_start_is_tried_again_by_the_next_call(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refuse(*_: object) -> None:
            raise StartupError("no", code="no")

        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        with monkeypatch.context() as patch:
            patch.setattr(world.keeper, "start_child", refuse)
            with pytest.raises(StartupError):
                await world.bus.ask(RECONCILE, SeatServer("a"))
        await world.bus.ask(RECONCILE, SeatServer("a"))
        assert world.orders == [("stand by", "a")]

    async def test_one_that_nobody_wants_is_given_no_actor(self, world: World, tmp_path: Path) -> None:
        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        assert (await world.control("a", "stop")).activation == "stopped"
        await world.bus.ask(RECONCILE, SeatServer("a"))
        assert world.actors == {}
        assert (await world.server("a")).activation == "stopped"
        await world.control("a", "start")
        assert world.orders == [("start", "a")]

    async def test_one_that_is_defined_otherwise_is_listed_anew(self, world: World, tmp_path: Path) -> None:
        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        assert (await world.sync({"a": {"command": "b"}})).restarted == ("a",)
        await world.until(lambda: world.plans.get("a"))
        assert world.orders == [("start", "a")]
        (plan,) = world.plans["a"]
        assert (plan.command, plan.limits.idle_stop) == ("b", 300.0)

    async def test_the_actor_of_one_that_died_stands_by_again(self, world: World, tmp_path: Path) -> None:
        keep(tmp_path, "echo")
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: self.is_idle(world))
        await world.bus.ask(RECONCILE, SeatServer("a"))
        await world.kill("mcp/a")
        await world.until(lambda: world.orders == [("stand by", "a")] * 2)

    async def test_idling_changes_nothing_an_agent_can_see(self, world: World, tmp_path: Path) -> None:
        await world.start(["a"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: list((tmp_path / shelf.FOLDER).glob("*.json")))
        before = dict(world.held.signatures)
        world.actors["a"].doze()
        await world.until(lambda: self.is_idle(world))
        await world.until(lambda: not world.held.facts.tools("a")[1])
        assert (world.held.signatures, await world.names()) == (before, OWN)
        assert world.held.facts.tools("a")[0] != b"[]"

    async def test_a_listing_with_a_secret_in_it_is_not_kept(self, world: World, tmp_path: Path) -> None:
        world.tools = {"a": ("say_hunter2hunter2",), "b": ("say",)}
        world.held.registry.use("a", {"hunter2hunter2"})
        await world.start(["a", "b"], state_dir=str(tmp_path), **LAZY)
        await world.until(lambda: len(world.held.listed) == 2 and list((tmp_path / shelf.FOLDER).glob("*.json")))
        kept = [path.read_text() for path in (tmp_path / shelf.FOLDER).glob("*.json")]
        assert len(kept) == 1
        assert "hunter2" not in kept[0]

    async def test_the_set_forgets_it_with_everything_else(self) -> None:
        held = Held(World.config(), listed={"a": "k"})
        held.halted()
        assert held.listed == {}

    @staticmethod
    async def is_idle(world: World) -> bool:
        status = await world.server("a")
        return (status.activation, status.connection, status.reason) == ("started", "disconnected", "idle")
