"""`smcp doctor`: what it looks at, what it advises, and how it ends."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.directories import Directories
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.management.preview import preview
from smcp_runtime.cli import checkup
from smcp_runtime.cli.checkup import Found
from smcp_runtime.runtime import Computer
from smcp_runtime.server import ANONYMOUS, ServerOptions, serve
from support.peers import Peers


def servers(**entries: dict[str, Any]) -> dict[str, Any]:
    config = {
        "name": "pc",
        "mcp_servers": {f"{name} (display)": {"bundle_id": name, **e} for name, e in entries.items()},
    }
    return preview(Computer.from_config(config).config, settle(RuntimeOptions())[0]).picture.servers


def stdio(command: str, **more: Any) -> dict[str, Any]:
    return {"type": "stdio", "server_parameters": {"command": command, **more}}


def looked_at(entry: dict[str, Any], **environ: str) -> list[Found]:
    return list(checkup.check_server(servers(it=entry)["it"], {"PATH": os.environ["PATH"], **environ}))


def places(tmp_path: Path) -> Directories:
    return Directories(*(tmp_path / name for name in ("home", "config", "state", "cache", "managed")))


class TestServers:
    def test_a_command_on_path_is_named_with_its_place(self) -> None:
        (found,) = looked_at(stdio("python3"))
        assert found.level == "ok"
        assert found.text.endswith("python3")

    @pytest.mark.parametrize(
        ("command", "advice"), [("npx", "Node.js"), ("uvx", "pip install uv"), ("nosuch", "full path")]
    )
    def test_a_missing_command_comes_with_what_to_install(self, command: str, advice: str) -> None:
        (found,) = looked_at(stdio(command), PATH="/nonexistent")
        assert found.level == "problem"
        assert f"{command} is not on PATH" in found.text
        assert advice in found.advice

    def test_a_path_that_is_no_program_says_which_of_the_two_is_wrong(self, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.write_text("no program")
        assert "is not executable" in looked_at(stdio(str(plain)))[0].text
        assert "does not exist" in looked_at(stdio(str(tmp_path / "none")))[0].text

    def test_a_relative_path_counts_from_the_directory_of_the_server(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("#!/bin/sh\n")
        (tmp_path / "run.sh").chmod(0o755)
        (found,) = looked_at(stdio("./run.sh", cwd=str(tmp_path)))
        assert (found.level, found.text) == ("ok", f"runs {tmp_path}/./run.sh")
        assert "does not exist" in looked_at(stdio("./run.sh"))[0].text

    def test_a_command_is_looked_up_in_the_path_its_server_is_given(self, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("#!/bin/sh\n")
        (tmp_path / "mine").chmod(0o755)
        assert looked_at(stdio("mine", env={"PATH": str(tmp_path)}))[0].text == f"runs {tmp_path}/mine"

    def test_a_missing_directory_is_a_problem_of_its_own(self, tmp_path: Path) -> None:
        levels = [found.level for found in looked_at(stdio("python3", cwd=str(tmp_path / "none")))]
        assert levels == ["ok", "problem"]

    def test_placeholders_and_disabled_servers_are_left_alone(self) -> None:
        for entry in (stdio("${input:tool}"), {**stdio("nosuch"), "disabled": True}):
            assert [found.level for found in looked_at(entry)] == ["ok"]

    def test_a_remote_server_is_asked_whether_it_answers_and_its_url_is_not_repeated(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            url = f"http://user:hunter2@127.0.0.1:{port}/mcp?key=hunter2"
            entry = {"type": "streamable", "server_parameters": {"url": url}}
            answered = looked_at(entry)
        refused = looked_at(entry)
        assert [found.level for found in (*answered, *refused)] == ["ok", "problem"]
        assert "hunter2" not in repr(answered + refused)


class TestPlaces:
    def test_places_that_can_be_made_are_fine(self, tmp_path: Path) -> None:
        assert {found.level for found in checkup.check_places(places(tmp_path))} == {"ok"}

    def test_a_file_in_the_way_is_a_problem(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("")
        found = next(iter(checkup.check_places(places(tmp_path))))
        assert (found.level, found.subject) == ("problem", "home")

    def test_secrets_that_others_may_read_are_named_with_the_command_that_closes_them(self, tmp_path: Path) -> None:
        where = places(tmp_path)
        where.state.mkdir()
        key = where.state / "blob-handle.key"
        key.write_text("x")
        key.chmod(0o644)
        warned = [found for found in checkup.check_places(where) if found.level == "warning"]
        assert [found.advice for found in warned] == [f"chmod 600 {key}"]
        key.chmod(stat.S_IRUSR | stat.S_IWUSR)
        assert not [found for found in checkup.check_places(where) if found.level != "ok"]

    def test_a_home_that_others_may_write_to_is_a_warning(self, tmp_path: Path) -> None:
        where = places(tmp_path)
        where.home.mkdir()
        where.home.chmod(0o777)
        assert next(iter(checkup.check_places(where))).advice == f"chmod go-w {where.home}"


class TestMachine:
    def test_an_old_python_is_a_problem_and_this_one_is_not(self) -> None:
        assert next(iter(checkup.check_versions((3, 9, 1)))).level == "problem"
        assert {found.level for found in checkup.check_versions()} == {"ok"}

    def test_a_port_in_use_is_a_problem(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            assert checkup.check_port("127.0.0.1", taken.getsockname()[1]).level == "problem"
        assert checkup.check_port("127.0.0.1", 0).level == "ok"

    def test_too_few_open_files_come_with_the_command_that_raises_them(self) -> None:
        assert checkup.check_limits(0).level == "ok"
        found = checkup.check_limits(10**7)
        assert found.level in ("warning", "ok")
        if found.level == "warning":
            assert found.advice.startswith("ulimit -n ")

    def test_the_gravest_level_counts(self) -> None:
        ok, warning, problem = (Found(level, "", "") for level in ("ok", "warning", "problem"))
        assert checkup.worst([ok, problem, warning]) == "problem"
        assert checkup.worst([ok, warning]) == "warning"
        assert checkup.worst([]) == "ok"


@pytest.mark.anyio
class TestSignalling:
    @pytest.mark.parametrize(
        ("version", "level", "word"), [("0.4.9", "ok", "accepts"), ("0.5.0", "problem", "0.5.0 to")]
    )
    async def test_a_server_is_asked_for_its_version(self, version: str, level: str, word: str) -> None:
        import anyio.to_thread  # noqa: PLC0415

        async with serve(port=0, options=ServerOptions(auth=ANONYMOUS, protocol_version=version)) as running:
            found = await anyio.to_thread.run_sync(checkup.check_signalling, running.url, "/socket.io")
            elsewhere = await anyio.to_thread.run_sync(checkup.check_signalling, running.url, "/elsewhere")
        assert (found.level, word in found.text) == (level, True)
        assert elsewhere.level == "problem"

    async def test_silence_and_nonsense_are_problems(self) -> None:
        assert "does not answer" in checkup.check_signalling("http://127.0.0.1:1", "/socket.io").text
        assert "http" in checkup.check_signalling("ftp://x", "/socket.io").text


class TestCommand:
    def command(self, peers: Peers, tmp_path: Path, *words: str) -> Any:
        env = {**os.environ, "HOME": str(tmp_path)}
        return peers.start([sys.executable, "-m", "smcp_runtime.cli.main", "doctor", *words], env=env)

    def test_problems_end_with_status_1_and_are_printed_with_advice(self, peers: Peers, tmp_path: Path) -> None:
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"servers": {"bad one": stdio("nosuch-command")}}))
        peer = self.command(peers, tmp_path, "--mcp-config", str(config))
        assert peer.wait_exit() == 1
        assert any("bad_one: command nosuch-command is not on PATH; install it" in line for line in peer.lines)

    def test_with_json_it_is_one_document(self, peers: Peers, tmp_path: Path) -> None:
        peer = self.command(peers, tmp_path, "--json")
        assert peer.wait_exit() == 0
        found = json.loads("\n".join(peer.lines))
        assert {one["subject"] for one in found} >= {"python", "mcp", "home", "open files"}

    @pytest.mark.spec("R-CLI-1")
    def test_a_broken_configuration_ends_with_status_2_before_anything_is_looked_at(
        self, peers: Peers, tmp_path: Path
    ) -> None:
        config = tmp_path / "mcp.json"
        config.write_text("{")
        peer = self.command(peers, tmp_path, "--mcp-config", str(config))
        assert peer.wait_exit() == 2
        assert peer.lines == []
