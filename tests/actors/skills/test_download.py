"""Fetching archives: from where, how much, how long, and what may never be said."""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.skills.archive_url import check_archive_url, expected_sha256, redirect_target
from smcp_runtime.actors.skills.download import download
from smcp_runtime.actors.skills.limits import DownloadRules, StagingFailed

from .archive_host import ArchiveHost, archive_host
from .conftest import sha256

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

SECRET = "?X-Signature=canary-4711"


@pytest.fixture
async def host() -> AsyncIterator[ArchiveHost]:
    async with archive_host() as made:
        yield made


async def fetch(url: str, sha: str | None = None, *, local: bool = True, **rules: Any) -> bytes:
    target = io.BytesIO()
    with anyio.fail_after(10):
        await download(url, sha, target, DownloadRules(**rules), local=local)
    return target.getvalue()


async def fails(url: str, sha: str | None = None, **rules: Any) -> StagingFailed:
    with pytest.raises(StagingFailed) as caught:
        await fetch(url, sha, **rules)
    assert "canary" not in str(caught.value)
    return caught.value


class TestWhere:
    @spec("C-SKILL-32")
    @pytest.mark.parametrize(
        "url",
        [
            "https://example.org/a.zip",
            "https://10.0.0.1:8443/a",
            "http://127.0.0.1:80/a",
            "http://[::1]/a",
            "http://localhost/a",
        ],
    )
    def test_https_and_http_on_this_machine_are_permitted(self, url: str) -> None:
        check_archive_url(url, local=True, allow_insecure=False)

    @spec("C-SKILL-32", "C-SEC-16")
    @pytest.mark.parametrize(
        "url",
        [
            *("http://example.org/a", "http://10.0.0.1/a", "http://127.0.0.1.example.org/a", "http://0.0.0.0/a"),
            *(
                "file:///etc/passwd",
                "ftp://127.0.0.1/a",
                "data:,x",
                "//127.0.0.1/a",
                "127.0.0.1/a",
                "",
                "https://",
                "https:///a",
            ),
            *("https://user@example.org/a", "https://user:pw@example.org/a", "https://:pw@example.org/a"),
            *("http://127.0.0.1:99999/a", "http://[::1/a", "https://example.org/\n", "https://exa mple.org/a\0"),
        ],
    )
    def test_other_places_and_user_information_are_not(self, url: str) -> None:
        with pytest.raises(StagingFailed):
            check_archive_url(url, local=True, allow_insecure=False)

    @spec("C-SKILL-32")
    def test_the_option_permits_plain_http_elsewhere_and_nothing_more(self) -> None:
        check_archive_url("http://example.org/a", local=False, allow_insecure=True)
        for url in ("ftp://example.org/a", "http://u@example.org/a"):
            with pytest.raises(StagingFailed):
                check_archive_url(url, local=True, allow_insecure=True)

    @spec("C-SEC-16")
    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1/a", "https://localhost:9200/a", "https://[::1]/a", "https://127.8.9.1/a"]
    )
    def test_a_server_of_another_machine_may_not_name_this_one(self, url: str) -> None:
        with pytest.raises(StagingFailed):
            check_archive_url(url, local=False, allow_insecure=True)

    @spec("C-SKILL-32", "C-SEC-16")
    @pytest.mark.parametrize(
        ("url", "location", "target"),
        [
            ("https://a.org/x/y", "z", "https://a.org/x/z"),
            ("https://a.org/x", "//b.org/z", "https://b.org/z"),
            ("https://a.org/x", "http://b.org/z", None),
            ("https://a.org/x", "http://127.0.0.1/z", None),
            ("https://a.org/x", "https://localhost/z", None),
            ("https://a.org/x", "ftp://b.org/z", None),
            ("https://a.org/x", "file:///etc/passwd", None),
            ("https://a.org/x", "https://u:p@b.org/", None),
            ("https://a.org/x", "https://[", None),
            ("https://a.org/x", None, None),
            ("http://127.0.0.1/x", "/y", "http://127.0.0.1/y"),
            ("http://127.0.0.1/x", "http://b.org/", None),
        ],
    )
    def test_a_redirect_is_judged_by_the_same_rule_and_never_leads_home_from_elsewhere(
        self, url: str, location: str | None, target: str | None
    ) -> None:
        if target is None:
            with pytest.raises(StagingFailed):
                redirect_target(url, location, local=True, allow_insecure=False)
        else:
            assert redirect_target(url, location, local=True, allow_insecure=False) == target

    @spec("C-SEC-16")
    @given(st.text(max_size=60))
    def test_no_text_is_anything_but_permitted_or_refused(self, text: str) -> None:
        for url in (text, "https://" + text, "http://127.0.0.1" + text):
            try:
                check_archive_url(url, local=True, allow_insecure=False)
                redirect_target("https://a.org/", url, local=True, allow_insecure=False)
            except StagingFailed:
                continue


@spec("C-SKILL-31", "C-SKILL-34")
async def test_an_archive_arrives_byte_for_byte_and_its_hash_is_compared_in_any_case(host: ArchiveHost) -> None:
    data = bytes(range(256)) * 20_000
    host.files["/a"] = data
    assert await fetch(host.url + "/a", expected_sha256(sha256(data).upper())) == data
    failure = await fails(host.url + "/a", sha256(data + b"x"))
    assert "sha256" in str(failure)
    assert not failure.transfer


