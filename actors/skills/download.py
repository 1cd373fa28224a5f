"""Fetching an archive: streamed to disk with a hash, within its size and time, and nothing sent that could tell.

aiohttp, because it logs no URL: those of archives often carry a signature that is as good as a password.
Spec: C-SKILL-32…34, C-SEC-16.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

import aiohttp
import anyio
import anyio.to_thread
from yarl import URL

from .archive_url import check_archive_url, redirect_target
from .limits import DownloadRules, StagingFailed

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HEADERS: Final = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "smcp-runtime"}
_PIECE: Final = 65_536
BATCH: Final = 1_048_576
"""Bytes gathered before they are written, so that a fast line does not cost a thread for every packet."""


async def download(
    url: str,
    sha256: str | None,
    target: BinaryIO,
    rules: DownloadRules,
    *,
    local: bool,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Writes what is at `url` to `target`.

    Args:
        sha256: From `expected_sha256`; compared before anything is made of the bytes.
        local: As in `check_archive_url`.
        tls: Instead of the usual trust in certificates.
    Raises:
        StagingFailed: It is not permitted, not there, too large, too slow, or not what was declared.
        OSError: The disk does not take it.
    """
    origin = check_archive_url(url, local=local, allow_insecure=rules.allow_insecure)
    with anyio.move_on_after(rules.time) as limit:
        try:
            found = await _follow(url, target, rules, local, tls)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise StagingFailed(f"{origin} could not be read: {type(error).__name__}", transfer=True) from None
    if limit.cancelled_caught:
        raise StagingFailed(f"{origin} took longer than {rules.time:g} s", transfer=True)
    if sha256 is not None and found != sha256:
        raise StagingFailed("the archive does not have the declared sha256")


async def _follow(url: str, target: BinaryIO, rules: DownloadRules, local: bool, tls: ssl.SSLContext | None) -> str:
    """The hash of what was written, after as many redirects as are allowed."""
    # No cookies are kept, and neither proxies nor a netrc are taken from the environment: both can hold credentials.
    timeout = aiohttp.ClientTimeout(total=rules.time, sock_connect=rules.connect_time)
    async with aiohttp.ClientSession(
        timeout=timeout, headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:
        for _ in range(rules.redirects + 1):
            # A signed URL holds only as long as nobody quotes it anew.
            async with session.get(URL(url, encoded=True), allow_redirects=False, ssl=tls or True) as response:
                if response.status in _REDIRECTS:
                    location = response.headers.get("location")
                    url = redirect_target(url, location, local=local, allow_insecure=rules.allow_insecure)
                    continue
                if response.status != 200:
                    raise StagingFailed(f"the archive is answered with status {response.status}", transfer=True)
                if (response.content_length or 0) > rules.size:
                    raise StagingFailed(f"the archive is larger than {rules.size} bytes")
                return await _store(response.content.iter_chunked(_PIECE), target, rules.size)
    raise StagingFailed(f"more than {rules.redirects} redirects", transfer=True)


async def _store(chunks: AsyncIterator[bytes], target: BinaryIO, size: int) -> str:
    digest = hashlib.sha256()
    batch = bytearray()
    total = 0

    async def flush() -> None:
        def write(data: bytes) -> None:
            digest.update(data)
            target.write(data)

        await anyio.to_thread.run_sync(write, bytes(batch))
        batch.clear()

    async for chunk in chunks:
        total += len(chunk)
        if total > size:
            raise StagingFailed(f"the archive is larger than {size} bytes")
        batch += chunk
        if len(batch) >= BATCH:
            await flush()
    await flush()
    return digest.hexdigest()
