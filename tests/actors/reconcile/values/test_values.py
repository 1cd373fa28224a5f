"""Where values of inputs come from and where they are kept, with real files and real commands."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.inputs import Definition, read_inputs
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.rendering.candidates import Value
from smcp_runtime.actors.reconcile.rendering.resolution import Chain, ResolveFor, resolve
from smcp_runtime.actors.reconcile.values.chain import chain_of, stores_of
from smcp_runtime.actors.reconcile.values.commands import CommandSource, command_line
from smcp_runtime.actors.reconcile.values.hooks import NOT_PROVIDED, InputRequest
from smcp_runtime.actors.reconcile.values.prompting import Question
from smcp_runtime.actors.reconcile.values.secret_store import SERVICE, Keyring, NoSecretStore
from smcp_runtime.actors.reconcile.values.stores import KeptValue, Stores
from smcp_runtime.actors.reconcile.values.value_store import FILE_NAME, ValueStore
from smcp_runtime.wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError
from support.waiting import until

spec = pytest.mark.spec
pytestmark = pytest.mark.anyio
PICK = {"options": [{"label": "Same", "value": "1"}, {"label": "Same", "value": "2"}]}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def definition(type_: str = "promptString", **raw: Any) -> Definition:
    (read,) = read_inputs([{"type": type_, "id": "i", "description": "d", **raw}], "inputs", Findings())
    return read


class Ring:
    """A keyring in memory; `priority` as the library has it."""

    def __init__(self, priority: float = 5.0) -> None:
        self.priority = priority
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class World:
    """The stores of one Computer, and its chain."""

    def __init__(self, root: Path, ring: Ring | None = None) -> None:
        self.ring = ring
        self.run: dict[str, Value] = {}
        self.stores = Stores(self.run, ValueStore(root / "state"), Keyring(lambda: ring))
        self.root = root

    async def value(self, of: Definition, *, automatic: bool = False, **options: Any) -> object:
        environ = {"PATH": os.environ["PATH"], **options.pop("env", {})}
        settled = RuntimeOptions(env=environ, project_root=str(self.root), **options)
        request = ResolveFor("b", is_automatic=automatic)
        found = await resolve(["i"], {"i": of}, environ, chain_of(settled, self.stores), request)
        return found["i"]

    def everything_on_disk(self) -> str:
        return "".join(path.read_text("utf-8") for path in self.root.rglob("*") if path.is_file())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class TestOrder:
    async def test_each_source_gives_way_to_the_one_before_it(self, world: World) -> None:
        """03 §5.4, from the last step to the first."""
        prompt = definition(default="default")
        answers: dict[str, Any] = {}
        assert await world.value(prompt) == "default"
        answers["prompter"] = lambda _: "asked"
        assert await world.value(prompt, **answers) == "asked"
        assert world.stores.values.read() == {"i": "asked"}
        await world.stores.put(prompt, "stored")
        assert await world.value(prompt, **answers) == "stored"
        answers["env"] = {"A2C_SMCP_i": "variable"}
        assert await world.value(prompt, **answers) == "variable"
        answers["secret_providers"] = [lambda _: NOT_PROVIDED, lambda _: "hook"]
        assert await world.value(prompt, **answers) == "hook"
        await world.stores.put(prompt, "run", for_run=True)
        assert await world.value(prompt, **answers) == "run"

    @spec("R-INPUT-12")
    async def test_a_hook_learns_id_kind_type_and_server(self, world: World) -> None:
        seen: list[InputRequest] = []

        async def hook(request: InputRequest) -> str:
            seen.append(request)
            return "v"

        assert await world.value(definition(password=True), secret_providers=[hook]) == "v"
        assert seen == [InputRequest("i", "secret", "promptString", "b", None)]

    def test_a_store_nobody_knows_is_refused(self) -> None:
        with pytest.raises(ConfigValidationError) as caught:
            settle(RuntimeOptions(secret_providers=["vault"]))
        assert [finding.field for finding in caught.value.findings] == ["secret_providers"]

    async def test_without_the_name_of_the_keyring_there_is_none(self, tmp_path: Path) -> None:
        stores = stores_of(RuntimeOptions(secret_providers=["memory"]), tmp_path, {})
        assert isinstance(stores.secrets, NoSecretStore)


class TestPrompting:
    @spec("R-MCP-23", "R-INPUT-20")
    async def test_an_automatic_start_asks_nobody(self, world: World) -> None:
        with pytest.raises(MissingInputError):
            await world.value(definition(), automatic=True, prompter=lambda _: "asked")

    @spec("R-INPUT-15")
    async def test_a_cancelled_question_goes_on_to_the_default(self, world: World) -> None:
        assert await world.value(definition(default="d"), prompter=lambda _: None) == "d"
        assert not world.stores.values.path.exists()

    @spec("R-INPUT-1", "T-PICK-6")
    async def test_t_pick_6_a_pick_is_answered_by_position_and_no_label_is_looked_up(self, world: World) -> None:
        pick = definition("pickString", **PICK)
        assert await world.value(pick, prompter=lambda _: 1) == "2"
        with pytest.raises(InvalidSelectionError):
            await World(world.root / "other").value(pick, prompter=lambda _: "Same")

    @spec("R-INPUT-13", "R-INPUT-16")
    async def test_an_answer_that_does_not_fit_is_refused_and_not_kept(self, world: World) -> None:
        with pytest.raises(ConfigValidationError):
            await world.value(definition("number"), prompter=lambda _: "many")
        assert world.stores.values.read() == {}

    async def test_a_question_shows_what_it_takes_to_answer_and_no_secret_default(self, world: World) -> None:
        asked: list[Question] = []

        def prompter(question: Question) -> None:
            asked.append(question)

        await world.value(definition(password=True, default="hidden"), prompter=prompter)
        await world.value(definition("bool", default=True, true_label="ja"), prompter=prompter)
        assert [(question.kind, question.default, question.choices) for question in asked] == [
            ("secret", None, None),
            ("value", True, ("ja", "no")),
        ]

    async def test_one_question_is_asked_at_a_time(self, world: World) -> None:
        asking, most, asked = 0, 0, 0

        async def prompter(_: Question) -> None:
            nonlocal asking, most, asked
            asking, asked = asking + 1, asked + 1
            most = max(most, asking)
            await anyio.lowlevel.checkpoint()
            asking -= 1

        prompted = definition(default="d")
        options = RuntimeOptions(env={}, prompter=prompter)
        chain = chain_of(options, world.stores)

        async def one() -> None:
            await resolve(["i"], {"i": prompted}, {}, chain, ResolveFor("b", is_automatic=False))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
        assert (asked, most) == (5, 1)


class TestStores:
    @spec("R-FILE-3", "R-FILE-4")
    async def test_values_are_kept_flat_and_private(self, world: World) -> None:
        assert await world.stores.put(definition(), "wört") == "file"
        path = world.root / "state" / FILE_NAME
        assert json.loads(path.read_text("utf-8")) == {"i": "wört"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await world.stores.inspect(definition()) == KeptValue("i", "file", "wört")

    @spec("R-SEC-2", "R-FILE-14")
    async def test_a_secret_goes_to_the_keyring_and_into_no_file(self, tmp_path: Path) -> None:
        ring = Ring()
        world = World(tmp_path, ring)
        assert await world.stores.put(definition(password=True), "sk-canary") == "keyring"
        assert ring.kept == {(SERVICE, "i"): "sk-canary"}
        assert await world.value(definition(password=True)) == "sk-canary"
        assert await world.stores.inspect(definition(password=True)) == KeptValue("i", "keyring")
        assert "sk-canary" not in world.everything_on_disk()

    @spec("R-SEC-2")
    @pytest.mark.parametrize("ring", [None, Ring(priority=0.5)])
    async def test_without_a_real_keyring_a_secret_lives_in_this_run_alone(
        self, tmp_path: Path, ring: Ring | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Library:
            get_keyring = staticmethod(lambda: ring or 1 / 0)

        monkeypatch.setitem(__import__("sys").modules, "keyring", Library)
        world = World(tmp_path)
        world.stores.secrets = Keyring()
        prompted = definition(password=True)
        assert await world.value(prompted, prompter=lambda _: "sk-canary") == "sk-canary"
        assert world.run == {"i": "sk-canary"}
        assert await world.stores.inspect(prompted) == KeptValue("i", "run")
        assert "sk-canary" not in world.everything_on_disk()

    async def test_a_keyring_that_breaks_is_as_none(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        class Broken(Ring):
            def get_password(self, service: str, username: str) -> str | None:
                raise RuntimeError("locked, and it held sk-canary")

        world = World(tmp_path, Broken())
        assert await world.value(definition(password=True, default="d")) == "d"
        assert "sk-canary" not in caplog.text

    async def test_setting_checks_against_the_type(self, world: World) -> None:
        with pytest.raises(ConfigValidationError):
            await world.stores.put(definition("number", max=3), "4")
        with pytest.raises(InvalidSelectionError):
            await world.stores.put(definition("pickString", **PICK), "Same")
        with pytest.raises(ConfigValidationError) as caught:
            await world.stores.put(definition("command", command="true"), "x")
        assert caught.value.code == "no_value"

    async def test_what_is_forgotten_is_forgotten_everywhere(self, tmp_path: Path) -> None:
        ring = Ring()
        world = World(tmp_path, ring)
        secret, plain = definition(password=True), definition()
        await world.stores.put(secret, "s")
        await world.stores.put(plain, "p")
        await world.stores.put(plain, "r", for_run=True)
        assert await world.stores.remove("i")
        assert (ring.kept, world.run, world.stores.values.read()) == ({}, {}, {})
        assert not await world.stores.remove("i")

    @pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
    async def test_a_broken_value_store_is_empty_and_set_aside_before_it_is_written_over(
        self, world: World, content: bytes
    ) -> None:
        path = world.stores.values.path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        assert await world.value(definition(default="d")) == "d"
        await world.stores.put(definition(), "v")
        assert world.stores.values.read() == {"i": "v"}
        assert [kept.read_bytes() for kept in path.parent.glob("*.corrupt-*.bak")] == [content]

    @spec("R-INPUT-13", "T-PICK-2")
    async def test_t_pick_2_a_stored_value_that_became_illegal_is_an_error_and_stays_stored(self, world: World) -> None:
        world.stores.values.put("i", "9")
        with pytest.raises(InvalidSelectionError):
            await world.value(definition("pickString", default="1", **PICK))
        assert world.stores.values.read() == {"i": "9"}

    @spec("R-INPUT-14", "T-PICK-3")
    async def test_t_pick_3_defaults_and_first_options_are_never_stored(self, world: World) -> None:
        assert await world.value(definition("pickString", **PICK)) == "1"
        assert await world.value(definition("number", default=7)) == 7
        assert not world.stores.values.path.exists()


class TestCommands:
    @spec("R-INPUT-4")
    def test_arguments_follow_in_order_and_quoted_and_empty_values_are_left_out(self) -> None:
        made = definition("command", command="vault read", args={"--path": "a b", "--raw": "", "-f": "$x;`y`"})
        assert command_line(made) == "vault read --path 'a b' --raw -f '$x;`y`'"  # type: ignore[arg-type]

    @spec("R-INPUT-4")
    async def test_it_runs_in_the_project_and_gives_its_trimmed_output(self, world: World) -> None:
        (world.root / "token").write_text("  tok \n\n")
        assert await world.value(definition("command", command="cat token; echo noise >&2")) == "tok"

    @spec("R-SEC-12")
    async def test_it_sees_the_safe_environment_only(self, world: World) -> None:
        seen = await world.value(
            definition("command", command="env"), env={"A2C_SMCP_other": "sk-canary", "HOME": "/h"}
        )
        assert isinstance(seen, str)
        names = {line.partition("=")[0] for line in seen.splitlines()}
        assert "HOME" in names
        assert "A2C_SMCP_other" not in names

    @spec("R-INPUT-4")
    @pytest.mark.parametrize(
        ("command", "why"),
        [
            ("echo sk-canary; echo sk-canary >&2; exit 3", "status 3"),
            ("printf '\\377'", "no UTF-8"),
            ("yes sk-canary", "more than"),
            ("no-such-command-at-all", "status 127"),
        ],
    )
    async def test_a_failure_is_named_by_its_status_and_never_by_what_it_said(
        self, world: World, command: str, why: str
    ) -> None:
        with anyio.fail_after(20), pytest.raises(MissingInputError) as caught:
            await world.value(definition("command", command=command))
        assert why in caught.value.message
        assert caught.value.details["reason"] == "resolver_failed"
        assert "sk-canary" not in repr((caught.value, caught.value.__context__, caught.value.__cause__))

    @spec("R-INPUT-4", "R-SEC-12")
    async def test_one_that_does_not_end_is_ended_with_all_it_started(self, world: World) -> None:
        made = definition("command", command="sleep 1000 & echo $! > pid; wait")
        source = CommandSource(str(world.root), os.environ, limit=0.5)
        with anyio.fail_after(20), pytest.raises(MissingInputError, match=r"longer than 0\.5 s"):
            await resolve(["i"], {"i": made}, {}, Chain(after=[source]), ResolveFor("b"))
        pid = int((world.root / "pid").read_text())
        await until(lambda: not _is_alive(pid))

    @spec("R-SEC-12", "DEC-8")
    async def test_a_shell_that_ends_by_itself_leaves_nothing_running(self, world: World) -> None:
        pid = await world.value(definition("command", command="sleep 1000 > /dev/null & echo $!"))
        assert isinstance(pid, str)
        await until(lambda: not _is_alive(int(pid)))

    @spec("R-INPUT-4", "R-SEC-12", "DEC-8")
    async def test_what_holds_the_output_of_a_shell_that_ended_is_ended_with_the_wait(self, world: World) -> None:
        made = definition("command", command="sleep 1000 & echo $$ $! > new; mv new pids")
        source, pids = CommandSource(str(world.root), os.environ), world.root / "pids"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resolve, ["i"], {"i": made}, {}, Chain(after=[source]), ResolveFor("b"))
            await until(pids.exists)
            shell, held = map(int, pids.read_text().split())
            await until(lambda: not _is_alive(shell))
            assert _is_alive(held)
            tasks.cancel_scope.cancel()
        await until(lambda: not _is_alive(held))

    @spec("R-INPUT-4", "R-SEC-12", "DEC-8")
    async def test_what_a_shell_left_running_is_ended_also_when_the_wait_ends_while_it_is_being_opened(
        self, world: World
    ) -> None:
        made = definition("command", command="sleep 1000 & echo $! > new; mv new pid")
        source, pid = CommandSource(str(world.root), os.environ), world.root / "pid"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resolve, ["i"], {"i": made}, {}, Chain(after=[source]), ResolveFor("b"))
            while not pid.exists():
                await anyio.lowlevel.checkpoint()
                time.sleep(0.05)  # noqa: ASYNC251 - the command gets on, and the loop does not
            held = int(pid.read_text())
            tasks.cancel_scope.cancel()
        await until(lambda: not _is_alive(held))

    @spec("R-INPUT-19", "R-INPUT-20")
    async def test_it_runs_once_for_each_resolution_and_nothing_is_kept(self, world: World) -> None:
        made = definition("command", command="echo x >> runs; wc -l < runs")
        assert [await world.value(made) for _ in range(3)] == ["1", "2", "3"]
        assert not world.stores.values.path.exists()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
