"""Registering several layers: variables are never shared, and a project neither redefines nor pushes out."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.declaration import Declaration, read_mcp_file
from smcp_runtime.actors.reconcile.scopes.registration import register
from smcp_runtime.actors.reconcile.scopes.trust import projected_inputs, visible_inputs
from smcp_runtime.actors.reconcile.server_set import Layer, Origin
from smcp_runtime.wire.base import to_json
from smcp_runtime.wire.errors import ConflictError
from smcp_runtime.wire.inputs import CommandInput, PromptStringInput

spec = pytest.mark.spec


def prompt(input_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "promptString", "id": input_id, "description": "d", **more}


def layer(origin: Origin, *inputs: Any, **servers: str) -> Layer:
    """A layer whose servers, given by id, each refer to one input."""
    entries = {
        bundle_id.replace("__", "-"): {"command": "echo", "args": [f"${{input:{input_id}}}"]}
        for bundle_id, input_id in servers.items()
    }
    declaration, _ = read_mcp_file(to_json({"servers": entries, "inputs": list(inputs)}), f"{origin} file")
    return Layer(origin, declaration)


def kept(layers: tuple[Layer, ...]) -> dict[str, tuple[list[str], list[str]]]:
    return {
        found.origin: (
            [server.bundle_id for server in found.declaration.servers],
            [definition.id for definition in found.declaration.inputs],
        )
        for found in layers
    }


@spec("R-INPUT-18", "T-ENV-2", "F-10")
def test_explicit_servers_that_would_share_a_variable_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConflictError) as caught:
        register([layer("embed", prompt("token"), a__b="token"), layer("flag", a_b="token")], [])
    assert caught.value.code == "env_name_collision"
    for word in ("A2C_SMCP_token_a_b", "token of a-b", "token of a_b", "explicit bundleId"):
        assert word in caught.value.message


@spec("R-INPUT-18", "T-ENV-3", "W-INP-3")
def test_equal_segments_with_different_names_are_fine() -> None:
    registered = register([layer("embed", prompt("plugin-a@mp/token"), prompt("plugin_a@mp/secret"))], [])
    assert registered.findings == ()


@spec("R-INPUT-18", "F-10")
def test_an_ambient_newcomer_gives_way_to_who_was_there() -> None:
    registered = register(
        [layer("embed", prompt("figma-token"))],
        [
            layer("user", prompt("figma_token"), prompt("mine")),
            layer("local", a__b="mine"),
            layer("project", a_b="mine"),
        ],
    )
    assert kept(registered.layers) == {
        "user": ([], ["mine"]),
        "local": (["a-b"], []),
        "project": ([], []),
        "embed": ([], ["figma-token"]),
    }
    assert [finding.source for finding in registered.findings] == ["user file", "project file"]
    assert all(finding.code == "env_name_collision" for finding in registered.findings)


@spec("R-INPUT-18")
def test_of_newcomers_that_collide_with_each_other_none_is_kept() -> None:
    registered = register([], [layer("user", prompt("x"), a__b="x", a_b="x", other="x")])
    assert kept(registered.layers)["user"] == (["other"], ["x"])


@spec("R-INPUT-18", "F-08")
def test_a_project_never_pushes_out_what_the_user_has_though_it_ranks_higher() -> None:
    registered = register([], [layer("project", prompt("figma-token")), layer("user", prompt("figma_token"))])
    assert kept(registered.layers) == {"project": ([], []), "user": ([], ["figma_token"])}


def test_the_same_id_or_server_in_two_layers_is_no_collision() -> None:
    registered = register([], [layer("user", prompt("x"), a="x"), layer("project", prompt("x"), a="x")])
    assert registered.findings == ()


class TestTrust:
    LAYERS = (
        layer("user", prompt("shared"), prompt("mine")),
        layer("project", {"type": "command", "id": "shared", "description": "d", "command": "rm"}, prompt("theirs")),
    )

    @spec("R-INPUT-8", "T-INP-7", "R-SEC-5", "F-08")
    @pytest.mark.parametrize("origin", ["user", "local", "embed", "flag", "policy"])
    def test_what_a_project_defines_does_not_exist_for_other_servers(self, origin: Origin) -> None:
        seen = visible_inputs(self.LAYERS, origin)
        assert isinstance(seen["shared"], PromptStringInput)
        assert set(seen) == {"shared", "mine"}

    @spec("R-INPUT-8")
    def test_a_project_server_sees_its_projects_definitions(self) -> None:
        seen = visible_inputs(self.LAYERS, "project")
        assert isinstance(seen["shared"], CommandInput)
        assert set(seen) == {"shared", "mine", "theirs"}

    def test_an_agent_sees_every_id_as_a_trusted_server_has_it(self) -> None:
        seen = projected_inputs(self.LAYERS)
        assert isinstance(seen["shared"], PromptStringInput)
        assert set(seen) == {"shared", "mine", "theirs"}

    def test_an_empty_declaration_says_nothing(self) -> None:
        assert visible_inputs([Layer("user", Declaration("x"))], "user") == {}
