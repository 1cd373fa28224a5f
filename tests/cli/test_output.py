"""What a command prints, and where: results on stdout, everything about them on stderr."""

from __future__ import annotations

import json

import pytest

from smcp_runtime.cli.output import Output, describe, printable
from smcp_runtime.wire.errors import ConfigValidationError, Finding, PeerError, StartupError

GONE = PeerError("Computer not found", payload={"code": 404, "message": "Computer not found", "details": {"x": 1}})


def test_json_is_one_document_on_stdout_and_nothing_else(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = Output(as_json=True)
    output.text("for people")
    output.table(["a"], [["1"]])
    output.note("on the way")
    output.document({"tools": []})
    captured = capfdbinary.readouterr()
    assert captured.out == b'{"tools":[]}\n'
    assert captured.err == b"on the way\n"


def test_a_protocol_error_is_printed_as_its_flat_payload(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Output(as_json=True).error(GONE)
    captured = capfdbinary.readouterr()
    assert json.loads(captured.out) == GONE.payload
    assert captured.err == b"error 404: Computer not found\n"


def test_an_error_for_people_leaves_stdout_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Output().error(StartupError("cannot be launched", bundle_id="clock", retry_hint="install it"))
    captured = capfdbinary.readouterr()
    assert captured.out == b""
    assert captured.err == b"error startup: cannot be launched\n  bundle_id: clock\n  retry_hint: install it\n"


def test_an_error_without_a_hint_shows_none(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Output().error(StartupError("cannot be launched", retry_hint=""))
    assert capfdbinary.readouterr().err == b"error startup: cannot be launched\n"


def test_a_broken_declaration_shows_every_finding_with_its_place(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    findings = [Finding("mcp_servers[0].type", "expected a string"), Finding("name", "must not be empty")]
    Output().error(ConfigValidationError("2 faults", findings=findings))
    assert b"  mcp_servers[0].type: expected a string\n  name: must not be empty\n" in capfdbinary.readouterr().err


def test_an_unexpected_error_shows_its_type_and_not_its_text() -> None:
    assert "s3cret" not in str(describe(RuntimeError("token s3cret")))
    assert "RuntimeError" in str(describe(RuntimeError("token s3cret")))


def test_rows_in_a_pipe_are_separated_by_tabs_and_one_line_each(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Output().table(["name", "what"], [["echo", "says it\nagain"], ["add", "sums"]])
    assert capfdbinary.readouterr().out == b"echo\tsays it again\nadd\tsums\n"


def test_rows_that_do_not_say_what_they_are_have_their_heading_in_a_pipe_too(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    Output().table(["name", "calls"], [["echo", "3"]], headed=True)
    assert capfdbinary.readouterr().out == b"name\tcalls\necho\t3\n"


def test_text_of_a_peer_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b]0;evil\x07b\x9bm\r\n\tc") == "a�]0;evil�b�m�\n\tc"