@spec("C-SKILL-34")
@pytest.mark.parametrize("value", ["", "abc", "g" * 64, "a" * 63, "a" * 65, 7, True, ["a" * 64], "é" * 64])
def test_a_declared_hash_must_be_64_hex_digits(value: Any) -> None:
    with pytest.raises(StagingFailed):
        expected_sha256(value)
    assert expected_sha256(None) is None
    assert expected_sha256("A" * 64) == "a" * 64


@spec("C-SKILL-32", "C-SEC-16")
async def test_redirects_are_followed_with_nothing_sent_along(host: ArchiveHost) -> None:
    host.files["/end"] = b"data"
    url = host.redirect("/one", "/two")
    host.redirect("/two", f"{host.url}/end{SECRET}", 308)
    assert await fetch(url) == b"data"
    assert [request.path_qs for request in host.requests] == ["/one", "/two", f"/end{SECRET}"]
    assert not any(
        {"Cookie", "Authorization", "Referer", "Proxy-Authorization"} & set(request.headers)
        for request in host.requests
    )


@spec("C-SKILL-32")
async def test_a_sixth_redirect_is_one_too_many(host: ArchiveHost) -> None:
    for n in range(10):
        host.redirect(f"/{n}", f"/{n + 1}")
    host.files["/10"] = b"data"
    assert await fetch(host.url + "/5") == b"data"
    assert "redirects" in str(await fails(host.url + "/4"))


@spec("C-SKILL-32", "C-SEC-16")
@pytest.mark.parametrize(
    "location", ["http://10.255.255.1/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://u:p@127.0.0.1/"]
)
async def test_a_redirect_to_a_forbidden_place_is_not_followed(host: ArchiveHost, location: str) -> None:
    failure = await fails(host.redirect("/a", location))
    assert not failure.transfer
    assert len(host.requests) == 1


@spec("C-SKILL-33")
@pytest.mark.parametrize("status", [201, 204, 206, 404, 500, 304])
async def test_any_status_but_200_fails(host: ArchiveHost, status: int) -> None:
    async def answer(_: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        return web.Response(status=status)

    host.answers["/a"] = answer
    failure = await fails(host.url + "/a")
    assert str(status) in str(failure)
    assert failure.transfer


@spec("C-SKILL-33", "C-SEC-14")
async def test_an_archive_above_the_limit_is_cut_off_declared_or_not(host: ArchiveHost) -> None:
    host.files["/exact"] = b"x" * 1_000
    assert len(await fetch(host.url + "/exact", size=1_000)) == 1_000
    assert "larger" in str(await fails(host.drip("/endless", b"x" * 100_000, 0), size=1_000_000))
    target = io.BytesIO()
    with pytest.raises(StagingFailed):
        await download(
            host.drip("/declared", b"x", 10, declare=5_000), None, target, DownloadRules(size=1_000), local=True
        )
    assert target.getvalue() == b""


@spec("C-SKILL-33", "C-GEN-14")
async def test_a_transfer_that_drips_ends_at_its_time_limit(host: ArchiveHost) -> None:
    failure = await fails(host.drip("/slow", b"x", 0.05), time=0.5)
    assert failure.transfer


@spec("C-SKILL-33", "C-SKILL-18")
async def test_a_place_that_does_not_answer_or_hangs_up_is_a_failed_transfer(host: ArchiveHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/a{SECRET}"
        assert (await fails(url, time=0.3)).transfer
    assert (await fails(url)).transfer

    async def hang_up(request: Any) -> Any:
        from aiohttp import web  # noqa: PLC0415

        response = web.StreamResponse()
        response.content_length = 100
        await response.prepare(request)
        await response.write(b"half")
        request.transport.close()
        return response

    host.answers["/half"] = hang_up
    assert (await fails(host.url + "/half")).transfer


@spec("C-SEC-16", "C-GEN-16")
async def test_the_query_of_a_url_is_in_no_log_and_no_error(
    host: ArchiveHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host.files["/a"] = b"data"
    host.redirect("/r", f"/a{SECRET}")
    assert await fetch(host.url + "/r" + SECRET) == b"data"
    await fails(host.url + "/missing" + SECRET)
    await fails(f"http://example.org/a{SECRET}")
    await fails(f"https://user:canary@example.org/a{SECRET}")
    # The test's own server logs its requests; nobody else may.
    said = [record for record in caplog.records if not record.name.startswith("aiohttp.access")]
    assert "canary" not in "\n".join(record.getMessage() for record in said)


@spec("C-SKILL-32")
async def test_neither_proxies_nor_credentials_of_the_environment_are_used(
    host: ArchiveHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login canary password canary\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("http_proxy", "http://canary:canary@127.0.0.1:9")
    host.files["/a"] = b"data"
    assert await fetch(host.url + "/a") == b"data"
    assert "Authorization" not in host.requests[0].headers
    assert host.requests[0].headers["Accept-Encoding"] == "identity"
