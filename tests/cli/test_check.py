"""`smcp computer check` tells beforehand what keeps servers from starting, or their tools from being called."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.command import Ran, smcp

ALLOWED = {"default_tool_meta": {"auto_apply": True}}
CHECK = ("computer", "check", "--name", "desk")


def ran(home: Path, tree: dict[str, Any], *words: str, **environ: str) -> Ran:
    """A command that is given a file with this content."""
    path = home / "servers.json"
    path.write_text(json.dumps(tree))
    nobody = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    surroundings = {"HOME": str(home), "PATH": os.environ["PATH"], **nobody, **environ}
    return smcp(*words, "--mcp-config", str(path), environ=surroundings, cwd=home)


@pytest.mark.spec("R-CLI-1")
def test_a_command_that_cannot_be_found_is_marked_with_the_words_of_the_doctor(tmp_path: Path) -> None:
    tree = {"servers": {"gone": {"command": "nosuch-command", **ALLOWED}, "good": {"command": "true", **ALLOWED}}}
    checked = ran(tmp_path, tree, *CHECK)
    states = {line.split("\t")[0]: line.split("\t")[3] for line in checked.lines[1:]}
    assert states == {"gone": "cannot start", "good": "starts"}
    told = "gone: command nosuch-command is not on PATH; install it, or give its full path"
    assert [line for line in checked.errors if "nosuch" in line] == [told]
    assert any(told in line for line in ran(tmp_path, tree, "doctor").lines)


@pytest.mark.spec("R-INPUT-7", "R-INPUT-24")
@pytest.mark.parametrize("words", [CHECK, ("doctor",)])
def test_all_inputs_without_a_value_are_told_at_once_with_their_variables(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    ids = ("token", "set", "default", "picked", "printed", "wrong", "second")
    inputs: list[dict[str, Any]] = [{"type": "promptString", "id": one, "description": "d"} for one in ids]
    inputs[0]["password"] = True
    inputs[2]["default"] = "x"
    inputs[3] |= {"type": "pickString", "options": [{"label": "one", "value": "1"}]}
    inputs[4] |= {"type": "command", "command": f"touch {tmp_path / 'touched'}"}
    inputs[5] |= {"type": "number"}
    server = {"command": "true", "args": [f"${{input:{one}}}" for one in ids], **ALLOWED}
    tree = {"servers": {"srv": server}, "inputs": inputs}
    peer = ran(tmp_path, tree, *words, A2C_SMCP_set="v", A2C_SMCP_wrong="hunter2")
    told = [line for line in (*peer.lines, *peer.errors) if "srv: " in line and "input" in line]
    assert [line for line in told if "'token' (secret) has no value; set A2C_SMCP_token_srv or A2C_SMCP_token" in line]
    assert [line for line in told if "'second' (value) has no value" in line]
    assert [line for line in told if "inputs.wrong: must be an integer" in line]
    assert len(told) == 3
    assert "hunter2" not in "".join((*peer.lines, *peer.errors))
    assert not (tmp_path / "touched").exists()
    assert peer.status == 0


@pytest.mark.spec("W-CALL-7")
def test_a_server_none_of_whose_tools_can_be_called_is_told_with_the_key_that_lets_them(tmp_path: Path) -> None:
    servers = {
        "none": {"command": "true"},
        "no": {"command": "true", "default_tool_meta": {"auto_apply": False}},
        "all": {"command": "true", **ALLOWED},
        "one": {"command": "true", "tool_meta": {"now": {"auto_apply": True}}},
        "off": {"command": "true", "disabled": True},
    }
    checked = ran(tmp_path, {"servers": servers}, *CHECK, "--json")
    told = [line for line in json.loads(checked.lines[0])["findings"] if "auto_apply" in line]
    assert sorted(line.partition(":")[0] for line in told) == ["no", "none"]


@pytest.mark.spec("R-CFG-5")
def test_a_misspelt_key_beside_the_servers_is_named_and_no_fault(tmp_path: Path) -> None:
    checked = ran(tmp_path, {"mcpServer": {"a": {"command": "true"}}}, *CHECK)
    assert checked.status == 0
    assert any("mcpServer: unknown key" in line for line in checked.errors)


@pytest.mark.spec("W-CFG-13", "R-CFG-3")
def test_a_key_of_another_host_in_a_server_is_a_fault_that_is_named_without_its_value(tmp_path: Path) -> None:
    checked = ran(tmp_path, {"mcpServers": {"a": {"command": "true", "alwaysAllow": ["hunter2"]}}}, *CHECK)
    assert checked.status == 2
    told = "\n".join(checked.errors)
    assert "mcpServers.a.alwaysAllow: unknown key in a stdio server entry" in told
    assert "hunter2" not in told
