"""The set out of files of all scopes, judged and managed, by a reconcile actor on a real bus with real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.reconcile.rendering.resolution import Chain, ValueRequest
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, MissingInputError, PolicyError, SmcpError
from smcp_runtime.wire.messages.management import (
    AnswerApproval,
    ChangeSettings,
    ClearInputs,
    DeclareServer,
    GetPendingDifferences,
    InputView,
    ListInputs,
    ManagementResult,
    ReloadFiles,
    SetInput,
    SettingsView,
    ShowSettings,
    UnsetInput,
)
from smcp_runtime.wire.messages.projection import GetLaunchPlan, PendingApproval

from .conftest import RECONCILE, World

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
PROMPT = {"id": "t", "description": "d", "type": "promptString"}


def server(command: str = "c", **parameters: Any) -> dict[str, Any]:
    return {"type": "stdio", "server_parameters": {"command": command, **parameters}}


class Files:
    """The files of a run, and the management side of the actor under test."""

    def __init__(self, root: Path, world: World) -> None:
        self.root, self.world = root, world
        self.project = root / "project" / ".tfrobot"
        self.user = root / "config" / "a2c"
        self.paths = {
            "user": (self.user / "settings.json", self.user / "mcp.json"),
            "project": (self.project / "settings.json", self.project / "mcp.json"),
            "local": (self.project / "settings.local.json", self.project / "mcp.local.json"),
            "policy": (root / "managed" / "managed-settings.json", root / "managed" / "managed-mcp.json"),
        }

    def declare(self, scope: str, *inputs: Any, **servers: Any) -> Path:
        return self.write(self.paths[scope][1], {"servers": servers, "inputs": list(inputs)})

    def settings(self, scope: str, **fields: Any) -> Path:
        return self.write(self.paths[scope][0], fields)

    @staticmethod
    def write(path: Path, content: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def read(self, scope: str) -> Any:
        path = self.paths[scope][0]
        return json.loads(path.read_text()) if path.exists() else None

    async def start(self, servers: Any = (), inputs: Any = (), **options: Any) -> None:
        environ = {"HOME": str(self.root), "XDG_CONFIG_HOME": str(self.root / "config"), **options.pop("env", {})}
        await self.world.start(
            servers,
            inputs,
            env={**environ, "XDG_STATE_HOME": str(self.root / "state")},
            project_root=str(self.root / "project"),
            policy_source=str(self.root / "managed"),
            **{"secret_providers": ["memory"], **options},
        )

    async def verdicts(self) -> dict[str, str]:
        return {
            status.bundle_id: {"pending_approval": "PENDING", "denied": "DISABLED"}.get(status.code or "", "ENABLED")
            for status in (await self.world.status()).servers
        }

    async def pending(self) -> list[PendingApproval]:
        return list((await self.world.status()).pending)

    async def answer(self, answer: Any, bundle_id: str = "", fingerprint: str | None = None) -> ManagementResult:
        return await self.world.bus.ask(RECONCILE, AnswerApproval(answer, bundle_id, fingerprint))

    async def change(self, scope: Any, patch: Any, revision: str | None = None) -> ManagementResult:
        text = Attachment(json.dumps(patch).encode())
        return await self.world.bus.ask(RECONCILE, ChangeSettings(scope, text, revision))

    async def show(self, scope: Any = "merged") -> SettingsView:
        return await self.world.bus.ask(RECONCILE, ShowSettings(scope))

    async def reload(self) -> ManagementResult:
        return await self.world.bus.ask(RECONCILE, ReloadFiles())

    async def inputs(self) -> dict[str, InputView]:
        return {view.id: view for view in (await self.world.bus.ask(RECONCILE, ListInputs())).inputs}

    async def set_input(self, input_id: str, value: Any, **more: Any) -> ManagementResult:
        return await self.world.bus.ask(RECONCILE, SetInput(input_id, Attachment(json.dumps(value).encode()), **more))


@pytest.fixture
def files(tmp_path: Path, world: World) -> Files:
    return Files(tmp_path, world)


class TestLayers:
    @spec("T-SCOPE-1", "R-SCOPE-7", "R-LIFE-6", "F-109")
    async def test_t_scope_1_the_highest_layer_wins_whole_and_the_next_shows_when_it_goes(
        self, files: Files, tmp_path: Path
    ) -> None:
        for scope in ("user", "project", "local", "policy"):
            files.declare(scope, a=server(scope))
        flag = files.write(tmp_path / "flag.json", {"servers": {"a": server("flag")}})
        await files.start({"a": {"command": "embed"}}, flag_mcp_config=[str(flag)], auto_start=False)
        await files.answer("approve_all")
        world = files.world
        assert (await world.plan("a")).command == "policy"
        files.paths["policy"][1].unlink()
        await files.reload()
        assert (await world.plan("a")).command == "flag"
        await world.mount(name="a", type="stdio", server_parameters={"command": "mounted"})
        assert (await world.plan("a")).command == "flag"

    @spec("T-SCOPE-1", "R-SCOPE-7")
    async def test_below_flags_the_order_is_embed_local_project_user(self, files: Files) -> None:
        for scope in ("user", "project", "local"):
            files.declare(scope, a=server(scope))
        await files.start({"a": {"command": "embed"}}, auto_start=False)
        await files.answer("approve_all")
        for expected in ("embed", "local", "project", "user"):
            assert (await files.world.plan("a")).command == expected
            if expected == "embed":
                await files.world.sync()
            else:
                files.paths[expected][1].unlink()
                await files.reload()
        with pytest.raises(ConfigValidationError):
            await files.world.plan("a")

    @spec("T-CFG-6", "R-SCOPE-13", "R-MCP-7", "R-LIFE-24")
    async def test_t_cfg_6_a_faulty_file_degrades_and_its_repair_closes_that(self, files: Files) -> None:
        path = files.declare("user", **{"my.server": server(), "my_server": server(), "fine": server()})
        await files.start(["own"])
        await files.world.until_listed("fine__echo", "own__echo")
        status = await files.world.status()
        (found,) = status.degradations
        assert (found.component, found.identity, found.category) == ("settings", str(path), "conflict")
        assert any("my_server" in line for line in status.findings)
        files.declare("user", fine=server())
        await files.reload()
        assert (await files.world.status()).degradations == ()

    @spec("F-66", "R-LIFE-17")
    async def test_a_reload_of_a_broken_file_leaves_every_server_as_it_was(self, files: Files) -> None:
        path = files.declare("user", a=server(), b=server(), c=server(), d=server())
        await files.start()
        await files.world.until_listed("a__echo", "b__echo", "c__echo", "d__echo")
        orders = list(files.world.orders)
        files.write(path, '{"servers": {"a": ')
        result = await files.reload()
        assert any(str(path) in line for line in result.diagnostics)
        assert files.world.orders == orders
        assert await files.world.names() == ["a__echo", "b__echo", "c__echo", "d__echo"]
        assert [found.identity for found in (await files.world.status()).degradations] == [str(path)]

    @spec("R-PLUGIN-26")
    async def test_what_changes_on_disk_is_listed_and_absorbed_only_on_demand(self, files: Files) -> None:
        path = files.declare("user", a=server())
        await files.start()
        await files.world.until_listed("a__echo")
        files.declare("user", a=server(), b=server())
        local = files.settings("local", disabledMcpjsonServers=["a"])
        differences = (await files.world.bus.ask(RECONCILE, GetPendingDifferences())).files
        assert differences == {str(path): "changed", str(local): "added"}
        assert await files.world.names() == ["a__echo"]
        assert (await files.reload()).changed
        await files.world.until_listed("b__echo")
        assert not (await files.reload()).changed

    @spec("R-PLUGIN-26", "R-SCOPE-3", "R-FILE-12")
    async def test_files_of_the_command_line_are_read_again_on_demand(self, files: Files, tmp_path: Path) -> None:
        flag = files.write(tmp_path / "flag.json", {"servers": {"a": server(), "b": server()}})
        extra = files.write(tmp_path / "settings.json", {})
        await files.start(flag_mcp_config=[str(flag)], flag_settings=str(extra))
        await files.world.until_listed("a__echo", "b__echo")
        files.write(flag, {"servers": {"a": server(), "c": server()}})
        files.write(extra, {"disabledMcpjsonServers": ["a"]})
        differences = (await files.world.bus.ask(RECONCILE, GetPendingDifferences())).files
        assert differences == {str(flag): "changed", str(extra): "changed"}
        assert await files.world.names() == ["a__echo", "b__echo"]
        assert (await files.reload()).changed
        await files.world.until_listed("c__echo")
        assert await files.world.names() == ["c__echo"]
        assert (await files.world.bus.ask(RECONCILE, GetPendingDifferences())).files == {}
        assert not (await files.reload()).changed

    @spec("R-SCOPE-3", "F-66", "R-LIFE-24")
    @pytest.mark.parametrize(
        ("broken", "told"),
        [
            ('{"servers": {"a": ', "changed"),
            ({"servers": {"a": server(), "b": {"command": 5}}}, "changed"),
            ({"servers": {"my.server": server(), "my_server": server()}}, "changed"),
            (None, "removed"),
        ],
    )
    async def test_a_file_of_the_command_line_that_turned_bad_counts_as_it_was_until_it_is_mended(
        self, files: Files, tmp_path: Path, broken: Any, told: str
    ) -> None:
        flag = files.write(tmp_path / "flag.json", {"servers": {"a": server()}})
        await files.start(flag_mcp_config=[str(flag)])
        await files.world.until_listed("a__echo")
        flag.unlink()
        if broken is not None:
            files.write(flag, broken)
        assert (await files.world.bus.ask(RECONCILE, GetPendingDifferences())).files == {str(flag): told}
        result = await files.reload()
        assert any(str(flag) in line for line in result.diagnostics)
        assert await files.world.names() == ["a__echo"]
        assert [found.identity for found in (await files.world.status()).degradations] == [str(flag)]
        files.write(flag, {"servers": {"b": server()}})
        assert list((await files.world.bus.ask(RECONCILE, GetPendingDifferences())).files) == [str(flag)]
        assert (await files.reload()).diagnostics == ()
        await files.world.until_listed("b__echo")
        assert (await files.world.status()).degradations == ()

    @spec("R-CFG-5", "R-LIFE-23")
    async def test_a_misspelt_key_of_a_file_of_the_command_line_is_named_in_the_status_and_the_log(
        self, files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        flag = files.write(tmp_path / "flag.json", {"mcpServer": {"a": server()}})
        await files.start(flag_mcp_config=[str(flag)])
        told = f"{flag}: mcpServer: unknown key"
        assert any(line.startswith(told) for line in (await files.world.status()).findings)
        await files.reload()
        assert len([record for record in caplog.records if record.getMessage().startswith(told)]) == 1

    @spec("T-SCOPE-2", "R-SCOPE-6", "R-MCP-23")
    async def test_runtime_settings_of_all_scopes_reach_the_plan(self, files: Files) -> None:
        files.settings("user", mcpServerRuntime={"servers": {"a": {"limits": {"max_in_flight": 3, "max_queued": 4}}}})
        files.settings("local", mcpServerRuntime={"servers": {"a": {"limits": {"max_in_flight": 9}}}})
        await files.start(["a"], auto_start=False)
        limits = (await files.world.plan("a")).limits
        assert (limits.max_in_flight, limits.max_queued) == (9, 4)


class TestSyncing:
    @spec("R-LIFE-15", "R-LIFE-18")
    async def test_of_many_servers_exactly_the_changed_one_restarts(self, files: Files) -> None:
        files.declare("user", **{f"u{number}": server() for number in range(40)})
        await files.start({f"s{number}": {"command": "c"} for number in range(40)})
        await files.world.until_listed(*(f"{kind}{number}__echo" for kind in "us" for number in range(40)))
        orders = list(files.world.orders)
        changed = {f"s{number}": {"command": "other" if number == 7 else "c"} for number in range(40)}
        result = await files.world.sync(changed)
        assert (result.restarted, result.started, result.stopped, result.remeta) == (("s7",), (), (), ())
        await files.world.until(lambda: files.world.orders[len(orders) :] == [("restart", "s7")])


class TestGate:
    @spec("R-CORE-2", "DEC-32")
    async def test_what_is_kept_to_show_a_difference_decides_nothing(self, files: Files) -> None:
        files.declare("project", a=server("run", args=["a"]))
        await files.start()
        (request,) = await files.pending()
        kept = files.write(
            files.root / "state" / "a2c" / "approved-servers.json",
            {"version": 1, "approved": {request.fingerprint: {"command": "run"}}},
        )
        await files.reload()
        assert await files.verdicts() == {"a": "PENDING"}
        await files.answer("approve", "a")
        kept.unlink()
        await files.reload()
        assert await files.verdicts() == {"a": "ENABLED"}

    @spec("T-GATE-2", "R-GATE-4", "R-GATE-7", "F-08", "R-SEC-5")
    @pytest.mark.parametrize(
        "claim", [{"enableAllProjectMcpServers": True}, {"enabledMcpjsonServers": ["srv"]}], ids=["all", "list"]
    )
    async def test_t_gate_2_a_project_cannot_approve_its_own_server(self, files: Files, claim: dict[str, Any]) -> None:
        files.declare("project", srv=server())
        path = files.settings("project", **claim)
        await files.start(["own"])
        await files.world.until_listed("own__echo")
        status = await files.world.status()
        assert await files.verdicts() == {"own": "ENABLED", "srv": "PENDING"}
        assert [line for line in status.findings if line.startswith(str(path))] == [
            f"{path}: {next(iter(claim))}: does not count from a project"
        ]
        assert "srv" not in files.world.actors
        assert list(await files.world.servers()) == ["own"]
        with pytest.raises(PolicyError, match="not approved yet"):
            await files.world.control("srv", "start")

    @spec("F-08", "R-SEC-5")
    async def test_a_project_can_deny_its_own_server(self, files: Files) -> None:
        files.declare("project", srv=server())
        files.settings("project", disabledMcpjsonServers=["srv"])
        files.settings("local", enabledMcpjsonServers=["srv"])
        await files.start()
        await files.world.until(lambda: files.world.held.commit)
        assert await files.verdicts() == {"srv": "DISABLED"}

    @spec("T-GATE-3", "R-GATE-13")
    @pytest.mark.parametrize(
        "claim", [{"enableAllProjectMcpServers": True}, {"enabledMcpjsonServers": ["srv"]}], ids=["all", "list"]
    )
    async def test_t_gate_3_the_same_in_local_settings_lets_it_run(self, files: Files, claim: dict[str, Any]) -> None:
        files.declare("project", srv=server())
        files.settings("local", **claim)
        await files.start()
        await files.world.until_listed("srv__echo")

    @spec("T-GATE-4", "R-GATE-5")
    async def test_t_gate_4_a_display_name_in_a_list_has_no_effect_and_is_reported(self, files: Files) -> None:
        files.declare("project", **{"my.server": server()})
        path = files.settings("local", enabledMcpjsonServers=["my.server"])
        await files.start()
        await files.world.until(lambda: files.world.held.commit)
        assert await files.verdicts() == {"my_server": "PENDING"}
        (line,) = [line for line in (await files.world.status()).findings if line.startswith(str(path))]
        assert "enabledMcpjsonServers[0]" in line
        assert "'my_server'" in line

    @spec("T-GATE-7", "R-SEC-7")
    async def test_t_gate_7_of_twins_only_the_approved_one_is_mounted(self, files: Files) -> None:
        twins = {"one": {**server(), "bundle_id": "fs_user"}, "two": {**server(), "bundle_id": "fs_other"}}
        files.declare("project", **twins)
        await files.start()
        await files.answer("approve", "fs_user")
        await files.world.until_listed("fs_user__echo")
        assert await files.verdicts() == {"fs_user": "ENABLED", "fs_other": "PENDING"}

    @spec("T-GATE-9", "R-SEC-6", "R-GATE-15")
    async def test_t_gate_9_policy_denies_embed_and_flag_servers_at_start_and_later(
        self, files: Files, tmp_path: Path
    ) -> None:
        flag = files.write(tmp_path / "flag.json", {"servers": {"b": server()}})
        await files.start(["a"], flag_mcp_config=[str(flag)])
        await files.world.until_listed("a__echo", "b__echo")
        files.settings("policy", deniedMcpServers=["a", "b"])
        await files.reload()
        await files.world.until_listed()
        await files.world.until(lambda: {("stop", "a"), ("stop", "b")} <= set(files.world.orders))
        assert await files.verdicts() == {"a": "DISABLED", "b": "DISABLED"}
        with pytest.raises(PolicyError):
            await files.answer("approve", "a")
        assert files.read("local") is None

    @spec("T-GATE-10", "R-GATE-12", "DEC-14", "DEC-32", "R-FILE-14")
    async def test_t_gate_10_yes_is_one_write_by_id_bound_to_what_was_shown_and_shows_the_difference_later(
        self, files: Files
    ) -> None:
        files.declare("project", **{"My Server": server("run", args=["a"], env={"KEY": "sk-literal"})})
        await files.start()
        (request,) = await files.pending()
        result = await files.answer("approve", "My_Server", request.fingerprint)
        assert (result.changed, result.effective, result.written_scope) == (True, True, "local")
        assert files.read("local") == {
            "enabledMcpjsonServers": ["My_Server"],
            "approvedMcpServerFingerprints": {"My_Server": request.fingerprint},
        }
        await files.world.until_listed("My_Server__echo")
        files.declare("project", **{"My Server": server("run", args=["b"], env={"KEY": "sk-literal"})})
        await files.reload()
        await files.world.until_listed()
        (again,) = await files.pending()
        assert again.differences == ('args: ["a"] -> ["b"]',)
        assert "sk-literal" not in (files.root / "state" / "a2c" / "approved-servers.json").read_text()
        with pytest.raises(ConflictError) as caught:
            await files.answer("approve", "My_Server", request.fingerprint)
        assert caught.value.code == "stale_approval"

    @spec("T-GATE-10", "R-GATE-12")
    async def test_t_gate_10_no_and_all_are_one_write_each(self, files: Files) -> None:
        files.declare("project", a=server(), b=server())
        await files.start()
        assert (await files.answer("deny", "a")).effective
        assert files.read("local") == {"disabledMcpjsonServers": ["a"]}
        await files.answer("approve_all")
        assert files.read("local") == {"disabledMcpjsonServers": ["a"], "enableAllProjectMcpServers": True}
        await files.world.until_listed("b__echo")
        assert await files.verdicts() == {"a": "DISABLED", "b": "ENABLED"}

    @spec("R-FILE-9", "R-GATE-12")
    async def test_an_answer_replaces_nothing_that_stands_where_an_array_belongs(self, files: Files) -> None:
        files.declare("project", a=server())
        files.settings("local", disabledMcpjsonServers={"other": "of mine"})
        await files.start()
        with pytest.raises(ConfigValidationError) as caught:
            await files.answer("deny", "a")
        assert (caught.value.code, caught.value.field) == ("corrupt_file", "disabledMcpjsonServers")
        assert files.read("local") == {"disabledMcpjsonServers": {"other": "of mine"}}

    @spec("R-FILE-13")
    async def test_an_approval_that_another_scope_defeats_says_so(self, files: Files) -> None:
        files.declare("project", a=server())
        path = files.settings("user", disabledMcpjsonServers=["a"])
        await files.start()
        result = await files.answer("approve", "a")
        assert (result.effective, result.shadowed_by) == (False, str(path))

    @spec("R-GATE-12")
    async def test_a_run_that_approves_all_writes_nothing(self, files: Files) -> None:
        files.declare("project", a=server())
        await files.start(approve_all_servers=True)
        await files.world.until_listed("a__echo")
        assert files.read("local") is None

    @spec("R-GATE-12")
    async def test_without_anybody_to_ask_nothing_is_written_and_a_warning_says_so(
        self, files: Files, caplog: pytest.LogCaptureFixture
    ) -> None:
        files.declare("project", a=server())
        await files.start()
        await files.world.until(lambda: "a of" in caplog.text and "waits for an approval" in caplog.text)
        assert files.read("local") is None

    @spec("R-GATE-12", "R-GATE-15")
    async def test_the_application_is_asked_once_about_each_server_as_it_is(self, files: Files) -> None:
        asked: list[tuple[str, str]] = []

        async def hook(request: PendingApproval) -> str | None:
            asked.append((request.bundle_id, request.target))
            await anyio.lowlevel.checkpoint()
            return {"a": "yes", "b": "no"}.get(request.bundle_id)

        files.declare("project", a=server(), b=server(), c=server())
        await files.start(server_approval=hook)
        await files.world.until_listed("a__echo")

        async def settled() -> bool:
            return await files.verdicts() == {"a": "ENABLED", "b": "DISABLED", "c": "PENDING"}

        await files.world.until(settled)
        await files.reload()
        assert sorted(asked) == [("a", "c"), ("b", "c"), ("c", "c")]
        files.declare("project", a=server(), b=server(), c=server("other"))
        await files.reload()
        await files.world.until(lambda: ("c", "other") in asked)

    @spec("R-GATE-12", "DEC-35")
    async def test_a_question_that_died_with_reconcile_is_asked_again(self, files: Files) -> None:
        thinking = 0

        async def hook(_: PendingApproval) -> str:
            nonlocal thinking
            thinking += 1
            if thinking == 1:
                await anyio.sleep_forever()
            return "yes"

        files.declare("project", a=server())
        await files.start(server_approval=hook)
        await files.world.until(lambda: thinking == 1)
        await files.reload()
        assert thinking == 1
        await files.world.kill("reconcile")
        await files.world.until_listed("a__echo")
        assert thinking == 2

    async def test_an_application_that_cannot_answer_leaves_the_server_pending(self, files: Files) -> None:
        called = anyio.Event()

        def hook(_: PendingApproval) -> str:
            called.set()
            raise RuntimeError("no terminal")

        files.declare("project", a=server())
        await files.start(server_approval=hook)
        with anyio.fail_after(5):
            await called.wait()
        assert await files.verdicts() == {"a": "PENDING"}

    @spec("T-SCOPE-4", "R-FILE-8")
    async def test_an_answer_is_not_written_into_a_file_nobody_understands(self, files: Files) -> None:
        files.declare("project", a=server())
        path = files.write(files.paths["local"][0], "{oops")
        await files.start()
        with pytest.raises(ConfigValidationError) as caught:
            await files.answer("approve", "a")
        assert caught.value.code == "corrupt_file"
        assert path.read_text() == "{oops"
        assert await files.verdicts() == {"a": "PENDING"}

    async def test_an_answer_about_no_server_is_refused(self, files: Files) -> None:
        await files.start()
        with pytest.raises(ConfigValidationError) as caught:
            await files.answer("approve", "ghost")
        assert caught.value.code == "unknown_server"


class TestDeclaring:
    async def declare(self, files: Files, server: Any, scope: Any = "local") -> ManagementResult:
        text = Attachment(json.dumps(server).encode())
        return await files.world.bus.ask(RECONCILE, DeclareServer(text, scope))

    def mcp(self, files: Files, scope: str) -> Any:
        return json.loads(files.paths[scope][1].read_text())

    @spec("R-GATE-14", "R-CORE-3", "R-CORE-9", "R-FILE-14", "W-CFG-15")
    @pytest.mark.parametrize("scope", ["project", "local"])
    async def test_declaring_in_a_project_is_written_as_given_approved_and_mounted(
        self, files: Files, scope: str
    ) -> None:
        await files.start()
        raw = {"name": "My Server", **server("run", args=["${input:t}"])}
        result = await self.declare(files, raw, scope)
        assert (result.changed, result.effective, result.written_scope) == (True, True, scope)
        assert self.mcp(files, scope) == {"servers": {"My Server": server("run", args=["${input:t}"])}}
        local = files.read("local")
        assert local["enabledMcpjsonServers"] == ["My_Server"]
        assert list(local["approvedMcpServerFingerprints"]) == ["My_Server"]
        await files.world.until(lambda: ("start", "My_Server") in files.world.orders)

    async def test_declaring_for_the_user_needs_no_approval(self, files: Files) -> None:
        await files.start()
        await self.declare(files, {"name": "a", **server()}, "user")
        await files.world.until_listed("a__echo")
        assert files.read("local") is None

    @spec("R-FILE-11", "R-FILE-9", "R-MCP-9")
    async def test_an_identity_is_changed_where_it_stands_and_what_else_is_there_stays(self, files: Files) -> None:
        path = files.write(
            files.paths["user"][1],
            '{\n  // mine\n  "mcpServers": {"a": {"command": "old", "args": ["x"]}, "broken": 5}\n}\n',
        )
        await files.start()
        result = await self.declare(files, {"name": "a", "command": "new"}, "project")
        assert (result.written_scope, result.effective) == ("user", True)
        assert not files.paths["project"][1].exists()
        text = path.read_text()
        assert "// mine" in text
        assert '"broken": 5' in text
        assert json.loads(text.replace("// mine", ""))["mcpServers"]["a"] == {"command": "new"}
        await files.world.until(
            lambda: files.world.plans.get("a", [])[-1:] and files.world.plans["a"][-1].command == "new"
        )

    @spec("R-FILE-11", "R-MCP-7")
    @pytest.mark.parametrize(
        ("held", "after"),
        [
            ({"a": server("old")}, {"a": server("new")}),
            (
                [{"name": "b", **server()}, {"name": "a", **server("old")}],
                [{"name": "b", **server()}, {"name": "a", **server("new")}],
            ),
        ],
        ids=["object", "array"],
    )
    async def test_a_server_is_changed_where_a_whole_configuration_holds_it(
        self, files: Files, held: Any, after: Any
    ) -> None:
        path = files.paths["user"][1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcp_servers": held}))
        await files.start()
        result = await self.declare(files, {"name": "a", **server("new")}, "user")
        assert (result.changed, result.effective) == (True, True)
        assert self.mcp(files, "user") == {"mcp_servers": after}

    @spec("R-FILE-11")
    async def test_of_several_scopes_the_highest_writable_one_is_changed(self, files: Files) -> None:
        for scope in ("user", "project", "local"):
            files.declare(scope, a=server(scope))
        await files.start()
        assert (await self.declare(files, {"name": "a", **server("new")}, "user")).written_scope == "local"
        assert self.mcp(files, "project")["servers"]["a"] == server("project")

    @spec("R-MCP-9")
    async def test_a_server_with_an_explicit_identity_can_be_renamed(self, files: Files) -> None:
        files.declare("user", old={**server(), "bundle_id": "fixed"})
        await files.start()
        await self.declare(files, {"name": "new", "bundle_id": "fixed", **server()}, "user")
        assert list(self.mcp(files, "user")["servers"]) == ["new"]

    @spec("R-FILE-13", "R-GATE-16")
    async def test_a_declaration_below_another_layer_says_what_stands_above_it(self, files: Files) -> None:
        await files.start(["a"])
        result = await self.declare(files, {"name": "a", **server("mine")}, "user")
        assert (result.changed, result.effective, result.shadowed_by) == (True, False, "config")
        assert (await files.world.plan("a")).command == "a"

    @pytest.mark.parametrize(
        ("raw", "error", "code"),
        [
            ({"name": "p", **server()}, PolicyError, "policy_shadowed"),
            ({"name": "taken", "bundle_id": "other", **server()}, ConflictError, "name_taken"),
            ({"name": "x", "type": "stdio", "server_parameters": {"command": 5}}, ConfigValidationError, "wrong_type"),
        ],
    )
    async def test_what_may_not_be_declared_is_refused_before_anything_is_written(
        self, files: Files, raw: Any, error: type[SmcpError], code: str
    ) -> None:
        files.declare("policy", p=server())
        files.declare("user", taken=server())
        before = self.mcp(files, "user")
        await files.start()
        with pytest.raises(error) as caught:
            await self.declare(files, raw, "user")
        assert caught.value.code == code
        assert self.mcp(files, "user") == before


class TestInputs:
    @spec("T-INP-7", "R-INPUT-8", "F-08", "R-SEC-5")
    async def test_t_inp_7_a_projects_definition_of_a_users_input_is_not_used_for_the_users_server(
        self, files: Files
    ) -> None:
        marker = files.root / "ran"
        command = {"id": "t", "description": "d", "type": "command", "command": f"touch {marker}; echo evil"}
        files.declare("user", {**PROMPT, "default": "mine"}, a=server("${input:t}"))
        files.declare("project", command, b=server("${input:t}"))
        await files.start(auto_start=False)
        assert (await files.world.plan("a")).command == "mine"
        assert not marker.exists()
        await files.answer("approve", "b")
        assert (await files.world.plan("b")).command == "evil"

    @spec("T-INP-8", "R-INPUT-11")
    async def test_t_inp_8_an_undefined_reference_is_missing_and_nothing_is_spawned(self, files: Files) -> None:
        await files.start({"a": {"command": "${input:ghost}"}})
        with pytest.raises(MissingInputError) as caught:
            await files.world.plan("a")
        assert caught.value.input_id == "ghost"
        assert files.world.plans.get("a") is None

    @spec("T-INP-6", "R-INPUT-6")
    async def test_t_inp_6_a_number_is_typed_alone_and_a_text_within(self, files: Files) -> None:
        port = {"id": "port", "description": "d", "type": "number", "default": 7}
        url = {"type": "sse", "server_parameters": {"url": "http://h:${input:port}/", "timeout": "${input:port}"}}
        await files.start({"a": url}, [port], auto_start=False)
        plan = await files.world.plan("a")
        assert (plan.url, plan.timeout) == ("http://h:7/", 7.0)

    @spec("T-ENV-2", "R-INPUT-18", "F-10")
    async def test_t_env_2_a_second_server_on_one_variable_is_refused_and_nothing_changes(self, files: Files) -> None:
        await files.start({"a-b": {"command": "${input:t}"}}, [{**PROMPT, "default": "d"}])
        await files.world.until_listed("a-b__echo")
        commit = files.world.held.commit
        with pytest.raises(ConflictError) as caught:
            await files.world.mount(name="a_b", type="stdio", server_parameters={"command": "${input:t}"})
        assert caught.value.code == "env_name_collision"
        assert "explicit bundleId" in caught.value.message
        assert files.world.held.commit == commit
        assert (await files.world.plan("a-b")).command == "d"

    @spec("R-INPUT-18", "F-10")
    async def test_a_mount_does_not_push_out_a_users_server_that_is_there(self, files: Files) -> None:
        files.declare("user", {**PROMPT, "default": "d"}, **{"a-b": server("${input:t}")})
        await files.start()
        await files.world.until_listed("a-b__echo")
        with pytest.raises(ConflictError):
            await files.world.mount(name="a_b", type="stdio", server_parameters={"command": "${input:t}"})
        assert await files.world.names() == ["a-b__echo"]

    @spec("R-INPUT-18", "R-LIFE-24")
    async def test_an_ambient_newcomer_that_collides_is_left_out_and_degrades(self, files: Files) -> None:
        files.declare("user", a_b=server("${input:t}"))
        await files.start({"a-b": {"command": "${input:t}"}}, [{**PROMPT, "default": "d"}])
        await files.world.until_listed("a-b__echo")
        (found,) = (await files.world.status()).degradations
        assert (found.component, found.code) == ("inputs", "env_name_collision")

    @spec("T-RERES-1", "T-RERES-3", "R-INPUT-20", "R-PROJ-3")
    async def test_t_reres_1_a_new_value_counts_at_the_next_start_and_announces_nothing(self, files: Files) -> None:
        await files.start({"a": {"command": "c", "args": ["${input:t}"]}}, [PROMPT], env={"A2C_SMCP_t": "env"})
        await files.world.until_listed("a__echo")
        commit, orders = files.world.held.commit, list(files.world.orders)
        result = await files.set_input("t", "new", for_run=True)
        assert (result.changed, result.effective, result.written_scope) == (True, True, "run")
        assert (files.world.held.commit, files.world.orders) == (commit, orders)
        assert files.world.plans["a"][-1].args == ("env",)
        assert (await files.world.plan("a")).args == ("new",)

    @spec("W-CFG-15")
    async def test_what_a_start_derives_and_resolves_is_written_to_no_file(self, files: Files) -> None:
        path = files.declare("user", PROMPT, **{"My Server": {"command": "c", "args": ["${input:t}"]}})
        before = path.read_bytes()
        await files.start(env={"A2C_SMCP_t": "resolved-value"})
        await files.world.until(lambda: "My_Server" in files.world.plans)
        assert files.world.plans["My_Server"][-1].args == ("resolved-value",)
        assert path.read_bytes() == before
        every = [file.read_bytes() for file in files.root.rglob("*") if file.is_file()]
        assert not any(b"resolved-value" in content for content in every)

    @spec("T-RERES-5", "R-INPUT-7")
    async def test_t_reres_5_an_id_used_three_times_is_resolved_once(self, files: Files) -> None:
        asked: list[str] = []

        class Counter:
            async def find(self, request: ValueRequest) -> object:
                asked.append(request.definition.id)
                return "v"

        uses = {"a": {"command": "${input:t}", "args": ["${input:t}", "x${input:t}"]}}
        await files.start(uses, [PROMPT], chain=Chain(before=[Counter()]), auto_start=False)
        plan = await files.world.plan("a")
        assert (plan.command, plan.args, asked) == ("v", ("v", "xv"), ["t"])

    @spec("R-FILE-13", "R-MGMT-4")
    async def test_a_stored_value_behind_a_variable_says_who_stands_before_it(self, files: Files) -> None:
        await files.start({"a": {"command": "${input:t}"}}, [PROMPT], env={"A2C_SMCP_t_a": "env"})
        result = await files.set_input("t", "kept")
        assert (result.effective, result.shadowed_by, result.written_scope) == (False, "A2C_SMCP_t_a", "file")
        (view,) = (await files.inputs()).values()
        assert (view.place, view.variable, view.servers) == ("file", "A2C_SMCP_t_a", ("a",))
        assert view.variables == ("A2C_SMCP_t_a", "A2C_SMCP_t")
        assert view.value is not None
        assert view.value.data == b'"kept"'

    @spec("R-SEC-2", "R-MGMT-4")
    async def test_a_secret_is_never_shown_and_without_a_keyring_lives_for_this_run(self, files: Files) -> None:
        await files.start({"a": {"command": "${input:s}"}}, [{**PROMPT, "id": "s", "password": True}])
        result = await files.set_input("s", "sk-canary")
        assert result.written_scope == "run"
        assert result.warnings
        view = (await files.inputs())["s"]
        assert (view.kind, view.place, view.value) == ("secret", "run", None)
        assert "sk-canary" not in "".join(p.read_text() for p in files.root.rglob("*") if p.is_file())
        await files.world.kill("reconcile")
        assert (await files.world.plan("a")).command == "sk-canary"
        assert "sk-canary" not in repr(await files.world.status())

    async def test_values_are_forgotten_one_by_one_and_all_together(self, files: Files) -> None:
        await files.start({}, [PROMPT, {**PROMPT, "id": "u"}])
        await files.set_input("t", "1")
        await files.set_input("u", "2")
        assert (await files.world.bus.ask(RECONCILE, UnsetInput("t"))).changed
        assert not (await files.world.bus.ask(RECONCILE, UnsetInput("t"))).changed
        assert (await files.world.bus.ask(RECONCILE, ClearInputs())).changed
        assert [view.place for view in (await files.inputs()).values()] == [None, None]

    @spec("R-MGMT-4", "R-INPUT-16")
    @pytest.mark.parametrize(("input_id", "value", "code"), [("ghost", "x", "unknown_input"), ("n", "x", "bad_value")])
    async def test_setting_is_checked(self, files: Files, input_id: str, value: Any, code: str) -> None:
        await files.start({}, [{"id": "n", "description": "d", "type": "number"}])
        with pytest.raises(ConfigValidationError) as caught:
            await files.set_input(input_id, value)
        assert caught.value.code == code


class TestSettings:
    @spec("R-FILE-9", "R-FILE-12", "R-MGMT-3")
    async def test_a_change_is_written_to_its_scope_and_counts_at_once(self, files: Files) -> None:
        path = files.write(files.paths["user"][0], '{\n  // mine\n  "unknown": 1\n}\n')
        await files.start(["a"])
        await files.world.until_listed("a__echo")
        result = await files.change("user", {"disabledMcpjsonServers": ["a"]})
        assert (result.changed, result.effective, result.written_scope) == (True, True, "user")
        await files.world.until_listed()
        assert "// mine" in path.read_text()
        assert not (await files.change("user", {"disabledMcpjsonServers": ["a"]})).changed
        await files.change("user", {"disabledMcpjsonServers": None})
        await files.world.until_listed("a__echo")

    @spec("R-FILE-13")
    async def test_what_a_higher_layer_shadows_is_said_and_what_policy_decides_is_refused(self, files: Files) -> None:
        files.settings("local", landingRoot="/local")
        files.settings("policy", strictKnownMarketplaces=True)
        await files.start()
        shadowed = await files.change("user", {"landingRoot": "/user"})
        assert (shadowed.effective, shadowed.shadowed_by) == (False, str(files.paths["local"][0]))
        with pytest.raises(PolicyError) as caught:
            await files.change("user", {"strictKnownMarketplaces": False})
        assert caught.value.field == "strictKnownMarketplaces"
        assert files.read("user") == {"landingRoot": "/user"}

    @spec("R-SCOPE-10")
    @pytest.mark.parametrize(
        ("scope", "patch", "error"),
        [
            ("project", {"enableAllProjectMcpServers": True}, PolicyError),
            ("user", {"deniedMcpServers": ["a"]}, PolicyError),
            ("user", {"landingRoot": "relative"}, ConfigValidationError),
            ("user", {"enabledPlugins": {"Bad": True}}, ConfigValidationError),
            ("user", ["no", "object"], ConfigValidationError),
        ],
    )
    async def test_what_does_not_belong_there_is_refused_before_it_is_written(
        self, files: Files, scope: str, patch: Any, error: type[SmcpError]
    ) -> None:
        await files.start()
        with pytest.raises(error):
            await files.change(scope, patch)
        assert files.read(scope) is None

    @spec("R-FILE-7")
    async def test_a_change_from_an_older_revision_is_refused(self, files: Files) -> None:
        files.settings("user", landingRoot="/a")
        await files.start()
        revision = (await files.show("user")).revision
        files.settings("user", landingRoot="/b")
        with pytest.raises(ConflictError) as caught:
            await files.change("user", {"landingRoot": "/c"}, revision)
        assert caught.value.code == "stale_write"
        assert files.read("user") == {"landingRoot": "/b"}

    @spec("R-CFG-6", "R-SCOPE-6")
    async def test_each_scope_and_their_sum_can_be_seen(self, files: Files) -> None:
        files.settings("user", installedPlugins=["a@m"])
        files.settings("local", installedPlugins=["b@m"])
        await files.start()
        assert json.loads((await files.show()).values.data) == {"installedPlugins": ["a@m", "b@m"]}
        local = await files.show("local")
        assert json.loads(local.values.data) == {"installedPlugins": ["b@m"]}
        assert local.source == str(files.paths["local"][0])
        assert json.loads((await files.show("policy")).values.data) == {}


@spec("R-GATE-7")
async def test_a_launch_plan_of_a_pending_server_is_refused(files: Files) -> None:
    files.declare("project", a=server())
    await files.start()
    with pytest.raises(PolicyError):
        await files.world.bus.ask(RECONCILE, GetLaunchPlan("a"))
