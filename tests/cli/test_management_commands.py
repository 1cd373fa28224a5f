"""`smcp input`, `smcp settings`, `smcp computer check` and the questions of `smcp computer run`, on real files."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime import fixtures
from support.command import Ran, smcp
from support.peers import Peers

spec = pytest.mark.spec
SMCP = (sys.executable, "-m", "smcp_runtime.cli.main")
SECRET = {"type": "promptString", "id": "tok", "description": "the token", "password": True}
NUMBER = {"type": "number", "id": "n", "description": "how many", "default": 3}


class User:
    """A user with a home and a project, where commands are run."""

    def __init__(self, root: Path, peers: Peers) -> None:
        self.peers = peers
        self.home, self.project = root / "home", root / "project"
        self.home.mkdir()
        (self.project / ".tfrobot").mkdir(parents=True)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "A2C_"))},
            "HOME": str(self.home),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }

    def declare(self, *inputs: Any, **servers: Any) -> Path:
        path = self.project / ".tfrobot" / "mcp.json"
        path.write_text(json.dumps({"servers": servers, "inputs": list(inputs)}))
        return path

    def run(self, *words: str, typed: str | None = None, cwd: Path | None = None, **environ: str) -> Ran:
        return smcp(*words, environ={**self.environ, **environ}, cwd=cwd or self.project, typed=typed or "")

    def said(self, *words: str, **more: Any) -> Any:
        """The JSON document of a command that succeeds."""
        peer = self.run(*words, **more)
        assert peer.status == 0, peer.errors
        return json.loads(peer.lines[0])

    @property
    def settings(self) -> Path:
        return self.home / ".config" / "a2c" / "settings.json"

    def everything(self) -> str:
        files = (path for root in (self.home, self.project) for path in root.rglob("*") if path.is_file())
        return "".join(path.read_text("utf-8", "replace") for path in files)


@pytest.fixture
def user(tmp_path: Path, peers: Peers) -> User:
    return User(tmp_path, peers)


class TestCheck:
    def test_it_names_origin_verdict_variables_and_tool_prefix_and_shows_no_literal(self, user: User) -> None:
        path = user.declare(
            SECRET, **{"my echo": {"command": "echo", "args": ["${input:tok}"], "env": {"K": "sk-lit"}}}
        )
        plan = user.said("computer", "check", "--name", "desk", "--json")
        server = plan["servers"]["my_echo"]
        assert (server["origin"], server["source"]) == ("project", str(path))
        assert (server["verdict"], server["step"], server["state"]) == ("PENDING", 7, "pending")
        assert server["variables"] == {"tok": ["A2C_SMCP_tok_my_echo", "A2C_SMCP_tok"]}
        assert server["tool_prefix"] == "my_echo__"
        assert [request["bundle_id"] for request in plan["pending"]] == ["my_echo"]
        assert "sk-lit" not in json.dumps(plan)

    def test_for_people_it_says_who_waits_for_an_approval_on_stderr(self, user: User) -> None:
        path = user.declare(a={"command": "echo"})
        check = user.run("computer", "check", "--name", "desk")
        assert check.status == 0
        assert check.lines[0] == "desk: 1 servers, 0 inputs"
        assert check.errors == [f"a of {path} waits for an approval: not approved yet"]

    def test_a_reference_to_an_undefined_input_in_a_given_file_ends_with_status_2_and_its_place(
        self, user: User, tmp_path: Path
    ) -> None:
        path = tmp_path / "flag.json"
        entry = {"command": "true", "args": ["-v", "${input:ghost}"], "default_tool_meta": {"auto_apply": True}}
        path.write_text(json.dumps({"servers": {"a": entry}}))
        check = user.run("computer", "check", "--name", "desk", "--mcp-config", str(path))
        assert check.status == 2
        assert check.errors == [f"{path}: servers.a.server_parameters.args[1]: input 'ghost' is not defined"]

    @spec("R-SCOPE-13")
    def test_what_is_wrong_with_ambient_files_is_told_and_no_failure(self, user: User) -> None:
        user.declare(a={"command": 5}, b={"command": "echo"})
        check = user.run("computer", "check", "--name", "desk", "--json")
        assert check.status == 0
        plan = json.loads(check.lines[0])
        assert list(plan["servers"]) == ["b"]
        assert any("servers.a" in line for line in plan["findings"])


class TestInput:
    def test_a_value_is_kept_listed_and_forgotten(self, user: User) -> None:
        user.declare(NUMBER, a={"command": "echo", "args": ["x${input:n}"]})
        assert user.said("input", "set", "n", "--value", "7", "--json") == {
            "input": "n",
            "place": "file",
            "shadowed_by": None,
        }
        (view,) = user.said("input", "list", "--json")
        assert (view["place"], view["value"], view["servers"]) == ("file", 7, ["a"])
        assert view["variables"] == ["A2C_SMCP_n_a", "A2C_SMCP_n"]
        assert user.said("input", "clear", "n", "--json") == {"forgotten": ["n"]}
        assert user.said("input", "clear", "--all", "--json") == {"forgotten": []}

    def test_a_value_may_be_piped_in_or_come_from_a_variable(self, user: User) -> None:
        user.declare(NUMBER)
        user.said("input", "set", "n", "--json", typed="8\n")
        assert user.said("input", "list", "--json")[0]["value"] == 8
        user.said("input", "set", "n", "--env", "COUNT", "--json", COUNT="9")
        assert user.said("input", "list", "--json")[0]["value"] == 9

    def test_a_variable_that_stands_before_the_value_is_named(self, user: User) -> None:
        user.declare(NUMBER)
        peer = user.run("input", "set", "n", "--value", "7", A2C_SMCP_n="1")
        assert peer.status == 0
        assert peer.errors == ["A2C_SMCP_n is set in the environment and stands before it"]

    @spec("R-SEC-2", "R-INPUT-24")
    def test_a_secret_is_not_taken_from_the_command_line_and_not_kept_in_a_file(self, user: User) -> None:
        user.declare(SECRET)
        given = user.run("input", "set", "tok", "--value", "sk-canary")
        piped = user.run("input", "set", "tok", typed="sk-canary\n")
        assert (given.status, piped.status) == (1, 1)
        assert "no_keyring" in piped.errors[0]
        told = "\n".join((*given.lines, *given.errors, *piped.lines, *piped.errors))
        assert "sk-canary" not in told + user.everything()

    @spec("R-CLI-1")
    @pytest.mark.parametrize(
        ("words", "status"),
        [
            (("set", "ghost", "--value", "1"), 1),
            (("set", "n", "--value", "many"), 1),
            (("set", "n", "--env", "UNSET_VARIABLE"), 2),
            (("clear",), 2),
            (("list", "--mcp-config", "/nowhere.json"), 2),
        ],
    )
    def test_a_mistake_ends_with_its_status(self, user: User, words: tuple[str, ...], status: int) -> None:
        user.declare(NUMBER)
        assert user.run("input", *words).status == status


class TestSettings:
    @spec("R-FILE-9")
    def test_a_field_is_set_shown_and_deleted_in_the_file_of_its_scope(self, user: User) -> None:
        result = user.said("settings", "set", "enabledPlugins", '{"p@m": true}', "--json")
        assert (result["changed"], result["effective"], result["written_scope"]) == (True, True, "user")
        user.said("settings", "set", "landingRoot", "/srv", "--scope", "local", "--json")
        assert user.said("settings", "show") == {"enabledPlugins": {"p@m": True}, "landingRoot": "/srv"}
        assert user.said("settings", "show", "--scope", "user") == {"enabledPlugins": {"p@m": True}}
        assert user.said("settings", "get", "enabledPlugins.p@m") is True
        user.said("settings", "set", "enabledPlugins", "null", "--json")
        assert json.loads(user.settings.read_text()) == {}
        assert user.run("settings", "get", "enabledPlugins").status == 1

    @spec("R-FILE-13")
    def test_a_value_that_is_shadowed_says_by_whom(self, user: User) -> None:
        user.run("settings", "set", "landingRoot", "/local", "--scope", "local")
        peer = user.run("settings", "set", "landingRoot", "/user")
        assert peer.status == 0
        assert peer.errors == [
            f"it is not effective: {user.project / '.tfrobot' / 'settings.local.json'} stands above it"
        ]

    @spec("R-FILE-8", "T-SCOPE-4", "R-CLI-1")
    def test_a_file_nobody_understands_is_reported_and_left_alone(self, user: User) -> None:
        user.settings.parent.mkdir(parents=True)
        user.settings.write_text("{oops")
        shown = user.run("settings", "show")
        assert (shown.status, shown.lines) == (0, ["{}"])
        assert str(user.settings) in shown.errors[0]
        assert user.run("settings", "set", "landingRoot", "/srv").status == 1
        assert user.settings.read_text() == "{oops"

    @spec("R-SCOPE-10", "R-CLI-1")
    @pytest.mark.parametrize(
        ("words", "status"),
        [
            (("set", "deniedMcpServers", '["a"]'), 1),
            (("set", "enableAllProjectMcpServers", "true", "--scope", "project"), 1),
            (("set", "landingRoot", "relative"), 1),
            (("set", "landingRoot", "/x", "--scope", "policy"), 2),
            (("show", "--settings", "/nowhere.json"), 2),
        ],
    )
    def test_what_may_not_be_is_refused(self, user: User, words: tuple[str, ...], status: int) -> None:
        peer = user.run("settings", *words)
        assert (peer.status, user.settings.exists()) == (status, False)

    @spec("R-CLI-1")
    @pytest.mark.parametrize("key", ["", ".", "a..b", ".a", "a."])
    def test_a_path_with_a_name_missing_is_wrong_usage_and_writes_nothing(self, user: User, key: str) -> None:
        peer = user.run("settings", "set", key, "1")
        assert (peer.status, user.settings.exists()) == (2, False)
        assert repr(key) in "\n".join(peer.errors)

    def test_the_editor_of_the_user_opens_the_file(self, user: User, tmp_path: Path) -> None:
        editor = tmp_path / "editor"
        editor.write_text('#!/bin/sh\necho \'{"landingRoot": "/edited"}\' > "$1"\n')
        editor.chmod(0o755)
        assert user.run("settings", "edit", EDITOR=str(editor), VISUAL="").status == 0
        assert user.said("settings", "get", "landingRoot") == "/edited"

    @spec("R-CLI-1")
    @pytest.mark.parametrize(
        ("editor", "why"), [("/nonexistent/ed", "No such file"), ("ed 'x", "No closing quotation")]
    )
    def test_an_editor_that_cannot_be_started_is_named_and_is_no_defect(
        self, user: User, editor: str, why: str
    ) -> None:
        peer = user.run("settings", "edit", EDITOR=editor, VISUAL="")
        assert peer.status == 1
        assert peer.errors[0].startswith(f"error editor_failed: the editor {editor} cannot be started: {why}")


class Terminal:
    """`smcp computer run` with somebody at its terminal, where its results go only if that is said."""

    def __init__(self, user: User, *words: str, results: bool = False) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*SMCP, "computer", "run", "--name", "desk", *words],
            stdin=slave,
            stderr=slave,
            stdout=slave if results else subprocess.PIPE,
            env={**user.environ, "A2C_LOG_LEVEL": "ERROR"},
            cwd=user.project,
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def until(self, *words: str) -> None:
        """Reads until all of this was shown; the run's own time limit ends a test that waits in vain."""
        while not all(word in self.text for word in words):
            self.text += os.read(self._master, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._master, f"{text}\n".encode())

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        with self.process:
            status = self.process.wait(20)
        os.close(self._master)
        return status


