"""The runtime contract of configuration, with real MCP servers and a recording Server (03 §2 to §9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, MissingInputError, PartialFailureError
from support.leftovers import processes
from support.recording_server import RecordingServer
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
SECRET = {"type": "promptString", "id": "token", "description": "d", "password": True}
REQUEST = {"agent": "a", "req_id": "r", "computer": "desk"}


class Place:
    """A user's home and a project, and Computers in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.user = root / ".config" / "a2c"
        self.project = root / "project" / ".tfrobot"
        (root / "project").mkdir()

    def write(self, path: Path, content: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        return path

    def computer(self, configuration: Any = None, env: dict[str, str] | None = None, **changes: Any) -> Computer:
        environ = {"HOME": str(self.root), "PATH": "/usr/bin:/bin", **(env or {})}
        made = options(env=environ, project_root=str(self.root / "project"), secret_providers=["memory"], **changes)
        return Computer.from_config(configuration or config(), made)

    def files(self) -> dict[str, bytes]:
        kept = (path for path in self.root.rglob("*") if path.is_file() and path.suffix != ".lock")
        return {str(path.relative_to(self.root)): path.read_bytes() for path in kept if "state" not in path.parts}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def with_token(entry: dict[str, Any]) -> dict[str, Any]:
    parameters = {**entry["server_parameters"], "env": {"TOKEN": "${input:token}"}}
    return {**entry, "server_parameters": parameters}


async def status_of(made: Computer, bundle_id: str) -> Any:
    return {one.bundle_id: one for one in (await made.diagnostics()).servers}[bundle_id]


class TestValues:
    @spec("T-RERES-2", "T-RERES-3", "R-INPUT-20")
    async def test_t_reres_2_t_reres_3_a_changed_value_reaches_a_server_at_its_restart_and_not_before(
        self, place: Place
    ) -> None:
        entry = with_token(light("srv", tools="env"))
        async with RecordingServer() as server, place.computer(config(entry, inputs=[SECRET])) as made:
            await made.manage.set_input("token", "first-value")
            await made.control("srv", "start")
            await until(lambda: _connected(made, "srv"))
            await made.connect(server.url, office="lab")
            assert await _env(server) == "first-value"
            await made.manage.set_input("token", "second-value")
            assert await _env(server) == "first-value"
            await made.control("srv", "restart")
            await until(lambda: _connected(made, "srv"))
            assert await _env(server) == "second-value"

    @spec("T-RERES-4", "R-INPUT-20")
    async def test_t_reres_4_starting_a_running_server_resolves_nothing(self, place: Place) -> None:
        asked: list[str] = []

        def hook(request: Any) -> str:
            asked.append(request.id)
            return "v-value"

        entry = with_token(light("srv"))
        environ = {"HOME": str(place.root), "PATH": "/usr/bin:/bin"}
        made = Computer.from_config(config(entry, inputs=[SECRET]), options(env=environ, secret_providers=[hook]))
        async with made:
            pid = (await status_of(made, "srv")).pid
            await made.control("srv", "start")
            assert asked == ["token"]
            assert (await status_of(made, "srv")).pid == pid

    @spec("T-RERES-6", "R-INPUT-21", "R-LIFE-17")
    async def test_t_reres_6_a_restart_without_its_value_is_an_error_and_the_old_process_lives(
        self, place: Place
    ) -> None:
        made = place.computer(config(with_token(light("srv")), inputs=[SECRET]))
        async with RecordingServer() as server, made:
            await made.connect(server.url, office="lab")
            await made.manage.set_input("token", "the-value")
            await made.control("srv", "start")
            await until(lambda: _connected(made, "srv"))
            before, pid = await server.ask("client:get_config", REQUEST), (await status_of(made, "srv")).pid
            await made.manage.unset_input("token")
            with pytest.raises(MissingInputError) as caught:
                await made.control("srv", "restart")
            assert caught.value.input_id == "token"
            assert "A2C_SMCP_token_srv" in caught.value.message
            after = await status_of(made, "srv")
            assert (after.pid, after.connection) == (pid, "connected")
            assert await server.ask("client:get_config", REQUEST) == before

    @spec("T-SYNC-5", "R-LIFE-17", "R-INPUT-21", "R-ERR-5")
    async def test_t_sync_5_a_sync_that_one_server_cannot_take_applies_the_rest_and_can_be_repeated(
        self, place: Place
    ) -> None:
        made = place.computer(config(light("old"), light("other")))
        async with made:
            pids = processes()
            changed = config(with_token(light("old")), light("new"), inputs=[SECRET])
            with pytest.raises(PartialFailureError) as caught:
                await made.sync_config(changed)
            assert (caught.value.applied, caught.value.failed) == (("new", "other"), ("old",))
            assert made.state == "degraded"
            assert (await status_of(made, "old")).pid in pids
            await made.manage.set_input("token", "the-value")
            result = await made.sync_config(changed)
            assert result.restarted == ("old",)
            await until(lambda: _connected(made, "old"))
            await made.wait_for("started")

    @spec("T-SYNC-5", "R-LIFE-7")
    async def test_t_sync_5_one_of_two_new_servers_that_cannot_start_degrades_and_hides_nothing(
        self, place: Place
    ) -> None:
        async with RecordingServer() as server, place.computer() as made:
            await made.connect(server.url, office="lab")
            await made.sync_config(config(light("good"), light("bad", "--exit-at-once", "3")))
            await until(lambda: _connected(made, "good"))
            await made.wait_for("degraded")
            tools = (await server.ask("client:get_tools", REQUEST))["tools"]
            assert [tool["name"] for tool in tools] == ["good__echo"]


class TestIntent:
    @spec("R-CORE-3", "R-LIFE-21", "R-CORE-9", "R-OPT-1")
    async def test_what_is_declared_stays_and_what_is_mounted_is_gone_after_a_restart(self, place: Place) -> None:
        made = place.computer()
        async with made:
            await made.manage.declare(light("kept"), "user")
            await made.mount(light("passing"))
            assert len((await made.diagnostics()).servers) == 2
        assert "passing" not in repr(place.files())
        async with place.computer() as again:
            assert [one.bundle_id for one in (await again.diagnostics()).servers] == ["kept"]

    @spec("R-CORE-5", "R-CORE-6")
    async def test_a_declared_server_leaves_no_lock_file_of_its_own_and_no_copy(self, place: Place) -> None:
        place.write(place.user / "mcp.json", {"servers": {"srv": light("srv")}})
        async with place.computer():
            made = set(place.files())
        assert made == {".config/a2c/mcp.json"}

    @spec("R-CORE-10")
    async def test_installing_is_no_enabling(self, place: Place) -> None:
        place.write(place.user / "settings.json", {"installedPlugins": ["p@m"]})
        async with place.computer() as made:
            view = await made.manage.settings()
            assert json.loads(view.values.data) == {"installedPlugins": ["p@m"]}
            assert (await made.diagnostics()).servers == ()

    @spec("R-SEC-4", "T-SEC-1")
    async def test_t_sec_1_no_request_of_an_agent_changes_any_intent(self, place: Place) -> None:
        place.write(place.user / "mcp.json", {"servers": {"srv": light("srv")}})
        async with RecordingServer() as server, place.computer() as made:
            await made.connect(server.url, office="lab")
            before = place.files()
            for event in (
                "client:get_config",
                "client:get_tools",
                "client:get_desktop",
                "client:get_skills",
                "client:list_finder",
            ):
                await server.ask(event, {**REQUEST, "bundle_id": "srv", "patch": {"landingRoot": "/"}})
            call = {**REQUEST, "tool_name": "srv__echo", "params": {"text": "x"}, "timeout": 5}
            await server.ask("client:tool_call", call)
            assert place.files() == before

    @spec("R-GATE-1", "R-GATE-6")
    async def test_disabling_by_id_and_trusting_are_two_switches(self, place: Place) -> None:
        """A project's server that is both approved and disabled stays out; an id made of its connection lapses."""
        place.write(place.project / "mcp.json", {"servers": {"你好": {"command": "one"}, "b": {"command": "two"}}})
        async with place.computer() as made:
            (first,) = [one for one in await made.manage.pending() if one.bundle_id != "b"]
            await made.manage.approve(first.bundle_id)
            await made.manage.approve("b")
            await made.manage.change_settings("user", {"disabledMcpjsonServers": ["b"]})
            assert await made.manage.pending() == ()
            place.write(
                place.project / "mcp.json", {"servers": {"你好": {"command": "other"}, "b": {"command": "two"}}}
            )
            await made.manage.reload()
            (lapsed,) = await made.manage.pending()
            assert lapsed.bundle_id != first.bundle_id
            assert lapsed.bundle_id.startswith("bundle_")

    @spec("R-GATE-16", "R-SCOPE-7")
    async def test_what_is_mounted_below_a_flag_file_changes_nothing_that_runs(
        self, place: Place, tmp_path: Path
    ) -> None:
        flag = place.write(tmp_path / "flag.json", {"servers": {"srv": light("srv", tools="add")}})
        async with place.computer(config(light("srv")), flag_mcp_config=[str(flag)]) as made:
            pids = processes()
            result = await made.mount(light("srv", tools="env"))
            assert (result.started, result.restarted, processes()) == ((), (), pids)

    @spec("R-LIFE-15", "R-PROJ-3", "T-SYNC-3")
    async def test_t_sync_3_metadata_alone_restarts_nothing_and_announces_both_views(self, place: Place) -> None:
        async with RecordingServer() as server, place.computer(config(light("srv"))) as made:
            await made.connect(server.url, office="lab")
            await server.until(lambda: "server:update_tool_list" in server.named())
            pids = processes()
            server.events.clear()
            tagged = {**light("srv"), "default_tool_meta": {"auto_apply": True, "tags": ["t"]}}
            result = await made.sync_config(config(tagged))
            assert (result.remeta, result.restarted) == (("srv",), ())
            await server.until(lambda: len(server.events) >= 2)
            assert sorted(server.named()) == ["server:update_config", "server:update_tool_list"]
            assert processes() == pids


class TestSync:
    @spec("T-SYNC-1", "R-PROJ-3", "R-PROJ-6")
    async def test_t_sync_1_an_added_server_is_listed_and_each_event_is_sent_once(self, place: Place) -> None:
        async with RecordingServer() as server, place.computer(config()) as made:
            await made.connect(server.url, office="lab")
            server.events.clear()
            assert (await made.sync_config(config(light("srv")))).started == ("srv",)
            await server.until(lambda: {"server:update_config", "server:update_tool_list"} <= {*server.named()})
            tools = (await server.ask("client:get_tools", REQUEST))["tools"]
            assert [tool["name"] for tool in tools] == ["srv__echo"]
            assert list((await server.ask("client:get_config", REQUEST))["servers"]) == ["srv"]
            await _quiet(server, list(server.events), 0.8)
            assert sorted(server.named()) == ["server:update_config", "server:update_tool_list"]

    @spec("T-SYNC-2", "R-PROJ-9", "R-LIFE-16", "R-MCP-17")
    async def test_t_sync_2_a_disabled_and_then_removed_server_takes_its_tools_and_resources_along(
        self, place: Place
    ) -> None:
        async with RecordingServer() as server, place.computer(config(light("srv"), light("other"))) as made:
            await made.connect(server.url, office="lab")
            await until(lambda: _connected(made, "srv"))
            await until(lambda: _connected(made, "other"))
            pid = (await status_of(made, "srv")).pid
            assert pid in processes()
            call = {**REQUEST, "tool_name": "srv__echo", "params": {"text": "x"}, "timeout": 5}
            codes = []
            for left in ({**light("srv"), "disabled": True}, None):
                await made.sync_config(config(*([left] if left else []), light("other")))
                tools = (await server.ask("client:get_tools", REQUEST))["tools"]
                assert [tool["name"] for tool in tools] == ["other__echo"]
                result = await server.ask("client:tool_call", call)
                assert result["isError"] is True
                resources = await server.ask("client:get_resources", {**REQUEST, "mcp_server": "srv"})
                codes.append((result["meta"]["error_code"], resources["code"]))
            assert codes == [(4002, 4014), (4001, 4014)]
            await until(lambda: pid not in processes())


class TestEnd:
    @spec("T-STOP-3", "R-SEC-13", "R-PROJ-7")
    async def test_t_stop_3_after_a_shutdown_no_timer_says_anything(self, place: Place) -> None:
        """Everything that could still speak is armed: a coalescing window, a backoff, a watcher, a call in flight."""
        (place.root / ".a2c" / "skills" / "user").mkdir(parents=True)
        servers = (light("srv", tools="echo,sleep"), light("dying", "--exit-at-once", "3"))
        made = place.computer(config(*servers), coalesce_ms=400.0, coalesce_max_wait_ms=800.0)
        async with RecordingServer() as server:
            await made.start()
            await made.connect(server.url, office="lab")
            await server.until(lambda: "server:join_office" in server.named())
            await made.mount(light("late"))
            await made.shutdown(force=True)
            at_the_end = list(server.events)
            place.write(place.root / ".a2c" / "skills" / "user" / "new" / "SKILL.md", {})
            # Longer than the window, the backoff and the watcher's own pause together.
            await _quiet(server, at_the_end, 1.5)
        assert processes() == set()


async def _quiet(server: RecordingServer, expected: list[Any], seconds: float) -> None:
    with pytest.raises(TimeoutError):
        await server.until(lambda: [one for one in server.events if one not in expected] != [], timeout=seconds)


async def _env(server: RecordingServer) -> str:
    call = {**REQUEST, "tool_name": "srv__env", "params": {"name": "TOKEN"}, "timeout": 5}
    result = await server.ask("client:tool_call", call)
    return str(result["content"][0]["text"])


async def _connected(made: Computer, bundle_id: str) -> bool:
    return bool((await status_of(made, bundle_id)).connection == "connected")


@spec("R-GATE-5", "R-SEC-14", "R-LIFE-23")
async def test_the_diagnostics_name_files_findings_and_pending_servers(place: Place) -> None:
    place.write(place.project / "mcp.json", {"servers": {"srv": {"command": "x"}}})
    bad = place.write(place.user / "settings.json", {"enabledMcpjsonServers": ["my.server"]})
    async with place.computer() as made:
        seen = await made.diagnostics()
    assert [request.bundle_id for request in seen.pending] == ["srv"]
    assert any(line.startswith(str(bad)) and "'my_server'" in line for line in seen.findings)


@spec("R-INPUT-23", "R-MCP-24")
async def test_the_health_hook_is_told_of_every_server_without_secrets(place: Place) -> None:
    told: list[dict[str, Any]] = []

    async def hook(record: dict[str, Any]) -> None:
        told.append(record)

    entry = light("srv", "--exit-at-once", "3")
    entry["server_parameters"]["args"] += ["--token", "${input:token}"]
    environ = {"A2C_SMCP_token": "StartupError"}  # a secret that stands in what is told
    async with place.computer(config(entry, light("good"), inputs=[SECRET]), env=environ, health=hook):
        await until(lambda: {record["connection"] for record in told} >= {"error", "connected"})
    assert {record["server"] for record in told} == {"srv", "good"}
    assert "StartupError" not in repr(told)


@spec("R-OPT-1")
async def test_a_health_hook_that_fails_harms_nobody(place: Place) -> None:
    def hook(_: Any) -> None:
        raise RuntimeError("no")

    async with place.computer(config(light("good")), health=hook) as made:
        await until(lambda: _connected(made, "good"))


@spec("R-MGMT-3", "R-LIFE-4")
async def test_managing_a_stopped_computer_is_a_conflict(place: Place) -> None:
    made = place.computer()
    with pytest.raises(ConflictError):
        await made.manage.pending()
    with pytest.raises(ConflictError):
        await made.manage.approve("x")


@spec("R-LIFE-8", "R-ERR-1")
async def test_a_home_that_is_no_directory_ends_the_start(place: Place) -> None:
    (place.root / "home").write_text("a file")
    made = place.computer(home=str(place.root / "home"))
    with pytest.raises(Exception, match="could not be made") as caught:
        await made.start()
    assert getattr(caught.value, "category", None) == "startup"
    assert made.state == "error"
    await made.shutdown()


@spec("R-ERR-3")
async def test_an_input_that_is_missing_shows_an_agent_a_failed_result_without_its_name(place: Place) -> None:
    made = place.computer(config(with_token(light("srv")), inputs=[SECRET]))
    async with RecordingServer() as server, made:
        await made.connect(server.url, office="lab")
        call = {**REQUEST, "tool_name": "srv__echo", "params": {}, "timeout": 5}
        said = json.dumps(await server.ask("client:tool_call", call))
        assert "token" not in said
        assert str(place.root) not in said


@spec("T-CFG-3", "T-CFG-5")
async def test_a_bad_plugin_id_is_named_with_its_place() -> None:
    with pytest.raises(ConfigValidationError) as caught:
        Computer.from_config({"name": "desk", "installedPlugins": ["ok@acme", "Audit@acme", "audit"]})
    assert [finding.field for finding in caught.value.findings] == ["installedPlugins[1]", "installedPlugins[2]"]
