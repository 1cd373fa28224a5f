"""The environment decides where log records go; stdout is never the place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from smcp_runtime.cli.log_setup import set_up_logging
from smcp_runtime.wire.errors import ConfigValidationError


@pytest.fixture(autouse=True)
def untouched_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives the root logger back as it was."""
    for name in ("A2C_LOG_LEVEL", "A2C_LOG_FILE", "A2C_LOG_SILENT"):
        monkeypatch.delenv(name, raising=False)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.disable(logging.NOTSET)


@pytest.mark.spec("R-OPT-3")
def test_records_go_to_stderr_from_the_default_level_up(capfd: pytest.CaptureFixture[str]) -> None:
    set_up_logging("WARNING")
    logging.getLogger("x").info("quiet")
    logging.getLogger("x").warning("loud")
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "loud" in captured.err
    assert "quiet" not in captured.err


@pytest.mark.spec("R-OPT-3")
def test_level_and_file_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("A2C_LOG_LEVEL", "debug")
    monkeypatch.setenv("A2C_LOG_FILE", str(tmp_path / "log"))
    set_up_logging()
    logging.getLogger("x").debug("detail")
    assert "DEBUG x: detail" in (tmp_path / "log").read_text()
    assert capfd.readouterr() == ("", "")


def test_what_a_peer_wrote_makes_no_second_record_and_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("A2C_LOG_FILE", str(tmp_path / "log"))
    set_up_logging()
    logging.getLogger("x").warning("refused: %s", "no\n2026-01-01 ERROR y: forged\x1b[2J\ud800")
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        logging.getLogger("x").exception("failed")
    first, second, *trace = (tmp_path / "log").read_text().splitlines()
    assert first.endswith("WARNING x: refused: no\\n2026-01-01 ERROR y: forged\N{REPLACEMENT CHARACTER}[2J\\ud800")
    assert second.endswith("ERROR x: failed")
    assert trace[-1] == "ValueError: \N{REPLACEMENT CHARACTER}[31m"


@pytest.mark.spec("R-OPT-2")
@pytest.mark.parametrize(("value", "silent"), [(" YES ", True), ("1", True), ("", False), ("off", False)])
def test_silence_takes_the_spellings_of_a_boolean(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], value: str, silent: bool
) -> None:
    monkeypatch.setenv("A2C_LOG_SILENT", value)
    set_up_logging()
    logging.getLogger("x").error("anything")
    assert (capfd.readouterr().err == "") is silent


@pytest.mark.parametrize(
    ("name", "value"), [("A2C_LOG_LEVEL", "chatty"), ("A2C_LOG_FILE", "/nowhere/at/all/log")], ids=["level", "file"]
)
def test_a_value_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigValidationError) as raised:
        set_up_logging()
    assert raised.value.field == name
