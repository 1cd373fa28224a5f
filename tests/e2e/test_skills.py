"""Skills of an Agent: the user's own, and those of MCP servers in all three modes, through a real Server."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.wire.errors import PeerError
from support.shelf import fixture_server, pattern, shelf, skill, user_skill
from support.stack import Stack, config, open_stack, options

pytestmark = pytest.mark.anyio


async def names(stack: Stack) -> list[str]:
    return [found.name for found in await stack.agent.skills("desk")]


async def until_listed(stack: Stack, *expected: str) -> None:
    """Waits until exactly these skills are listed, in this order."""
    await stack.until(lambda: _is(stack, list(expected)))


async def _is(stack: Stack, expected: list[str]) -> bool:
    return await names(stack) == expected


async def refusal(stack: Stack, name: str, rel_path: str | None = None) -> dict[str, Any]:
    with pytest.raises(PeerError) as refused:
        await stack.agent.skill("desk", name, rel_path)
    return dict(refused.value.payload)


async def blob_refusal(stack: Stack, handle: str) -> str:
    with pytest.raises(PeerError) as refused:
        await stack.agent.get_blob("desk", handle)
    assert refused.value.wire_code == 4018
    return str(refused.value.payload["details"]["reason"])


async def until_told(stack: Stack, change: Any) -> None:
    async with stack.agent.notifications() as notices:
        await change
        with anyio.fail_after(10):
            async for notice in notices:
                if notice.event == "notify:update_skills":
                    return


async def until_told_of(stack: Stack, change: Any, name: str, rel_path: str, text: str) -> None:
    """Waits until a change is told and then found; what is told of before may be what happened earlier."""
    async with stack.agent.notifications() as notices:
        await change
        with anyio.fail_after(10):
            async for notice in notices:
                if notice.event == "notify:update_skills":
                    with suppress(PeerError):
                        if (await stack.agent.skill("desk", name, rel_path)).text == text:
                            return


@pytest.mark.spec("C-SKILL-6", "C-SKILL-57", "C-SKILL-72", "C-SKILL-30", "E-6", "E-7", "E-17", "E-25")
async def test_all_three_modes_reach_the_agent_and_a_change_is_read_anew(own_places: Path) -> None:
    user_skill(own_places / "home", "mine")
    async with open_stack(
        config(fixture_server("skills_server")), runtime=options(home=str(own_places / "home"))
    ) as stack:
        server = "mcp:skills_server"
        await until_listed(stack, "mine", f"{server}:lint", f"{server}:brew", f"{server}:greet")
        lint, brew, greet = (await stack.agent.skills("desk"))[1:]
        assert (lint.version, greet.uri) == ("1.0", "skill://skills/greet")
        text = (await stack.agent.skill("desk", lint.name)).for_model(lint)
        assert f"Run {lint.path}/scripts/lint.sh." in text
        assert Path(lint.path).is_relative_to(own_places / "home" / "mcp" / "skills_server")
        assert (
            await stack.agent.skill("desk", brew.name, "docs/times.md")
        ).text == "green: 2 minutes\nblack: 4 minutes\n"
        assert (await stack.agent.skill("desk", greet.name, "words.json")).mime_type == "application/json"
        revised = stack.call("skills_server__revise", word="hola")
        await until_told_of(stack, revised, greet.name, "words.json", '{"new": "hola"}\n')
        added = stack.call("skills_server__add_note", text="be polite")
        await until_told_of(stack, added, greet.name, "note.md", "be polite")


@pytest.mark.spec(
    "T-PROJ-5", "T-SEC-4", "C-SKILL-59", "C-SKILL-60", "C-SKILL-61", "C-SKILL-68", "C-SEC-10", "C-SEC-11", "C-SEC-12"
)
async def test_t_proj_5_t_sec_4_what_may_not_be_read_is_refused_with_its_reason_and_reveals_nothing(
    own_places: Path,
) -> None:
    home = own_places / "home"
    folder = user_skill(home, "mine", {".skillenv": "TOKEN=canary-1", "a/key.pem": "canary-2", "a/b.txt": "fine"})
    (folder / "out").symlink_to("/etc")
    async with open_stack(config(), runtime=options(home=str(home))) as stack:
        await until_listed(stack, "mine")
        assert (await refusal(stack, "../mine"))["code"] == 4016
        assert await refusal(stack, "theirs") == {
            "code": 4014,
            "message": "Skill not found",
            "details": {"name": "theirs"},
        }
        for path, reason in {
            "../x": "traversal",
            "/etc/passwd": "traversal",
            "out/passwd": "traversal",
            ".skillenv": "forbidden",
            ".SKILLENV.": "forbidden",
            "nowhere/.skillenv": "forbidden",
            "a/key.pem": "forbidden",
            "a/other.pem": "forbidden",
            "a": "not_found",
            "missing": "not_found",
        }.items():
            refused = await refusal(stack, "mine", path)
            assert (refused["code"], refused["details"]) == (4017, {"reason": reason, "rel_path": path}), path
        assert (await stack.agent.skill("desk", "mine", "a/b.txt")).text == "fine"


@pytest.mark.spec("C-SKILL-64", "C-SKILL-62", "C-SKILL-77", "C-BLOB-12", "R-OPT-1")
async def test_small_texts_come_inline_the_rest_by_handle_and_too_much_not_at_all(own_places: Path) -> None:
    home = own_places / "home"
    files: dict[str, str | bytes] = {
        "small.txt": "x" * 100,
        "long.md": "ü" * 600,
        "data.bin": b"\x00" * 50,
        "broken.txt": b"\xff\xfe",
        "empty.txt": "",
        "huge.bin": b"\x00" * 3000,
    }
    user_skill(home, "mine", files)
    async with open_stack(config(), runtime=options(home=str(home), inline_budget=1000, too_large_cap=2000)) as stack:
        await until_listed(stack, "mine")
        raw = {name: await stack.agent.get_skill("desk", "mine", name) for name in list(files)[:-1]}
        assert {name for name, ret in raw.items() if isinstance(ret.body, str)} == {"small.txt", "empty.txt"}
        assert (await stack.agent.skill("desk", "mine", "long.md")).text == "ü" * 600
        assert (await stack.agent.skill("desk", "mine", "broken.txt")).text is None
        refused = await refusal(stack, "mine", "huge.bin")
        assert refused["details"] == {"reason": "too_large", "rel_path": "huge.bin", "total_size": 3000}


@pytest.mark.spec("C-BLOB-16", "C-SEC-21", "C-DIFF-16", "C-SKILL-56", "R-PROJ-10", "T-PROJ-6")
async def test_t_proj_6_a_handle_is_authorised_anew_at_each_read(tmp_path: Path) -> None:
    entry = shelf(tmp_path, "shelf", skill("lab", "brew", {"data.bin": 400_000}))
    async with open_stack(config(entry)) as stack:
        name = "mcp:shelf_display:brew"
        await until_listed(stack, name)
        handle = str((await stack.agent.skill("desk", name, "data.bin")).blob_handle)
        assert (await stack.agent.read_blob("desk", handle)).data == pattern(400_000)
        file = Path((await stack.agent.skills("desk"))[0].path) / "data.bin"
        secret = tmp_path / "secret"
        secret.write_text("canary")
        file.unlink()
        assert await blob_refusal(stack, handle) == "gone"
        file.symlink_to(secret)
        assert await blob_refusal(stack, handle) == "forbidden"
        file.unlink()
        file.write_bytes(b"again")
        assert (await stack.agent.read_blob("desk", handle)).data == b"again"
        await stack.computer.control("shelf_display", "stop")
        await until_listed(stack)
        assert await blob_refusal(stack, handle) == "forbidden"
        assert (await refusal(stack, name))["code"] == 4014
        await stack.computer.control("shelf_display", "start")
        await until_listed(stack, name)
        assert (await stack.agent.read_blob("desk", handle)).data == pattern(400_000)
        await stack.computer.sync_config(config())
        await until_listed(stack)
        assert await blob_refusal(stack, handle) == "gone"


@pytest.mark.spec("C-SKILL-48", "C-SKILL-50", "C-SKILL-76", "E-25", "C-SKILL-78")
async def test_a_skill_dropped_in_appears_and_a_removed_one_goes(own_places: Path) -> None:
    home = own_places / "home"
    (home / "user").mkdir(parents=True)
    async with open_stack(config(), runtime=options(home=str(home))) as stack:
        assert await names(stack) == []

        async def drop_in() -> None:
            user_skill(home, "fresh", description="just now")

        async def edit() -> None:
            (home / "user" / "fresh" / "more.txt").write_text("more")

        async def remove() -> None:
            shutil.rmtree(home / "user" / "fresh")

        await until_told(stack, drop_in())
        await until_listed(stack, "fresh")
        await until_told(stack, edit())
        assert (await stack.agent.skill("desk", "fresh", "more.txt")).text == "more"
        await until_told(stack, remove())
        await until_listed(stack)


@pytest.mark.spec("C-SKILL-76", "D-22")
async def test_a_skill_dropped_in_beside_our_own_writes_is_news(tmp_path: Path, own_places: Path) -> None:
    home = own_places / "home"
    (home / "user").mkdir(parents=True)
    entry = shelf(tmp_path, "shelf", skill("lab", "brew"))
    async with open_stack(config(entry), runtime=options(home=str(home))) as stack:
        await until_listed(stack, "mcp:shelf_display:brew")
        user_skill(home, "fresh")
        await until_listed(stack, "fresh", "mcp:shelf_display:brew")


@pytest.mark.spec("C-SKILL-76", "C-GEN-13", "C-SKILL-20")
async def test_a_storm_of_file_events_ends_in_one_notification(own_places: Path) -> None:
    home = own_places / "home"
    folder = user_skill(home, "busy")
    # On a slow machine the storm itself takes longer than the two seconds of D-4.
    runtime = options(home=str(home), coalesce_ms=1000.0, coalesce_max_wait_ms=20_000.0)
    async with open_stack(config(), runtime=runtime) as stack:
        await until_listed(stack, "busy")
        await anyio.sleep(0.5)  # what the start had to announce has been announced
        told = 0
        async with stack.agent.notifications() as notices:

            def storm() -> None:
                files = [os.open(folder / f"f{number}", os.O_CREAT | os.O_WRONLY) for number in range(100)]
                for number in range(10_000):
                    os.pwrite(files[number % 100], b"x", number)
                for file in files:
                    os.close(file)

            await anyio.to_thread.run_sync(storm)
            with anyio.move_on_after(5.0):
                async for notice in notices:
                    told += notice.event == "notify:update_skills"
        assert told == 1


@pytest.mark.spec("T-SYNC-4", "R-LIFE-15", "E-17")
async def test_t_sync_4_a_sync_that_changes_the_roots_changes_the_list_and_tells_the_agent(tmp_path: Path) -> None:
    for name in ("one", "two"):
        user_skill(tmp_path / name, f"of-{name}")
    roots = {name: [str(tmp_path / name / "user")] for name in ("one", "two")}
    async with open_stack(config(skills=roots["one"])) as stack:
        await until_listed(stack, "of-one")
        await until_told(stack, stack.computer.sync_config(config(skills=roots["two"])))
        assert await names(stack) == ["of-two"]
        await until_told(stack, stack.computer.sync_config(config(skills=[])))
        assert await names(stack) == []


@pytest.mark.spec("C-SEC-19", "C-SKILL-68", "C-SKILL-48")
async def test_no_settings_file_adds_a_root_or_frees_a_forbidden_name(tmp_path: Path, own_places: Path) -> None:
    user_skill(own_places / "home", "mine", {".env": "S=1", "id_rsa": "key"})
    user_skill(tmp_path / "trap", "sneaked")
    roots, freed = [str(tmp_path / "trap" / "user")], ["nothing.txt"]
    settings = {
        **dict.fromkeys(("skills", "skillRoots", "skill_roots", "skillMountRoots", "skill_mount_roots"), roots),
        **dict.fromkeys(("forbiddenSkillFiles", "forbidden_skill_files"), freed),
        "home": str(tmp_path / "trap"),
    }
    files = [tmp_path / "project" / ".tfrobot" / name for name in ("settings.json", "settings.local.json")]
    for file in (*files, tmp_path / "settings" / "settings.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    places = {"user_config_dir": str(tmp_path / "settings"), "project_root": str(tmp_path / "project")}
    async with open_stack(config(), runtime=options(home=str(own_places / "home"), **places)) as stack:
        await until_listed(stack, "mine")
        for name in (".env", "id_rsa"):
            assert (await refusal(stack, "mine", name))["details"]["reason"] == "forbidden"


@pytest.mark.spec("C-SKILL-48", "R-CORE-1")
async def test_roots_of_the_configuration_take_the_place_of_the_default_one(tmp_path: Path, own_places: Path) -> None:
    user_skill(own_places / "home", "default")
    user_skill(tmp_path, "first", description="from the first root")
    async with open_stack(
        config(skills=[str(tmp_path / "user")]), runtime=options(home=str(own_places / "home"))
    ) as stack:
        await until_listed(stack, "first")


@pytest.mark.spec("C-GEN-15", "C-BLOB-3", "C-BLOB-4")
@pytest.mark.parametrize("actor", ["skills", "blobs"])
async def test_a_killed_actor_keeps_skills_and_handles(tmp_path: Path, actor: str) -> None:
    entry = shelf(tmp_path, "shelf", skill("lab", "brew", {"data.bin": 400_000}))
    async with open_stack(config(entry)) as stack:
        name = "mcp:shelf_display:brew"
        await until_listed(stack, name)
        handle = str((await stack.agent.skill("desk", name, "data.bin")).blob_handle)
        assert stack.computer.kill_actor(actor)
        assert await names(stack) == [name]
        assert (await stack.agent.read_blob("desk", handle)).data == pattern(400_000)


@pytest.mark.spec("C-BLOB-3", "C-BLOB-4")
async def test_a_handle_works_after_a_restart_of_the_computer_with_the_same_home(own_places: Path) -> None:
    home = own_places / "home"
    user_skill(home, "mine", {"data.bin": pattern(50_000)})
    async with open_stack(config(), runtime=options(home=str(home))) as stack:
        await until_listed(stack, "mine")
        handle = str((await stack.agent.skill("desk", "mine", "data.bin")).blob_handle)
    async with open_stack(config(), runtime=options(home=str(home))) as stack:
        assert (await stack.agent.read_blob("desk", handle)).data == pattern(50_000)
    async with open_stack(config(name="other"), runtime=options(home=str(home))) as stack:
        with pytest.raises(PeerError) as refused:
            await stack.agent.get_blob("other", handle)
        assert refused.value.payload["details"] == {"reason": "invalid_handle"}


@pytest.mark.spec("C-SKILL-26", "C-SKILL-27", "C-SEC-15")
async def test_a_server_of_this_machine_may_mount_a_directory_but_not_the_home(
    tmp_path: Path, own_places: Path
) -> None:
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: t\n---\nhot\n")
    mounted = {"uri": "skill://m/tea", "_meta": {"source": "mounted", "mount_dir": str(tmp_path / "tea")}}
    whole = {"uri": "skill://m/home", "_meta": {"source": "mounted", "mount_dir": str(own_places)}}
    async with open_stack(config(shelf(tmp_path, "shelf", [mounted, whole]))) as stack:
        await until_listed(stack, "mcp:shelf_display:tea")
        assert (await stack.agent.skill("desk", "mcp:shelf_display:tea")).text == "hot\n"
