"""`smcp input`, `settings` and `mcp` through the door of a Computer that runs, and the same on files alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.cli.control import Door
from smcp_runtime.cli.managing import meant_by
from smcp_runtime.wire.errors import ConfigValidationError, NetworkError
from support.command import Ran
from support.peers import Peers
from support.stack import light

from .test_management_commands import NUMBER, SECRET, SMCP, User

spec = pytest.mark.spec
CRASHING = {"name": "crashing", "command": sys.executable, "args": ["-c", "import sys; sys.exit('no luck')"]}


def text(raw: Any) -> str:
    return json.dumps(raw)


@pytest.fixture
def user(tmp_path: Path, peers: Peers) -> User:
    return User(tmp_path, peers)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user whose Computer runs in a process of its own, in a project, with one server and two inputs."""
    root = tmp_path_factory.mktemp("desk")
    with Peers() as peers:
        user = User(root, peers)
        (user.project / ".tfrobot" / "mcp.local.json").write_text(text({"inputs": [SECRET, NUMBER]}))
        flag = root / "flag.json"
        flag.write_text(text({"mcp_servers": [light("good"), {**light("off"), "disabled": True}]}))
        command = [*SMCP, "computer", "run", "--name", "desk", "--mcp-config", str(flag)]
        started = peers.start(command, env=user.environ, cwd=user.project)
        started.wait_line(r"^ready url=", timeout=60)
        yield user
        assert started.status is None, started.errors


class TestInputsOfAComputerThatRuns:
    @spec("R-MGMT-4", "R-INPUT-20", "R-MGMT-3")
    def test_a_value_is_checked_kept_shown_and_forgotten_by_it(self, desk: User) -> None:
        assert desk.said("input", "set", "n", "--value", "7", "--json")["place"] == "file"
        shown = desk.said("input", "get", "n", "--json")
        assert (shown["value"], shown["origin"], shown["definition"]) == (7, "local", NUMBER)
        assert desk.run("input", "set", "n", "--value", "many").status == 1
        assert desk.said("input", "set", "n", "--value", "8", "--run", "--json")["place"] == "run"
        assert desk.said("input", "get", "n", "--json")["value"] == 8
        assert desk.said("input", "clear", "n", "--json") == {"forgotten": ["n"]}
        assert desk.said("input", "get", "n", "--json")["place"] is None

    @spec("R-SEC-2", "R-INPUT-24")
    def test_a_secret_lives_in_its_memory_and_is_shown_nowhere(self, desk: User) -> None:
        ran = desk.run("input", "set", "tok", typed="sk-canary\n")
        assert (ran.status, ran.errors) == (0, ["there is no keyring: the value is kept for this run only"])
        shown = desk.run("input", "get", "tok")
        assert "place: run" in shown.lines
        assert "sk-canary" not in "".join((*ran.lines, *shown.lines, *shown.errors)) + desk.everything()
        assert desk.said("input", "clear", "--all", "--json") == {"forgotten": ["tok"]}

    @spec("R-MGMT-4", "R-CORE-3", "R-FILE-11")
    def test_a_definition_is_written_and_counts_at_once_and_is_taken_away(self, desk: User) -> None:
        raw = {"type": "bool", "id": "fast", "description": "hurry", "default": True}
        assert desk.said("input", "define", text(raw), "--scope", "user", "--json")["written_scope"] == "user"
        file = desk.home / ".config" / "a2c" / "mcp.json"
        assert json.loads(file.read_text()) == {"inputs": [raw]}
        assert desk.said("input", "get", "fast", "--json")["source"] == str(file)
        assert desk.said("input", "undefine", "fast", "--json")["changed"] is True
        assert json.loads(file.read_text()) == {"inputs": []}
        assert desk.run("input", "get", "fast").status == 1

    def test_one_for_the_run_is_in_no_file(self, desk: User) -> None:
        raw = {"type": "promptString", "id": "passing", "description": "soon gone"}
        assert desk.said("input", "define", text(raw), "--scope", "run", "--json")["written_scope"] == "run"
        assert desk.said("input", "get", "passing", "--json")["source"] == "mounted"
        assert "soon gone" not in desk.everything()
        desk.said("input", "undefine", "passing", "--json")

    @spec("R-CFG-2", "R-CLI-1")
    @pytest.mark.parametrize(
        ("raw", "status", "said"),
        [
            ('{"id": "x", "type": "riddle", "description": "d"}', 1, "type: must be one of"),
            ('{"id": "n", "type": "command", "description": "d"}', 1, "command: is required"),
            ("{oops", 2, "no JSON"),
            ("@/nowhere.json", 2, "cannot be read"),
        ],
    )
    def test_a_faulty_definition_is_refused_with_its_place(self, desk: User, raw: str, status: int, said: str) -> None:
        ran = desk.run("input", "define", raw)
        assert (ran.status, said in "\n".join(ran.errors)) == (status, True)

    @spec("R-CLI-1")
    def test_a_value_without_measure_is_refused_and_said_to_be_that(self, desk: User) -> None:
        ran = desk.run("input", "set", "tok", typed="x" * 2_000_000 + "\n")
        assert (ran.status, ran.errors[0]) == (1, "error too_large: what was given is longer than 1024 KiB")
        assert desk.said("input", "get", "tok", "--json")["place"] is None


