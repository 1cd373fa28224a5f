"""Flag files and the merging of settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.layers import merge_settings, read_flag_file, read_flag_settings
from smcp_runtime.actors.reconcile.scopes.flags import read_flags
from smcp_runtime.actors.reconcile.server_set import resolve_servers
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError

spec = pytest.mark.spec


@spec("R-SCOPE-3", "T-CFG-6")
def test_t_cfg_6_a_duplicate_in_a_flag_file_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"servers": {"my.server": {"command": "c"}, "my_server": {"command": "c"}}}))
    with pytest.raises(ConflictError) as caught:
        read_flag_file(str(path))
    assert caught.value.code == "duplicate_bundle_id"


@spec("R-SCOPE-3")
def test_files_form_one_layer_in_which_the_later_wins(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(json.dumps({"servers": {"s": {"command": name}}}))
    layers = read_flags([str(tmp_path / "one"), str(tmp_path / "two")], None).layers
    assert resolve_servers(layers)["s"].entry.parameters["command"] == "two"


@spec("R-SCOPE-3")
def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        read_flag_file(str(tmp_path / "absent"))
    assert (caught.value.code, caught.value.source) == ("unreadable", str(tmp_path / "absent"))


@spec("R-SCOPE-10")
def test_flag_settings_are_checked_like_any_others(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"landingRoot": "/l"}')
    assert read_flag_settings(str(path)).said == {"landingRoot": "/l"}
    path.write_text('{"deniedMcpServers": []}')
    with pytest.raises(PolicyError):
        read_flag_settings(str(path))


@spec("R-SCOPE-6")
def test_settings_merge_objects_by_key_arrays_as_a_union_and_scalars_from_above() -> None:
    low = {"o": {"a": 1, "b": 1}, "l": ["x", "y"], "s": 1, "t": [1]}
    high = {"o": {"b": 2}, "l": ["y", "z"], "s": 2, "t": {"k": 1}}
    assert merge_settings(low, high) == {"o": {"a": 1, "b": 2}, "l": ["x", "y", "z"], "s": 2, "t": {"k": 1}}
