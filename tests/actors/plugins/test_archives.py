"""Marketplaces and plugins that come as archives: by path and over https, within caps, all or nothing."""

from __future__ import annotations

import base64
import io
import json
import os
import ssl
import stat
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import psutil
import pytest
from aiohttp import web

from smcp_runtime.actors.plugins import archives, marketplaces
from smcp_runtime.actors.plugins.archives import goes_direct
from smcp_runtime.actors.plugins.git import Git
from smcp_runtime.actors.plugins.transfer import archive_form
from smcp_runtime.wire.errors import ConfigValidationError, NetworkError, SmcpError
from support.certificates import self_signed
from support.marketplaces import Files, catalog, plugin, stdio
from support.plugin_home import Home
from support.waiting import until

from ..skills.archive_host import ArchiveHost, archive_host

spec = pytest.mark.spec
AUDIT = "audit@acme"
MARKET = {**catalog("acme", "audit"), **plugin("audit", stdio("store"))}


def as_text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def zipped(files: Files, top: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(top + path, as_text(content))
    return packed.getvalue()


def tarred(files: Files, top: str = "", *more: tarfile.TarInfo) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, content in files.items():
            data = as_text(content).encode()
            member = tarfile.TarInfo(top + path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in more:
            archive.addfile(member)
    return packed.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def linked_zip(target: str) -> bytes:
    packed = io.BytesIO(zipped(MARKET))
    with zipfile.ZipFile(packed, "a") as archive:
        entry = zipfile.ZipInfo("plugins/audit/skills/stolen")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, target)
    return packed.getvalue()


def declared(home: Home, url: str) -> None:
    home.say("user", extraKnownMarketplaces={"acme": {"source": {"type": "git", "url": url}}})


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://a.example/x.zip", "zip"),
        ("https://a.example/x.tar.gz?token=1", "tar.gz"),
        ("file:///srv/X.TGZ", "tar.gz"),
        ("https://a.example/x.git", None),
        ("https://a.example/x.zip/repository", None),
        ("ssh://git@a.example/x.zip", None),
        ("git@a.example:x.zip", None),
    ],
)
def test_the_end_of_its_path_makes_a_url_one_of_an_archive(url: str, form: str | None) -> None:
    assert archive_form(url) == form


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("a.example", "", False),
        ("a.example", "*", True),
        ("a.example", "b.example, .example", True),
        ("A.Example", "a.example", True),
        ("nota.example", "a.example", False),
    ],
)
def test_a_proxy_is_left_out_for_whom_the_environment_says(host: str, exceptions: str, direct: bool) -> None:
    assert goes_direct(host, exceptions) is direct


@spec("R-PLUGIN-2")
@pytest.mark.parametrize(("name", "pack"), [("a.zip", zipped), ("a.tar.gz", tarred), ("a.tgz", tarred)])
@pytest.mark.parametrize("top", ["", "acme-main/"])
def test_an_archive_on_this_machine_is_a_marketplace(
    home: Home, name: str, pack: Callable[[Files, str], bytes], top: str
) -> None:
    path = home.root / name
    path.write_bytes(pack(MARKET, top))
    added = marketplaces.add_marketplace(home.site, home.settings, f"file://{path}", "acme", trust=True)
    assert added.notes == ("acme offers 1 plugins",)
    home.install(AUDIT)
    home.enable(AUDIT)
    (bundle,) = home.active().bundles
    assert bundle.bundle_ids == ("store",)
    before = home.everything()
    home.boot()
    assert home.everything() == before
    path.write_bytes(pack({**MARKET, "plugins/audit/skills/more/SKILL.md": "---\ndescription: x\n---\n"}, top))
    assert home.boot().catalogs.report.up_to_date == ("acme",)
    assert home.boot(refresh=frozenset({"acme"})).catalogs.report.updated == ("acme",)
    (bundle,) = home.active().bundles
    assert (bundle.root / "skills/more/SKILL.md").is_file()


def test_a_plugin_may_be_an_archive_of_its_own(home: Home) -> None:
    packed = home.root / "audit.zip"
    files = plugin("audit", stdio("store"))
    packed.write_bytes(zipped({path.removeprefix("plugins/audit/"): text for path, text in files.items()}))
    entry = {"source": {"source": "url", "url": f"file://{packed}"}}
    home.declare(home.repository("acme", catalog("acme", audit=entry)))
    home.install(AUDIT)
    home.enable(AUDIT)
    (bundle,) = home.active().bundles
    assert bundle.bundle_ids == ("store",)
    assert bundle.commit_sha is not None
    assert bundle.commit_sha.startswith("archive-")


