"""`client:get_skill` and the bytes behind its handles: order of checks, codes, and who is asked for what."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from .conftest import Bench, refused, sha256, write_skill

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


@pytest.fixture
async def ready(bench: Bench) -> Bench:
    """One user skill `a` with a few files."""
    write_skill(bench.user, "a", {"docs/x.md": "text", "image.png": b"png", "big.txt": "x" * 40_000, "empty.md": ""})
    await bench.start()
    await bench.commit()
    return bench


class TestNames:
    @spec("C-SKILL-59", "C-SEC-10")
    @pytest.mark.parametrize(
        "name",
        ["", "A", "../a", "/etc/passwd", "a/b", "a\n", "a:b:c:d", "a\0", "user:a:b", "x" * 65, "mcp::x", "a" * 5_000],
    )
    async def test_a_name_that_breaks_the_grammar_is_4016_and_touches_no_file(
        self, ready: Bench, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        touched: list[Any] = []
        for call in ("open", "stat", "lstat", "scandir", "listdir", "readlink"):
            monkeypatch.setattr(os, call, lambda *given, **_: touched.append(given))
        assert await refused(ready.file(name)) == (4016, {"name": name})
        assert touched == []

    @spec("C-SKILL-59", "C-GEN-7", "C-SEC-3")
    async def test_an_endless_name_is_not_repeated_whole(self, ready: Bench) -> None:
        code, details = await refused(ready.file("\1" * 1_000_000))
        assert code == 4016
        assert len(details["name"]) == 65_536

    @spec("C-SKILL-60", "R-PROJ-9", "T-PROJ-5")
    @pytest.mark.parametrize("name", ["unknown", "plugin:unknown", "mcp:srv:unknown"])
    async def test_an_unknown_name_is_4014_without_a_server(self, ready: Bench, name: str) -> None:
        assert await refused(ready.file(name)) == (4014, {"name": name})

    @spec("C-SKILL-60", "C-SKILL-56", "R-PROJ-9")
    async def test_an_orphan_is_4014(self, ready: Bench) -> None:
        shutil.rmtree(ready.user / "a")
        await ready.rescan()
        assert await refused(ready.file("a")) == (4014, {"name": "a"})

    @spec("C-SKILL-59", "C-SKILL-60", "C-SKILL-61")
    async def test_name_registration_and_path_are_checked_in_this_order(self, ready: Bench) -> None:
        assert (await refused(ready.file("A", "../x")))[0] == 4016
        assert (await refused(ready.file("unknown", "../x")))[0] == 4014
        assert (await refused(ready.file("a", "../x")))[0] == 4017


class TestFiles:
    @spec("C-SKILL-61", "C-SKILL-65", "C-SKILL-64")
    @pytest.mark.parametrize("rel_path", [None, "", "SKILL.md"])
    async def test_without_a_path_it_is_the_body_of_the_skill_md(self, ready: Bench, rel_path: str | None) -> None:
        body = "# Body\n"
        assert await ready.file("a", rel_path) == {
            "name": "a",
            "rel_path": "SKILL.md",
            "mime_type": "text/markdown",
            "total_size": len(body),
            "sha256": sha256(body.encode()),
            "body": body,
        }

    @spec("C-SKILL-65", "C-SKILL-67")
    async def test_a_path_is_echoed_as_it_was_requested(self, ready: Bench) -> None:
        found = await ready.file("a", "./docs//x.md")
        assert (found["rel_path"], found["body"]) == ("./docs//x.md", "text")

    @spec("C-SKILL-64", "C-SKILL-63", "T-PROJ-5", "C-BLOB-2", "C-BLOB-18")
    @pytest.mark.parametrize(
        ("rel_path", "mime_type", "content"),
        [("image.png", "image/png", b"png"), ("big.txt", "text/plain", b"x" * 40_000)],
    )
    async def test_what_does_not_go_inline_gets_a_handle_for_its_source(
        self, ready: Bench, rel_path: str, mime_type: str, content: bytes
    ) -> None:
        found = await ready.file("a", "./" + rel_path)
        assert (found["mime_type"], found["total_size"], found["sha256"]) == (mime_type, len(content), sha256(content))
        assert ("body" in found, found["blob_handle"]) == (False, f"handle a {rel_path}")
        (minted,) = ready.blobs.minted
        source = minted.source
        assert (source.kind, source.name, source.rel_path, source.mime_type) == ("s", "a", rel_path, mime_type)
        assert (minted.total_size, minted.sha256) == (len(content), sha256(content))

    @spec("C-SKILL-64")
    async def test_an_empty_text_has_an_empty_body(self, ready: Bench) -> None:
        found = await ready.file("a", "empty.md")
        assert (found["body"], found["total_size"], "blob_handle" in found) == ("", 0, False)

    @spec("C-SKILL-61", "C-SKILL-69", "T-SEC-4", "R-PROJ-9")
    @pytest.mark.parametrize(
        ("rel_path", "reason"),
        [
            ("../b/x", "traversal"),
            (".skillenv", "forbidden"),
            ("missing", "not_found"),
            ("docs", "not_found"),
            (".", "not_found"),
        ],
    )
    async def test_a_refused_path_is_4017_with_its_reason_and_mints_nothing(
        self, ready: Bench, rel_path: str, reason: str
    ) -> None:
        assert await refused(ready.file("a", rel_path)) == (4017, {"reason": reason, "rel_path": rel_path})
        assert ready.blobs.minted == []

    @spec("C-SEC-13", "C-SKILL-69", "C-SEC-1")
    async def test_answers_for_forbidden_files_are_the_same_whether_they_exist_or_not(self, ready: Bench) -> None:
        before = await refused(ready.file("a", ".skillenv"))
        (ready.user / "a" / ".skillenv").write_text("KEY=canary")
        assert await refused(ready.file("a", ".skillenv")) == before

    @spec("C-SKILL-62", "C-SKILL-66f", "C-BLOB-2")
    async def test_a_file_above_the_cap_is_too_large_with_its_size_and_without_a_handle(self, bench: Bench) -> None:
        write_skill(bench.user, "a", {"big.bin": b"x" * 1_001})
        await bench.start(too_large_cap=1_000)
        await bench.commit()
        details = {"reason": "too_large", "rel_path": "big.bin", "total_size": 1_001}
        assert await refused(bench.file("a", "big.bin")) == (4017, details)
        assert bench.blobs.minted == []

    @spec("C-SKILL-68", "C-SEC-19")
    async def test_an_own_list_of_forbidden_files_counts_in_every_answer(self, bench: Bench) -> None:
        write_skill(bench.user, "a", {"plan.secret": "x", ".env": "y", ".skillenv": "z"})
        await bench.start(forbidden=("*.secret",))
        await bench.commit()
        assert (await refused(bench.file("a", "plan.SECRET")))[1]["reason"] == "forbidden"
        assert (await refused(bench.file("a", ".skillenv")))[1]["reason"] == "forbidden"
        assert (await bench.file("a", ".env"))["total_size"] == 1

    @spec("C-DEF-1")
    async def test_the_inline_budget_is_an_option_with_a_ceiling(self, bench: Bench) -> None:
        write_skill(bench.user, "a", {"fits.txt": "x" * 131_072, "large.txt": "x" * 131_073})
        await bench.start(inline_budget=10_000_000)
        await bench.commit()
        assert "body" in await bench.file("a", "fits.txt")
        assert "body" not in await bench.file("a", "large.txt")

    @spec("C-SKILL-72", "C-SKILL-74", "C-SEC-1")
    async def test_placeholders_are_left_alone_and_the_secrets_file_goes_nowhere(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = "cd ${TFROBOT_SKILL_DIR} && echo $KEY ${HOME} ${input:x}\n"
        write_skill(bench.user, "a", {".skillenv": "KEY=canary"}, body=body)
        await bench.start()
        await bench.commit()
        assert await bench.body("a") == body
        seen = repr([await bench.skills(), await bench.status(), bench.facts]) + caplog.text
        assert "canary" not in seen

    @spec("C-GEN-14")
    async def test_an_answer_that_takes_too_long_is_not_found(self, bench: Bench) -> None:
        write_skill(bench.user, "a", {"image.png": b"png"})
        await bench.start(answer_timeout=0.2)
        await bench.commit()
        bench.blobs.release = anyio.Event()
        assert await refused(bench.file("a", "image.png")) == (4017, {"reason": "not_found", "rel_path": "image.png"})


class TestBytes:
    @spec("C-BLOB-16", "C-BLOB-11", "C-BLOB-12")
    async def test_a_slice_comes_with_what_identifies_the_whole(self, ready: Bench) -> None:
        found = await ready.slice("a", "big.txt", 39_990, 100)
        assert (found.data.data, found.mime_type) == (b"x" * 10, "text/plain")
        assert (found.total_size, found.sha256) == (40_000, sha256(b"x" * 40_000))
        assert (await ready.slice("a", "empty.md")).data.data == b""

    @spec("C-BLOB-9", "C-BLOB-17")
    @pytest.mark.parametrize("offset", [-1, 40_001])
    async def test_an_offset_outside_is_a_range_fault(self, ready: Bench, offset: int) -> None:
        assert await refused(ready.slice("a", "big.txt", offset)) == (4018, {"reason": "range", "total_size": 40_000})
        assert (await ready.slice("a", "big.txt", 40_000)).data.data == b""

    @spec("C-BLOB-10", "C-BLOB-13")
    async def test_no_slice_is_larger_than_the_ceiling(self, bench: Bench) -> None:
        write_skill(bench.user, "a", {"big.bin": bytes(1_000_000)})
        await bench.start()
        await bench.commit()
        assert len((await bench.slice("a", "big.bin", 0, 1_000_000)).data.data) == 655_360
        assert len((await bench.slice("a", "big.bin", 0, -5)).data.data) == 0

    @spec("C-BLOB-16", "C-SEC-21", "C-BLOB-6")
    async def test_authorisation_is_repeated_at_every_use(self, ready: Bench) -> None:
        package = ready.user / "a"
        assert (await ready.slice("a", "image.png")).data.data == b"png"
        (package / "image.png").unlink()
        assert await refused(ready.slice("a", "image.png")) == (4018, {"reason": "gone"})
        (package / "image.png").symlink_to("/etc/passwd")
        assert await refused(ready.slice("a", "image.png")) == (4018, {"reason": "forbidden"})
        (package / "image.png").unlink()
        (package / "tls.pem").write_text("canary")
        (package / "image.png").symlink_to("tls.pem")
        assert await refused(ready.slice("a", "image.png")) == (4018, {"reason": "forbidden"})
        shutil.rmtree(package)
        await ready.rescan()
        assert await refused(ready.slice("a", "image.png")) == (4018, {"reason": "forbidden"})
        assert await refused(ready.slice("never-there", "x")) == (4018, {"reason": "gone"})

    @spec("C-BLOB-16", "C-SEC-22", "R-SEC-10", "T-PROJ-6")
    @pytest.mark.parametrize("rel_path", ["../../x", "/etc/passwd", ".skillenv", "docs/../../../x", "a\0", "C:\\x"])
    async def test_nothing_in_a_handle_is_trusted_as_a_path(self, ready: Bench, rel_path: str) -> None:
        assert await refused(ready.slice("a", rel_path)) == (4018, {"reason": "forbidden"})

    @spec("C-BLOB-16", "C-SEC-22")
    @pytest.mark.parametrize("name", ["", "../a", "A", "mcp:x:y", "\0"])
    async def test_nothing_in_a_handle_is_trusted_as_a_name(self, ready: Bench, name: str) -> None:
        assert await refused(ready.slice(name, "x")) == (4018, {"reason": "gone"})

    @spec("C-BLOB-16")
    async def test_a_file_that_grew_above_the_cap_is_forbidden(self, bench: Bench) -> None:
        folder = write_skill(bench.user, "a", {"x.bin": b"x" * 1_000})
        await bench.start(too_large_cap=1_000)
        await bench.commit()
        assert len((await bench.slice("a", "x.bin")).data.data) == 1_000
        (folder / "x.bin").write_bytes(b"x" * 1_001)
        assert await refused(bench.slice("a", "x.bin")) == (4018, {"reason": "forbidden"})

    @spec("C-BLOB-15")
    async def test_a_file_that_is_replaced_between_two_slices_shows_another_hash(self, ready: Bench) -> None:
        first = await ready.slice("a", "big.txt", 0, 10)
        (ready.user / "a" / "new").write_text("y" * 40_000)
        os.replace(ready.user / "a" / "new", ready.user / "a" / "big.txt")
        second = await ready.slice("a", "big.txt", 10, 10)
        assert first.sha256 != second.sha256 == sha256(b"y" * 40_000)
        assert second.data.data == b"y" * 10

    @spec("C-BLOB-14", "C-SEC-26")
    async def test_many_slices_at_once_are_all_answered(self, ready: Bench) -> None:
        found: dict[int, bytes] = {}

        async def read(offset: int) -> None:
            found[offset] = (await ready.slice("a", "big.txt", offset, 1_000)).data.data

        async with anyio.create_task_group() as group:
            for offset in range(0, 40_000, 1_000):
                group.start_soon(read, offset)
        assert b"".join(found[offset] for offset in sorted(found)) == b"x" * 40_000


@spec("C-SKILL-64")
async def test_one_of_body_and_handle_is_there_for_every_kind_of_file(bench: Bench, tmp_path: Path) -> None:
    files = {
        f"f{n}{end}": content
        for n, content in enumerate([b"", b"text", b"\xff", b"x" * 40_000])
        for end in (".md", ".png", "")
    }
    write_skill(bench.user, "a", files)
    await bench.start()
    await bench.commit()
    for name, content in files.items():
        found = await bench.file("a", name)
        assert ("body" in found) != ("blob_handle" in found)
        assert (found["total_size"], found["sha256"]) == (len(content), sha256(content))
        assert (await bench.slice("a", name)).data.data == content
