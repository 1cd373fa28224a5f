"""Which input a reference means, and what never stands in for it."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.inputs import Definition, read_inputs
from smcp_runtime.actors.reconcile.rendering.resolution import Chain, ResolveFor, resolve
from smcp_runtime.actors.reconcile.rendering.scoped_ids import Lookup, lookup
from smcp_runtime.wire.errors import MissingInputError

spec = pytest.mark.spec
PLUGIN = "audit@acme"


def definitions(**kinds: str) -> dict[str, Definition]:
    """Prompts by id, `__` for the scope of the plugin; a kind of `secret` or `value` each."""
    raw = [
        {
            "type": "promptString",
            "id": input_id.replace("own__", f"{PLUGIN}/").replace("foreign__", "other@acme/"),
            "description": "d",
            "password": kind == "secret",
        }
        for input_id, kind in kinds.items()
    ]
    return {found.id: found for found in read_inputs(raw, "inputs", Findings())}


TABLE: dict[str, tuple[str, str | None, dict[str, str], tuple[tuple[str, ...], str]]] = {
    "a user's server means the global one": ("x", None, {"x": "value", "own__x": "value"}, (("x",), "x")),
    "a plugin's server means its own first": (
        "x",
        PLUGIN,
        {"x": "value", "own__x": "value"},
        ((f"{PLUGIN}/x", "x"), f"{PLUGIN}/x"),
    ),
    "and the global one where it has none": ("x", PLUGIN, {"x": "secret"}, (("x",), f"{PLUGIN}/x")),
    "and no global value for its secret": (
        "x",
        PLUGIN,
        {"x": "value", "own__x": "secret"},
        ((f"{PLUGIN}/x",), f"{PLUGIN}/x"),
    ),
    "and no global secret for its value": (
        "x",
        PLUGIN,
        {"x": "secret", "own__x": "value"},
        ((f"{PLUGIN}/x",), f"{PLUGIN}/x"),
    ),
    "and never another plugin's": ("x", PLUGIN, {"foreign__x": "value"}, ((), f"{PLUGIN}/x")),
    "an explicit scope means exactly that": (
        f"{PLUGIN}/x",
        PLUGIN,
        {"x": "value", "own__x": "value"},
        ((f"{PLUGIN}/x",), f"{PLUGIN}/x"),
    ),
    "with nothing to fall back on": (f"{PLUGIN}/x", PLUGIN, {"x": "value"}, ((), f"{PLUGIN}/x")),
    "and not for another plugin's server": (
        "other@acme/x",
        PLUGIN,
        {"foreign__x": "value"},
        ((), "other@acme/x"),
    ),
    "but for a user's": ("other@acme/x", None, {"foreign__x": "value"}, (("other@acme/x",), "other@acme/x")),
}


@spec("R-INPUT-9", "R-INPUT-10", "R-INPUT-11")
@pytest.mark.parametrize(("reference", "plugin", "kinds", "expected"), TABLE.values(), ids=TABLE)
def test_what_a_reference_means(
    reference: str, plugin: str | None, kinds: dict[str, str], expected: tuple[tuple[str, ...], str]
) -> None:
    assert lookup(reference, plugin, definitions(**kinds)) == Lookup(*expected)


async def value(environ: dict[str, str], **kinds: Any) -> object:
    request = ResolveFor("b", plugin_id=PLUGIN)
    return (await resolve(["x"], definitions(**kinds), environ, Chain(), request))["x"]


@pytest.mark.anyio
class TestValues:
    OWN, GLOBAL = "A2C_SMCP_audit_acme_x", "A2C_SMCP_x"

    @spec("T-INP-1", "R-INPUT-9")
    async def test_of_two_values_the_plugins_own_counts(self) -> None:
        environ = {self.OWN: "mine", self.GLOBAL: "all"}
        assert await value(environ, x="value", own__x="value") == "mine"

    @spec("T-INP-2", "R-INPUT-9")
    async def test_without_a_value_of_its_own_it_takes_the_global_one_of_the_kind(self) -> None:
        assert await value({self.GLOBAL: "all"}, x="value", own__x="value") == "all"

    @spec("T-INP-3", "R-INPUT-10")
    @pytest.mark.parametrize(("own", "other"), [("secret", "value"), ("value", "secret")])
    async def test_a_miss_names_the_full_id_and_is_silent_about_a_global_of_the_other_kind(
        self, own: str, other: str
    ) -> None:
        with pytest.raises(MissingInputError) as with_global:
            await value({self.GLOBAL: "all"}, x=other, own__x=own)
        with pytest.raises(MissingInputError) as without_global:
            await value({}, own__x=own)
        assert with_global.value.input_id == f"{PLUGIN}/x"
        assert with_global.value.message == without_global.value.message
        assert with_global.value.details == without_global.value.details

    @spec("T-INP-4", "R-INPUT-11")
    async def test_an_explicit_reference_takes_no_global_value(self) -> None:
        with pytest.raises(MissingInputError) as caught:
            await resolve(
                [f"{PLUGIN}/x"], definitions(x="value"), {self.GLOBAL: "all"}, Chain(), ResolveFor("b", PLUGIN)
            )
        assert caught.value.input_id == f"{PLUGIN}/x"

    @spec("T-INP-5")
    async def test_two_plugins_with_one_bare_id_do_not_cross(self) -> None:
        defined = definitions(own__x="value", foreign__x="value")
        environ = {self.OWN: "mine", "A2C_SMCP_other_acme_x": "theirs"}
        for plugin, expected in ((PLUGIN, "mine"), ("other@acme", "theirs")):
            found = await resolve(["x"], defined, environ, Chain(), ResolveFor("b", plugin))
            assert found == {"x": expected}