HOSTILE = {
    "parent steps in a zip": zipped({**MARKET, "../../evil": "x"}),
    "an absolute path in a zip": zipped({**MARKET, "/tmp/evil": "x"}),
    "a backslash in a zip": zipped({**MARKET, "..\\evil": "x"}),
    "a link in a zip": linked_zip("/etc/passwd"),
    "parent steps in a tar": tarred({**MARKET, "../../evil": "x"}),
    "an absolute path in a tar": tarred({**MARKET, "/tmp/evil": "x"}),
    "a link in a tar": tarred(MARKET, "", special("plugins/audit/skills/x", tarfile.SYMTYPE, "/etc")),
    "a hard link in a tar": tarred(MARKET, "", special("x", tarfile.LNKTYPE, "/etc/passwd")),
    "a device": tarred(MARKET, "", special("x", tarfile.CHRTYPE)),
    "a pipe": tarred(MARKET, "", special("x", tarfile.FIFOTYPE)),
    "one name twice": tarred({**MARKET, "a/b": "x", "A/B": "y"}),
    "no archive at all": b"no archive",
    "half of one": zipped(MARKET)[:-40],
}


@spec("R-PLUGIN-6", "R-PLUGIN-32", "F-114")
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_of_it_is_left(home: Home, outside: Path, what: str) -> None:
    suffix = "zip" if HOSTILE[what][:2] == b"PK" else "tar.gz"
    path = home.root / f"evil.{suffix}"
    path.write_bytes(HOSTILE[what])
    home.home.mkdir()
    before = sorted(home.root.rglob("*"))
    with pytest.raises(ConfigValidationError) as caught:
        marketplaces.add_marketplace(home.site, home.settings, f"file://{path}", "acme", trust=True)
    assert caught.value.code == "bad_archive"
    assert home.said().get("extraKnownMarketplaces", {}) == {}
    left = {one.name for one in home.root.rglob("*") if one.is_file() and one.suffix != ".lock"}
    assert left - {one.name for one in before} == {"settings.json"}
    assert (outside / "secret.txt").read_text() == "do not read"


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_ARCHIVE", 500), ("MAX_BYTES", 100), ("MAX_FILES", 4), ("MAX_DEPTH", 2)]
)
def test_an_archive_above_a_cap_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(archives, limit, value)
    path = home.root / "big.zip"
    path.write_bytes(zipped(MARKET))
    declared(home, f"file://{path}")
    assert home.boot().losses["marketplace", "acme"].code == "bad_archive"


def test_what_looks_like_version_control_data_in_an_archive_is_left_out(home: Home) -> None:
    path = home.root / "git.zip"
    path.write_bytes(zipped({**MARKET, ".git/config": "[core]\n\tfsmonitor = touch /tmp/ran\n", ".git/HEAD": "ref: x"}))
    declared(home, f"file://{path}")
    home.boot()
    assert (home.home / "marketplace/acme/.tfrobot-plugin").is_dir()
    assert not (home.home / "marketplace/acme/.git").exists()


def test_an_archive_has_no_branches(home: Home) -> None:
    entry = {"source": {"source": "url", "url": f"file://{home.root}/audit.zip", "ref": "main"}}
    home.declare(home.repository("acme", catalog("acme", audit=entry)))
    with pytest.raises(ConfigValidationError) as caught:
        home.install(AUDIT)
    assert caught.value.code == "bad_ref"


# -- over http ------------------------------------------------------------------------------------


@pytest.fixture
async def host() -> AsyncIterator[ArchiveHost]:
    async with archive_host() as made:
        yield made


async def boot(home: Home, url: str, **how: Any) -> Any:
    declared(home, url)
    return await anyio.to_thread.run_sync(lambda: home.boot(**how))


