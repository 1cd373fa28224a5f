"""What an embedding application is told, and what it may forbid (03 §2.3), with real servers."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.computer.veto import question_about
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.errors import ConfigValidationError, PolicyError
from smcp_runtime.wire.messages.management import AnswerApproval, SetInput
from smcp_runtime.wire.messages.plugins import InstallPlugin
from smcp_runtime.wire.messages.projection import ControlServer
from smcp_runtime.wire.messages.servers import SwitchServer
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
SECRET = {"type": "promptString", "id": "token", "description": "d", "password": True}


def computer(root: Path, configuration: Any = None, **changes: Any) -> Computer:
    environ = {"HOME": str(root), "PATH": "/usr/bin:/bin", "A2C_SMCP_token": "smcp_mcp_server_up"}
    given = {"env": environ, "project_root": str(root), "secret_providers": ["memory"], **changes}
    return Computer.from_config(configuration or config(), options(**given))


class TestMetrics:
    @spec("R-OPT-1", "R-INPUT-23")
    async def test_all_samples_are_told_at_the_start_and_at_intervals_without_secrets(self, tmp_path: Path) -> None:
        told: list[Mapping[str, Any]] = []

        async def hook(record: Mapping[str, Any]) -> None:
            told.append(record)

        entry = light("srv")
        entry["server_parameters"]["env"] = {"TOKEN": "${input:token}"}
        configuration = config(entry, inputs=[SECRET])
        async with computer(tmp_path, configuration, metrics=hook, metrics_interval_s=0.02) as made:

            def is_up() -> bool:
                samples = told[-1]["samples"] if told else []
                return {"name": "smcp_mcp_server_wanted", "labels": {"server": "srv"}, "value": 1.0} in samples

            await until(is_up)
            shown = await made.operations.samples()
        assert any(sample["name"] == "smcp_computer_info" for sample in told[-1]["samples"])
        # A secret that is a metric's name: what the application is told is redacted like everything else.
        assert any(sample["name"] == "smcp_mcp_server_up" for sample in shown)
        assert "smcp_mcp_server_up" not in json.dumps(told[-1])

    async def test_a_hook_that_fails_is_logged_without_its_words_and_called_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        calls: list[int] = []

        def hook(_: Mapping[str, Any]) -> None:
            calls.append(1)
            raise RuntimeError("its words")

        with caplog.at_level(logging.WARNING):
            async with computer(tmp_path, metrics=hook, metrics_interval_s=0.01):
                await until(lambda: len(calls) >= 2)
        assert "the metrics hook failed: RuntimeError" in caplog.text
        assert "its words" not in caplog.text


class TestVeto:
    @spec("R-MGMT-1")
    async def test_an_operation_that_is_forbidden_changes_nothing_and_reading_stays_allowed(
        self, tmp_path: Path
    ) -> None:
        asked: list[Mapping[str, Any]] = []

        async def hook(question: Mapping[str, Any]) -> bool:
            asked.append(question)
            return question["operation"] != "server.declare"

        async with computer(tmp_path, management_authorization=hook) as made:
            with pytest.raises(PolicyError) as caught:
                await made.manage.declare(light("srv"), "user")
            assert caught.value.code == "management_refused"
            assert (await made.manage.servers(), await made.manage.inputs()) == ((), ())
            await made.manage.change_settings("user", {"landingRoot": "/srv"})
        assert [one["operation"] for one in asked] == ["server.declare", "settings.change"]
        assert not (tmp_path / ".config" / "a2c" / "mcp.json").exists()

    async def test_a_hook_that_fails_forbids(self, tmp_path: Path) -> None:
        def hook(_: Any) -> bool:
            raise RuntimeError("no")

        made = computer(tmp_path, management_authorization=hook)
        async with made:
            for operation in (made.manage.approve_all(), made.mount(light("srv")), made.sync_config(config())):
                with pytest.raises(PolicyError):
                    await operation

    @spec("R-CFG-3")
    @pytest.mark.parametrize(
        ("message", "question"),
        [
            (ControlServer("srv", "stop"), {"operation": "server.stop", "bundle_id": "srv"}),
            (SwitchServer("srv", False), {"operation": "server.disable", "bundle_id": "srv"}),
            (AnswerApproval("approve", "srv"), {"operation": "server.approve", "bundle_id": "srv"}),
            (SetInput("tok", Attachment(b'"sk"')), {"operation": "input.set", "input_id": "tok"}),
            (InstallPlugin("p@m"), {"operation": "plugin.install", "plugin_id": "p@m"}),
        ],
    )
    async def test_it_is_told_what_an_operation_is_about_and_no_value(
        self, message: Any, question: dict[str, Any]
    ) -> None:
        assert question_about(message) == question


class TestFindings:
    @spec("R-CFG-5", "R-LIFE-23")
    async def test_warnings_of_the_first_configuration_and_of_the_options_stand_in_the_diagnostics(
        self, tmp_path: Path
    ) -> None:
        made = computer(tmp_path, {"name": "desk", "colour": "blue"}, inline_budget=10**9)
        expected = ("config: colour: unknown key, kept and not used", "inline_budget: is clamped to 131072")
        assert [line for line in (await made.diagnostics()).findings if line.endswith(expected)]
        async with made:
            assert len((await made.diagnostics()).findings) == 2
            await made.sync_config({"name": "desk"})
            (line,) = (await made.diagnostics()).findings
            assert "inline_budget" in line

    @spec("R-LIFE-24")
    async def test_a_broken_skill_degrades_until_it_is_mended_and_a_killed_actor_does_not_forget_it(
        self, tmp_path: Path
    ) -> None:
        skill = tmp_path / ".a2c" / "skills" / "user" / "broken" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("no frontmatter")
        async with computer(tmp_path) as made:
            await made.wait_for("degraded")

            async def entries() -> list[str]:
                return [one.identity for one in (await made.diagnostics()).degradations if one.component == "skill"]

            assert await entries() == ["user"]
            assert made.kill_actor("reconcile")

            before = (await made.diagnostics()).commit

            async def lives_again() -> bool:
                return any(
                    one.address == "reconcile" and one.incarnation == 2 for one in (await made.diagnostics()).actors
                )

            await until(lives_again)
            await made.mount(light("srv"))

            async def is_remembered() -> bool:
                seen = await made.diagnostics()  # of the new life, because the commit is
                return seen.commit > before and [one.component for one in seen.degradations] == ["skill"]

            await until(is_remembered)
            skill.write_text("---\nname: broken\ndescription: d\n---\nbody\n")

            async def is_mended() -> bool:
                return made.state == "started" and await entries() == []

            await until(is_mended)
            assert not [line for line in (await made.diagnostics()).findings if "broken" in line]


class TestArguments:
    @spec("R-CFG-3", "R-ERR-1")
    async def test_what_has_no_json_is_refused_without_being_quoted_and_harms_nobody(self, tmp_path: Path) -> None:
        async with computer(tmp_path, config(inputs=[SECRET])) as made:
            canary: Any = ["sk-canary", object()]
            for operation in (
                made.mount({"name": "srv", "command": canary}),
                made.manage.declare({"name": "srv", "command": "x", "args": ["\ud800"]}),
                made.manage.define_input(canary),
                made.manage.set_input("token", "\udfff"),
                made.manage.change_settings("user", {"sk-canary": canary}),
                made.manage.approve("\ud800"),
                made.control("\ud800", "start"),
                made.mount(canary),
            ):
                with pytest.raises(ConfigValidationError) as caught:
                    await operation
                assert caught.value.code in ("bad_json", "half_character", "wrong_type")
                assert "sk-canary" not in repr((caught.value, caught.value.__dict__))
            assert {one.incarnation for one in (await made.diagnostics()).actors} == {1}