@pytest.fixture
def at_terminal(user: User) -> Iterator[Any]:
    started: list[Terminal] = []

    def start(*words: str, **more: Any) -> Terminal:
        started.append(Terminal(user, *words, **more))
        return started[-1]

    yield start
    for terminal in started:
        if terminal.process.poll() is None:
            os.killpg(terminal.process.pid, signal.SIGKILL)
            with terminal.process:
                terminal.process.wait(10)


def light(*arguments: str) -> dict[str, Any]:
    command, *words = fixtures.light_stdio("--tools", "echo", *arguments)
    return {"command": command, "args": words, "env": {"TOKEN": "${input:tok}"}}


@spec("R-GATE-12", "R-CLI-3", "R-SEC-2")
def test_at_a_terminal_a_run_asks_for_approval_and_values_and_shows_no_secret(user: User, at_terminal: Any) -> None:
    user.declare(SECRET, **{"my srv": light()})
    run = at_terminal()
    run.until("my_srv not approved yet", "name         my srv", "declared by  project", "inputs       tok", "Run it?")
    run.type("yes")
    run.until("the token (tok, for my_srv)")
    run.type("sk-canary")
    local = user.project / ".tfrobot" / "settings.local.json"
    status = user.run("computer", "status", "--name", "desk", "--json")
    while '"connected"' not in "".join(status.lines):
        assert status.status == 0, status.errors
        status = user.run("computer", "status", "--name", "desk", "--json")
    assert json.loads(local.read_text())["enabledMcpjsonServers"] == ["my_srv"]
    assert run.end() == 0
    assert "sk-canary" not in run.text + user.everything()