@pytest.mark.anyio
@spec("R-PLUGIN-7")
async def test_an_archive_is_fetched_over_https_from_whom_the_certificates_vouch_for(
    home: Home, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    async with archive_host(tls) as host:
        host.files["/acme.zip"] = zipped(MARKET)
        stranger = await boot(home, f"{host.url}/acme.zip?token=s3cret")
        assert stranger.losses["marketplace", "acme"].category == "network"
        assert "s3cret" not in str(stranger)
        home.site = msgspec.structs.replace(home.site, git=Git({"SSL_CERT_FILE": str(certificate)}, 20.0))
        found = await boot(home, f"{host.url}/acme.zip?token=s3cret")
        assert found.catalogs.report.installed == ("acme",)
        assert [request.method for request in host.requests] == ["GET"]


@pytest.mark.anyio
async def test_redirects_are_followed_as_far_as_they_may(home: Home, host: ArchiveHost) -> None:
    host.files["/acme.zip"] = zipped(MARKET)
    url = host.redirect("/moved.zip", "/acme.zip")
    assert (await boot(home, url)).catalogs.report.installed == ("acme",)
    assert all("cookie" not in request.headers for request in host.requests)
    loop = host.redirect("/loop.zip", "/loop.zip")
    assert (await boot(home, loop)).losses["marketplace", "acme"].category == "network"
    away = host.redirect("/away.zip", "http://archives.example/acme.zip")
    assert (await boot(home, away)).losses["marketplace", "acme"].code == "bad_archive"


@pytest.mark.anyio
async def test_a_host_that_is_slow_silent_or_without_end_costs_its_time_and_no_more(
    home: Home, host: ArchiveHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE", 10_000)
    endless = host.drip("/endless.zip", b"x" * 1000, 0.0)
    assert (await boot(home, endless)).losses["marketplace", "acme"].code == "bad_archive"
    slow = host.drip("/slow.zip", b"x", 0.05)
    home.site = msgspec.structs.replace(home.site, git=Git({}, 0.5))
    with anyio.fail_after(10):
        assert (await boot(home, slow)).losses["marketplace", "acme"].category == "network"
    missing = f"{host.url}/missing.zip"
    assert (await boot(home, missing)).losses["marketplace", "acme"].category == "network"
    assert not (home.home / "marketplace/acme").exists()


@pytest.mark.anyio
async def test_a_fetch_that_nobody_waits_for_ends(home: Home, host: ArchiveHost) -> None:
    url = host.drip("/slow.zip", b"x", 0.02)
    site = home.site.stoppable(lambda *_: None)
    failures: list[SmcpError] = []

    def add() -> None:
        try:
            marketplaces.add_marketplace(site, home.settings, url, "acme", trust=True)
        except SmcpError as error:
            failures.append(error)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, add)
            await until(lambda: bool(host.requests))
            site.git.stop()
    assert isinstance(failures[0], NetworkError)
    assert home.said()["extraKnownMarketplaces"] == {}


@spec("R-PLUGIN-8", "R-SEC-10")
@pytest.mark.parametrize(
    "url",
    [
        "file:///home/user/secrets",
        "file:///srv/x.zip",
        "http://127.0.0.1:1/x.zip",
        "http://localhost:1/x.git",
        "ssh://git@[::1]:1/x.git",
        "git@localhost:x.git",
    ],
)
def test_a_catalog_from_elsewhere_leads_to_nothing_on_this_machine(home: Home, url: str) -> None:
    repository = home.repository("acme", catalog("acme", audit={"source": {"source": "url", "url": url}}))
    home.declare(repository)
    home.boot()
    elsewhere = "https://markets.example/acme.git"
    home.say("user", extraKnownMarketplaces={"acme": {"source": {"type": "git", "url": elsewhere}}})
    path = home.home / "known_marketplaces.json"
    path.write_text(path.read_text().replace(repository.url, elsewhere))
    with pytest.raises(ConfigValidationError) as caught:
        home.install(AUDIT)
    assert caught.value.code == "local_source"


@pytest.mark.anyio
@spec("R-SEC-12")
async def test_git_sends_the_password_of_a_url_without_having_it_in_its_words(home: Home, host: ArchiveHost) -> None:
    seen: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        commands = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]
        seen.append((request.headers.get("authorization", ""), "\n".join(commands)))
        return web.Response(status=403)

    host.answers["/x.git/info/refs"] = answer
    url = host.url.replace("http://", "http://me:s3cret@") + "/x.git"
    lost = (await boot(home, url)).losses["marketplace", "acme"]
    assert lost.category == "auth"
    assert "s3cret" not in lost.reason
    header, commands = seen[0]
    assert header == "Basic bWU6czNjcmV0"
    assert "x.git" in commands
    assert "s3cret" not in commands


@pytest.mark.anyio
@spec("R-SEC-1", "R-SEC-12")
@pytest.mark.parametrize(
    ("known", "tried"),
    [
        ("", ["", "s3cret:"]),
        ('[credential]\n\thelper = "!echo password=pw #"\n', ["", "s3cret:pw", "s3cret:"]),
    ],
)
async def test_git_sends_the_user_of_a_url_with_the_password_a_helper_knows_or_as_a_token(
    home: Home, host: ArchiveHost, known: str, tried: list[str]
) -> None:
    sent: list[str] = []
    commands: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        commands.extend(" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True))
        sent.append(base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode())
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})

    host.answers["/x.git/info/refs"] = answer
    (home.root / ".gitconfig").write_text(known)
    git = Git({"HOME": str(home.root), "PATH": os.environ["PATH"]}, 20.0)
    home.site = msgspec.structs.replace(home.site, git=git)
    lost = (await boot(home, host.url.replace("http://", "http://s3cret@") + "/x.git")).losses["marketplace", "acme"]
    assert (lost.category, "s3cret" in lost.reason) == ("auth", False)
    assert list(dict.fromkeys(sent)) == tried
    assert any("x.git" in command for command in commands)
    assert not any("s3cret" in command for command in commands)


@pytest.mark.anyio
async def test_a_fetch_tells_how_much_is_there_and_not_for_every_piece(home: Home, host: ArchiveHost) -> None:
    told: list[int] = []
    git = Git({}, 1.0)
    report: Any = lambda _what, _step, size: None if size is None else told.append(size)  # noqa: E731
    home.site = msgspec.structs.replace(home.site, git=git, report=report)
    await boot(home, host.drip("/slow.zip", b"x" * 100, 0.01))
    assert told == sorted(told)
    assert 1 <= len(told) <= 5