class TestSettingsOfAComputerThatRuns:
    @spec("R-CORE-3", "R-MGMT-3", "R-GATE-15")
    def test_a_change_counts_at_once(self, desk: User) -> None:
        result = desk.said("settings", "set", "disabledMcpjsonServers", '["good"]', "--scope", "local", "--json")
        assert (result["changed"], result["effective"], result["written_scope"]) == (True, True, "local")
        assert desk.said("settings", "show", "--scope", "local") == {"disabledMcpjsonServers": ["good"]}
        verdicts = {one["bundle_id"]: one["verdict"] for one in desk.said("mcp", "list", "--json")}
        assert verdicts["good"] == "DISABLED"
        desk.said("settings", "set", "disabledMcpjsonServers", "null", "--scope", "local", "--json")
        assert desk.run("settings", "get", "disabledMcpjsonServers").status == 1

    @spec("R-PLUGIN-26", "R-FILE-8")
    def test_what_was_edited_by_hand_counts_once_it_is_told_to_look(self, desk: User) -> None:
        desk.settings.parent.mkdir(parents=True, exist_ok=True)
        desk.settings.write_text('{"landingRoot": "/edited"}')
        assert desk.run("settings", "get", "landingRoot").status == 1
        assert desk.said("settings", "differences", "--json") == {str(desk.settings): "added"}
        assert desk.said("settings", "reload", "--json")["changed"] is True
        assert desk.said("settings", "get", "landingRoot") == "/edited"
        desk.settings.write_text("{oops")
        reloaded = desk.run("settings", "reload")
        assert (reloaded.status, str(desk.settings) in "\n".join(reloaded.errors)) == (0, True)
        assert desk.said("settings", "get", "landingRoot") == "/edited"
        desk.settings.unlink()
        desk.said("settings", "reload", "--json")

    @spec("R-FILE-11", "R-MGMT-3")
    def test_the_file_it_writes_is_that_of_its_own_project_wherever_the_command_is_given(
        self, desk: User, tmp_path: Path
    ) -> None:
        local = desk.project / ".tfrobot" / "mcp.local.json"
        raw = {"type": "bool", "id": "slow", "description": "wait"}
        defined = desk.run("input", "define", text(raw), "--computer", "desk", cwd=tmp_path)
        assert defined.lines == [f"slow is defined (local: {local})"]
        moved = desk.run("input", "define", text({**raw, "description": "w"}), "--scope", "user")
        assert moved.errors == ["scope local holds it already, so nothing was written to scope user"]
        desk.said("input", "undefine", "slow", "--json")
        assert desk.run("input", "define", text(raw), "--scope", "run").lines == ["slow is defined (run)"]
        desk.said("input", "undefine", "slow", "--json")


class TestStarts:
    @spec("R-MCP-25", "R-MGMT-6", "R-CLI-1")
    def test_a_start_says_how_it_ended(self, desk: User) -> None:
        assert desk.run("mcp", "stop", "good").status == 0
        assert desk.run("mcp", "start", "good").lines == ["good runs"]
        assert desk.run("mcp", "restart", "good").lines == ["good runs"]
        desk.said("mcp", "add", text(CRASHING), "--json")
        failed = desk.run("mcp", "start", "crashing")
        assert failed.status == 1
        assert "crashing did not start" in failed.errors[0]
        assert "no luck" in failed.errors[0]
        every = desk.run("mcp", "start", "all")
        assert (every.status, "crashing did not start" in every.errors[0]) == (1, True)
        desk.said("mcp", "remove", "crashing", "--json")
        assert desk.run("mcp", "start", "off").status == 1


