"""Defining inputs for a run and in files, and taking definitions away, by a reconcile actor with real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError
from smcp_runtime.wire.messages.management import DeclareServer, DefineInput, ManagementResult, UndefineInput
from smcp_runtime.wire.messages.projection import GetConfig

from .conftest import RECONCILE, World
from .test_scoped_set import Files, server

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
PROMPT = {"id": "t", "description": "d", "type": "promptString"}


class Desk(Files):
    """Files, and the definitions of inputs."""

    async def define(self, raw: Any, scope: Any = "local", revision: str | None = None) -> ManagementResult:
        text = Attachment(json.dumps(raw).encode())
        return await self.world.bus.ask(RECONCILE, DefineInput(text, scope, revision))

    async def undefine(self, input_id: str) -> ManagementResult:
        return await self.world.bus.ask(RECONCILE, UndefineInput(input_id))

    async def defaults(self) -> dict[str, Any]:
        shown = (await self.world.bus.ask(RECONCILE, GetConfig())).config.data
        return {one["id"]: one.get("default") for one in json.loads(shown)["inputs"]}

    def written(self, scope: str) -> Any:
        return json.loads(self.paths[scope][1].read_text())


@pytest.fixture
def desk(tmp_path: Path, world: World) -> Desk:
    return Desk(tmp_path, world)


@spec("R-MGMT-4", "R-MGMT-3", "R-CORE-3")
async def test_a_definition_goes_into_the_file_of_its_scope_and_counts_at_once(desk: Desk) -> None:
    await desk.start()
    result = await desk.define({**PROMPT, "default": "x"}, "user")
    assert (result.changed, result.effective, result.written_scope) == (True, True, "user")
    assert desk.written("user") == {"inputs": [{**PROMPT, "default": "x"}]}
    assert await desk.defaults() == {"t": "x"}
    assert (await desk.define({**PROMPT, "default": "x"}, "user")).changed is False
    view = (await desk.inputs())["t"]
    assert (view.origin, view.source) == ("user", str(desk.paths["user"][1]))
    assert view.definition is not None
    assert json.loads(view.definition.data) == {**PROMPT, "default": "x"}


@spec("R-FILE-11", "R-FILE-9")
async def test_an_id_that_a_file_defines_is_changed_there_and_the_rest_of_the_file_stays(desk: Desk) -> None:
    path = desk.paths["user"][1]
    entries = '"servers": {"a": {"command": "c"}},\n  "inputs": [7, {"id": "t", "old": 1}],\n  "other": 1'
    text = f"{{\n  // mine\n  {entries}\n}}"
    desk.write(path, text)
    await desk.start()
    assert (await desk.define(PROMPT, "local")).written_scope == "user"
    assert not desk.paths["local"][1].exists()
    kept = path.read_text()
    assert "// mine" in kept
    assert json.loads(kept.replace("// mine", "")) == {
        "servers": {"a": {"command": "c"}},
        "inputs": [7, PROMPT],
        "other": 1,
    }


@spec("R-MGMT-4", "R-CORE-9", "R-OPT-1")
async def test_one_for_this_run_stands_above_the_files_is_in_none_and_survives_the_actor(desk: Desk) -> None:
    desk.declare("user", {**PROMPT, "default": "file"})
    await desk.start()
    result = await desk.define({**PROMPT, "default": "run"}, "run")
    assert (result.changed, result.effective, result.written_scope) == (True, True, "run")
    assert await desk.defaults() == {"t": "run"}
    await desk.world.kill(RECONCILE)
    assert await desk.defaults() == {"t": "run"}
    assert desk.written("user")["inputs"] == [{**PROMPT, "default": "file"}]
    gone = await desk.undefine("t")
    # Out of this run and out of the file: an undefined input is one nobody below defines.
    assert (gone.changed, gone.effective, await desk.defaults()) == (True, True, {})


@spec("R-FILE-13", "R-MGMT-3")
async def test_one_that_a_higher_layer_shadows_says_by_whom(desk: Desk) -> None:
    await desk.start(inputs=[{**PROMPT, "default": "embed"}])
    result = await desk.define({**PROMPT, "default": "user"}, "user")
    assert (result.changed, result.effective, result.shadowed_by) == (True, False, "config")
    assert await desk.defaults() == {"t": "embed"}


@spec("R-INPUT-8")
async def test_one_of_the_project_comes_with_a_word_on_who_sees_it(desk: Desk) -> None:
    await desk.start()
    assert "only servers of the project" in (await desk.define(PROMPT, "project")).warnings[0]


@spec("R-INPUT-18", "F-10", "T-ENV-2")
async def test_one_whose_variable_is_taken_is_refused_and_nothing_is_written(desk: Desk) -> None:
    await desk.start(inputs=[{**PROMPT, "id": "figma-token"}])
    for scope in ("user", "run"):
        with pytest.raises(ConflictError) as caught:
            await desk.define({**PROMPT, "id": "figma_token"}, scope)
        assert caught.value.code == "env_name_collision"
        assert "figma-token" in caught.value.message
    assert not desk.paths["user"][1].exists()
    assert list(await desk.inputs()) == ["figma-token"]


@spec("R-INPUT-18", "F-10", "T-ENV-2", "R-MCP-7")
async def test_a_server_whose_variable_is_taken_is_refused_and_nothing_is_written(desk: Desk) -> None:
    desk.declare("user", PROMPT, **{"a-b": server("one", args=["${input:t}"])})
    await desk.start()
    text = json.dumps({"name": "a_b", **server("two", args=["${input:t}"])}).encode()
    with pytest.raises(ConflictError) as caught:
        await desk.world.bus.ask(RECONCILE, DeclareServer(Attachment(text), "user"))
    assert caught.value.code == "env_name_collision"
    assert "explicit bundleId" in caught.value.message
    assert list(desk.written("user")["servers"]) == ["a-b"]


@spec("R-CFG-3")
@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"id": "t", "type": "promptString"}, "description"),
        ({**PROMPT, "type": "riddle"}, "type"),
        ({**PROMPT, "password": True, "default": 7}, "default"),
        ({"id": "t", "description": "d", "type": "pickString", "options": ["a"]}, "options"),
        ([], "$"),
    ],
)
async def test_a_faulty_one_is_refused_with_its_place(desk: Desk, raw: Any, field: str) -> None:
    await desk.start()
    with pytest.raises(ConfigValidationError) as caught:
        await desk.define(raw)
    assert [finding.field for finding in caught.value.findings] == [field]


@spec("R-FILE-7", "R-FILE-8", "T-SCOPE-4")
async def test_a_file_that_is_another_or_broken_is_not_written_to(desk: Desk) -> None:
    path = desk.write(desk.paths["user"][1], "{oops")
    await desk.start()
    with pytest.raises(ConfigValidationError) as caught:
        await desk.define(PROMPT, "user")
    assert (caught.value.code, path.read_text()) == ("bad_json", "{oops")
    desk.write(path, "{}")
    with pytest.raises(ConflictError) as stale:
        await desk.define(PROMPT, "user", "0" * 64)
    assert (stale.value.code, path.read_text()) == ("stale_write", "{}")


@spec("R-MGMT-4")
async def test_what_is_defined_elsewhere_is_not_undefined_and_nothing_is_no_change(desk: Desk) -> None:
    desk.declare("policy", {**PROMPT, "id": "p"})
    await desk.start(inputs=[PROMPT])
    with pytest.raises(ConflictError) as caught:
        await desk.undefine("t")
    assert caught.value.code == "read_only_scope"
    with pytest.raises(PolicyError):
        await desk.undefine("p")
    with pytest.raises(PolicyError):
        await desk.define({**PROMPT, "id": "p"})
    assert (await desk.undefine("ghost")).changed is False


@spec("R-CFG-3", "R-INPUT-3")
async def test_the_default_of_a_secret_is_shown_nowhere(desk: Desk) -> None:
    await desk.start(inputs=[{**PROMPT, "password": True, "default": "sk-canary"}])
    view = (await desk.inputs())["t"]
    assert view.definition is not None
    assert b"sk-canary" not in view.definition.data