@spec("R-GATE-12", "R-CLI-3")
def test_the_ready_line_is_a_line_and_the_question_that_was_open_is_there_again(user: User, at_terminal: Any) -> None:
    user.declare(a=light())
    run = at_terminal(results=True)
    run.until("ready url=none", "Run it?")
    before, _, run.text = run.text.partition("ready url=")
    assert not before or before.endswith("\r\n")
    run.until("Run it?")
    run.type("no")
    assert run.end() == 0


@spec("R-SEC-2")
def test_without_a_keyring_a_secret_is_given_to_the_computer_that_runs(user: User) -> None:
    user.declare(SECRET)
    peer = user.peers.start([*SMCP, "computer", "run", "--name", "desk"], env=user.environ, cwd=user.project)
    peer.wait_line(r"^ready ", timeout=20)
    assert user.said("input", "set", "tok", "--json", typed="sk-canary\n")["place"] == "run"
    peer.signal(signal.SIGTERM)
    assert peer.wait_exit(timeout=20) == 0
    assert "sk-canary" not in user.everything() + "".join((*peer.lines, *peer.errors))


@spec("R-GATE-12", "R-CLI-3")
def test_a_pipe_is_nobody_to_ask(user: User) -> None:
    user.declare(a={"command": "echo"})
    peer = user.peers.start([*SMCP, "computer", "run", "--name", "desk"], env=user.environ, cwd=user.project)
    peer.wait_line(r"^ready ", timeout=20)
    peer.wait_line(r"a of .* waits for an approval", of="errors")
    assert not (user.project / ".tfrobot" / "settings.local.json").exists()
    peer.signal(signal.SIGTERM)
    assert peer.wait_exit(timeout=20) == 0


@spec("R-GATE-12")
def test_the_flag_that_approves_all_writes_nothing(user: User) -> None:
    user.declare(**{"my srv": {**light(), "env": {}}})
    words = ("computer", "run", "--name", "desk", "--approve-all-mcp")
    peer = user.peers.start([*SMCP, *words], env=user.environ, cwd=user.project)
    peer.wait_line(r"^ready ", timeout=20)
    status = user.said("computer", "status", "--name", "desk", "--json")
    assert [server["bundle_id"] for server in status["servers"]] == ["my_srv"]
    assert not (user.project / ".tfrobot" / "settings.local.json").exists()
    peer.signal(signal.SIGTERM)
    assert peer.wait_exit(timeout=20) == 0
