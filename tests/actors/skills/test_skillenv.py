"""The values a script of a skill is given, and who else never sees them."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from smcp_runtime.actors.skills.skillenv import parse_skillenv, script_environment

from .conftest import write_skill

spec = pytest.mark.spec


@spec("C-SKILL-73")
@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"KEY=value\n# comment\n\n_b2= spaced = \nEMPTY=\r\n", {"KEY": "value", "_b2": " spaced = ", "EMPTY": ""}),
        (b"A=$HOME ${B} 'q'", {"A": "$HOME ${B} 'q'"}),
        (b"A=1\nA=2", {"A": "2"}),
        (b"no equals\n 2=x\n=x\n1A=x\nA B=x\n A=x\nexport C=x\nB-C=x\nGOOD=1", {"GOOD": "1"}),
        (b"A=\xff\nB=\0\nC=\xc3\xa9", {"C": "é"}),
        (b"", {}),
    ],
)
def test_lines_of_key_and_value_are_taken_as_they_are_and_others_skipped(data: bytes, values: dict[str, str]) -> None:
    assert parse_skillenv(data) == values


@spec("C-SKILL-73", "C-SKILL-74")
def test_a_child_process_gets_the_values_and_its_directory_and_no_log_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = write_skill(tmp_path, "a", {".skillenv": "TOKEN=canary\nbad canary line\n"})
    environment = script_environment(str(folder), {"PATH": "/bin", "TOKEN": "base"})
    code = "import os; print(os.environ['TOKEN'], os.environ['TFROBOT_SKILL_DIR'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["canary", str(folder)]
    assert "canary" not in caplog.text


@spec("C-SKILL-73")
def test_without_a_regular_file_there_are_no_values(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "a")
    assert script_environment(str(folder), {}) == {"TFROBOT_SKILL_DIR": str(folder)}
    (tmp_path / "elsewhere").write_text("A=1")
    (folder / ".skillenv").symlink_to(tmp_path / "elsewhere")
    assert script_environment(str(folder), {}) == {"TFROBOT_SKILL_DIR": str(folder)}
