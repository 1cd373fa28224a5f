"""VRL scripts: what is checked at load, what a script sees, and in which time zone it runs."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from smcp_runtime.actors.tools import vrl
from smcp_runtime.actors.tools.vrl import Program, ScriptFailed, attach, check_script, event_of, local_zone

spec = pytest.mark.spec


@spec("R-MCP-19")
@pytest.mark.parametrize("source", ["", "  \n", '.a = "b"'])
def test_a_blank_or_valid_script_has_no_fault(source: str) -> None:
    assert check_script(source) is None


@spec("R-MCP-19", "W-CFG-14", "T-CFG-7")
def test_a_syntax_error_is_named() -> None:
    assert "syntax error" in str(check_script("foo bar("))


@spec("R-MCP-19")
def test_without_an_engine_a_script_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(vrl.importlib, "import_module", missing)
    with pytest.raises(vrl.EngineMissing):
        check_script(".a = 1")
    assert check_script("") is None


@spec("W-CALL-23")
@pytest.mark.parametrize(
    ("size", "inline", "kept"),
    [(32_768, 32_768, True), (32_769, 32_768, False), (100_000, 131_072, True), (1_025, 1_024, False)],
)
def test_a_script_sees_binaries_only_up_to_the_inline_budget(size: int, inline: int, kept: bool) -> None:
    data = base64.b64encode(b"x" * size).decode()
    items = [{"type": "image", "data": data}, {"type": "resource", "resource": {"blob": data}}]
    event = event_of(json.dumps({"content": items}).encode(), "t", b"{}", inline)
    seen = [event["content"][0]["data"], event["content"][1]["resource"]["blob"]]
    assert seen == ([data, data] if kept else ["", ""])


@spec("R-MCP-20")
def test_an_aborting_script_raises_without_quoting_values() -> None:
    with pytest.raises(ScriptFailed) as caught:
        Program(".x = parse_json!(.parameters.s)", "UTC").run(b'{"content":[]}', "t", b'{"s":"hunter2"}')
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@spec("W-CALL-22")
def test_the_final_event_is_stored_as_text_beside_the_other_metadata() -> None:
    result = attach(b'{"content":[ ],"meta":{"own":1}}', '{"a":1}')
    assert json.loads(result)["meta"] == {"own": 1, "a2c_vrl_transformed": '{"a":1}'}
    assert b"[ ]" in result


@spec("R-MCP-20")
@pytest.mark.parametrize(
    ("environ", "zone"),
    [({"TZ": "Asia/Tokyo"}, "Asia/Tokyo"), ({"TZ": ":Asia/Tokyo"}, "Asia/Tokyo"), ({"TZ": "No/Where"}, "UTC")],
)
def test_the_zone_is_the_local_one_or_utc(environ: dict[str, str], zone: str, tmp_path: Path) -> None:
    assert local_zone(environ, str(tmp_path / "absent")) == zone


@spec("R-MCP-20")
def test_the_zone_is_read_from_the_systems_link(tmp_path: Path) -> None:
    (tmp_path / "zoneinfo" / "Europe").mkdir(parents=True)
    (tmp_path / "zoneinfo" / "Europe" / "Rome").touch()
    (tmp_path / "localtime").symlink_to(tmp_path / "zoneinfo" / "Europe" / "Rome")
    assert local_zone({}, str(tmp_path / "localtime")) == "Europe/Rome"