class TestWho:
    @spec("R-MGMT-6")
    def test_inside_another_project_its_files_are_meant_and_who_runs_is_named(self, desk: User, tmp_path: Path) -> None:
        (tmp_path / ".tfrobot").mkdir()
        (tmp_path / ".tfrobot" / "settings.local.json").write_text('{"landingRoot": "/elsewhere"}')
        shown = desk.run("settings", "show", "--scope", "local", cwd=tmp_path)
        assert json.loads(shown.lines[0]) == {"landingRoot": "/elsewhere"}
        assert shown.errors == ["desk runs in another project, and is not asked; --computer desk asks it"]
        named = desk.run("settings", "show", "--scope", "local", "--computer", "desk", cwd=tmp_path)
        assert ("landingRoot" in json.loads(named.lines[0]), named.errors) == (False, [])

    def test_outside_of_any_project_the_one_that_runs_is_asked(self, desk: User, tmp_path: Path) -> None:
        ran = desk.run("input", "get", "n", cwd=tmp_path)
        assert (ran.status, "origin: local" in ran.lines) == (0, True)

    @pytest.mark.parametrize(
        ("doors", "name", "project", "expected"),
        [
            ({}, None, None, None),
            ({"a": "/p"}, None, "/p", "a"),
            ({"a": "/p"}, None, "/q", None),
            ({"a": "/p"}, None, None, "a"),
            ({"a": "/p"}, "a", "/q", "a"),
            ({"a": "/p", "b": "/q"}, None, "/q", "b"),
        ],
    )
    def test_which_computer_is_meant(
        self, doors: dict[str, str], name: str | None, project: str | None, expected: str | None
    ) -> None:
        found = {one: Door(Path("/s"), place) for one, place in doors.items()}
        assert meant_by(found, name, None if project is None else Path(project)) == expected

    def test_what_belongs_to_the_home_is_asked_of_whoever_runs_on_it_and_first_of_who_is_here(self) -> None:
        found = {"a": Door(Path("/s"), "/p"), "b": Door(Path("/s"), "/q")}
        assert meant_by({"a": found["a"]}, None, Path("/elsewhere"), strictly=False) == "a"
        assert meant_by(found, None, Path("/q"), strictly=False) == "b"
        with pytest.raises(ConfigValidationError):
            meant_by(found, None, Path("/elsewhere"), strictly=False)

    @spec("R-MGMT-6", "R-MGMT-7")
    def test_of_several_none_is_chosen_by_any_order(self) -> None:
        found = {one: Door(Path("/s"), "/p") for one in "ab"}
        for project in (None, Path("/p")):
            with pytest.raises(ConfigValidationError, match="several Computers run here: a, b"):
                meant_by(found, None, project)
        with pytest.raises(NetworkError):
            meant_by(found, "c", None)


class TestFilesAlone:
    @spec("R-CLI-2", "R-GATE-12", "R-GATE-13", "R-CORE-3")
    def test_a_server_of_the_project_is_approved_and_denied_in_local_settings(self, user: User) -> None:
        user.declare(**{"my srv": {"command": "echo"}})
        approved = user.run("mcp", "approve", "my srv")
        assert (approved.status, "next start" in approved.errors[0]) == (0, True)
        local = json.loads((user.project / ".tfrobot" / "settings.local.json").read_text())
        assert local["enabledMcpjsonServers"] == ["my_srv"]
        assert [one["verdict"] for one in user.said("mcp", "list", "--json")] == ["ENABLED"]
        assert user.said("mcp", "deny", "my_srv", "--json")["changed"] is True
        assert [one["verdict"] for one in user.said("mcp", "list", "--json")] == ["DISABLED"]

    @spec("R-MGMT-4", "R-CLI-2", "R-CORE-3")
    def test_an_input_is_defined_and_undefined(self, user: User) -> None:
        assert user.said("input", "define", text(NUMBER), "--json")["written_scope"] == "local"
        assert user.said("input", "get", "n", "--json")["definition"] == NUMBER
        assert user.said("input", "undefine", "n", "--json")["changed"] is True
        assert user.said("input", "list", "--json") == []
        assert user.run("input", "define", text(NUMBER), "--scope", "run").status == 1

    @spec("R-INPUT-18", "F-10")
    def test_what_would_read_the_variable_of_another_is_refused_and_not_written(self, user: User) -> None:
        user.declare(NUMBER, **{"a-b": {"command": "x", "args": ["${input:n}"]}})
        local = user.project / ".tfrobot" / "mcp.local.json"
        ran: Ran = user.run("mcp", "add", text({"name": "a_b", "command": "x", "args": ["${input:n}"]}))
        assert (ran.status, "env_name_collision" in ran.errors[0], local.exists()) == (1, True, False)
        twin = {"type": "number", "id": "o-n", "description": "d"}
        user.said("input", "define", text(twin), "--json")
        ran = user.run("input", "define", text({**twin, "id": "o_n"}))
        assert (ran.status, "env_name_collision" in ran.errors[0]) == (1, True)
        assert [one["id"] for one in json.loads(local.read_text())["inputs"]] == ["o-n"]

    @spec("R-FILE-12", "R-CORE-2")
    def test_looking_writes_nothing(self, user: User) -> None:
        user.declare(NUMBER)
        before = sorted(user.home.rglob("*")), user.everything()
        for words in (("input", "list"), ("input", "get", "n"), ("settings", "show"), ("settings", "get", "x")):
            user.run(*words)
        assert (sorted(user.home.rglob("*")), user.everything()) == before

    @spec("R-CLI-1")
    def test_words_that_are_no_text_are_wrong_usage(self, user: User) -> None:
        user.declare(NUMBER)
        broken = os.fsdecode(b"x\xff")
        for words in (("settings", "set", broken, "1"), ("input", "set", "n", "--value", broken)):
            ran = user.run(*words)
            assert (ran.status, "not UTF-8" in "\n".join(ran.errors)) == (2, True)
        assert user.run("mcp", "start", broken).status == 1
