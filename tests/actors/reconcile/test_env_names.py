"""No two inputs may share an environment variable."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.reconcile.config.env_names import collisions

spec = pytest.mark.spec


@spec("T-ENV-2", "R-INPUT-18", "F-10")
def test_two_servers_whose_ids_differ_by_hyphen_collide_over_a_shared_input() -> None:
    (collision,) = collisions(["token"], {"a-b": ["token"], "a_b": ["token"]})
    assert collision.variable == "A2C_SMCP_token_a_b"
    assert "token of a-b, token of a_b" in collision.describe()
    assert "bundleId" in collision.describe()


@spec("R-INPUT-18", "F-10")
def test_two_ids_that_differ_by_hyphen_and_underscore_collide() -> None:
    assert [c.variable for c in collisions(["figma-token", "figma_token"], {})] == ["A2C_SMCP_figma_token"]


@spec("R-INPUT-18")
def test_an_id_collides_with_another_input_of_a_server() -> None:
    (collision,) = collisions(["a", "a_b"], {"b": ["a"]})
    assert [str(identity) for identity in collision.identities] == ["a of b", "a_b"]


@spec("T-ENV-3", "R-INPUT-18")
def test_t_env_3_equal_segments_with_different_full_names_are_accepted() -> None:
    assert collisions(["plugin-a@mp/token", "plugin_a@mp/secret"], {}) == ()


@spec("R-INPUT-18")
def test_only_referenced_pairs_count() -> None:
    assert collisions(["token"], {"a-b": ["token"], "a_b": []}) == ()
