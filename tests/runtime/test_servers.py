"""Servers of a running Computer as its operator manages them: by bundle_id in the API, by name at the terminal only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from smcp_runtime.cli.naming import meant
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError
from support.marketplaces import plugin, stdio
from support.stack import light

from .test_plugins import AUDIT, Yard, connected, seen

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
TWIN = [light("filesystem", bundle_id="fs_user"), light("filesystem", bundle_id="fs_other")]


class Candidate(NamedTuple):
    bundle_id: str
    name: str
    owner: str = "user"


@spec("T-MGMT-1", "R-MGMT-5", "R-MGMT-7")
def test_t_mgmt_1_a_name_of_two_servers_is_settled_by_nothing_but_a_bundle_id() -> None:
    twins = [Candidate("fs_user", "filesystem"), Candidate("fs_other", "filesystem", "plugin:audit")]
    with pytest.raises(ConfigValidationError) as caught:
        meant("filesystem", twins)
    assert caught.value.code == "ambiguous"
    assert caught.value.message.splitlines() == [
        "2 servers are named 'filesystem':",
        "  fs_other  filesystem  (plugin:audit)",
        "  fs_user  filesystem  (user)",
        "say which one by its bundle_id",
    ]
    assert meant("fs_user", twins) == "fs_user"


@spec("T-MGMT-2", "R-MGMT-6")
def test_t_mgmt_2_a_word_that_stands_for_nothing_is_not_found() -> None:
    for token in ("nothing", "legal_but_unregistered", ""):
        with pytest.raises(ConfigValidationError) as caught:
            meant(token, [Candidate("fs", "filesystem")])
        assert caught.value.code == "not_found"


@spec("T-MGMT-3", "R-MGMT-5")
def test_t_mgmt_3_among_twins_the_one_whose_id_is_the_name_is_meant_and_a_name_comes_before_an_id() -> None:
    assert meant("fs", [Candidate("fs", "fs"), Candidate("other", "fs")]) == "fs"
    assert meant("fs", [Candidate("one", "fs"), Candidate("fs", "something")]) == "one"


@spec("T-MGMT-4", "R-MGMT-2")
async def test_t_mgmt_4_the_library_looks_no_name_up(yard: Yard) -> None:
    async with yard.computer({"name": "desk", "mcp_servers": TWIN}) as computer:
        await connected(computer, "fs_user")
        for act in (computer.control("filesystem", "stop"), computer.manage.disable("filesystem")):
            with pytest.raises(ConfigValidationError) as caught:
                await act
            assert caught.value.code == "unknown_server"
        assert not (await computer.manage.remove("filesystem")).changed
        await computer.control("fs_user", "stop")
        views = {one.bundle_id: one.activation for one in await computer.manage.servers()}
        assert views == {"fs_user": "stopped", "fs_other": "started"}


@spec("T-MGMT-5", "R-MGMT-4", "R-SCOPE-2")
async def test_t_mgmt_5_removing_goes_as_far_as_people_may_write_and_names_whose_it_is_beyond(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    declare(yard, "config/mcp.json", db=light("db", bundle_id="db"))
    declare(yard, "managed/managed-mcp.json", ruled=light("ruled"))
    async with yard.computer({"name": "desk", "mcp_servers": [light("embedded")]}, start_wait_s=0.0) as computer:
        await computer.mount(light("mounted"))
        manage = computer.manage
        owners = {one.bundle_id: (one.origin, one.owner) for one in await manage.servers()}
        assert owners == {
            "db": ("user", "user"),
            "embedded": ("embed", "runtime"),
            "mounted": ("embed", "runtime"),
            "ruled": ("policy", "policy"),
        }
        result = await manage.remove("db")
        assert (result.changed, result.shadowed_by) == (True, f"plugin:{AUDIT}")
        assert [one.owner for one in await manage.servers() if one.bundle_id == "db"] == ["plugin:audit"]
        for bundle_id, kind, code in (
            ("db", ConflictError, "managed_by_plugin"),
            ("embedded", ConflictError, "read_only_scope"),
            ("mounted", ConflictError, "mounted"),
            ("ruled", PolicyError, "policy_shadowed"),
        ):
            with pytest.raises(kind) as caught:
                await manage.remove(bundle_id)
            assert caught.value.code == code
        assert not (await manage.remove("nothing")).changed
        with pytest.raises(ConflictError) as caught:
            await manage.disable("db")
        assert caught.value.code == "managed_by_plugin"


@spec("R-MGMT-3", "R-MGMT-4", "R-FILE-13")
async def test_a_server_is_switched_off_and_on_and_a_result_says_who_stands_against_it(yard: Yard) -> None:
    declare(yard, "config/mcp.json", mine=light("mine", disabled=True))
    async with yard.computer(start_wait_s=0.0) as computer:
        assert (await computer.manage.enable("mine")).effective
        await connected(computer, "mine")
        assert (await computer.manage.disable("mine")).changed
        assert (await seen(computer)).servers == set()
        assert not (await computer.manage.disable("mine")).changed
        yard.say("project", disabledMcpjsonServers=["mine"])
        result = await computer.manage.enable("mine")
        assert (result.changed, result.effective) == (True, False)
        assert result.shadowed_by is not None
        assert result.shadowed_by.endswith("project/.tfrobot/settings.json")


@spec("R-FILE-9", "R-MGMT-4")
async def test_switching_a_server_off_takes_nothing_away_that_stands_where_an_array_belongs(yard: Yard) -> None:
    declare(yard, "config/mcp.json", mine=light("mine"))
    yard.say("local", disabledMcpjsonServers={"other": "of mine"})
    async with yard.computer(auto_start=False) as computer:
        with pytest.raises(ConfigValidationError) as caught:
            await computer.manage.disable("mine")
        assert (caught.value.code, caught.value.field) == ("corrupt_file", "disabledMcpjsonServers")
        written = (yard.root / "project/.tfrobot/settings.local.json").read_text()
        assert json.loads(written) == {"disabledMcpjsonServers": {"other": "of mine"}}


def declare(yard: Yard, path: str, **servers: Any) -> None:
    place = yard.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"servers": {name: {**one, "name": name} for name, one in servers.items()}}))


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
