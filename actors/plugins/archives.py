"""Archives as sources: fetched within caps, unpacked all or nothing, like a directory from there on. Blocking.

Where one may come from and what may be in it are the rules of skill archives (C-SKILL-32…38). httpx2's transport is
used without its client, which logs urls: those of archives may carry a token. Cookies, credentials of a netrc and
redirects that nobody looked at do not exist there either.
"""

from __future__ import annotations

import hashlib
import shutil
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, cast
from urllib.parse import urlsplit

import httpx2

from ...wire.errors import ConfigValidationError, NetworkError
from ...wire.loopback import is_loopback
from ..skills.archive import unpack
from ..skills.archive_url import check_archive_url, redirect_target
from ..skills.limits import PackageLimits, StagingFailed, Stop
from ..skills.package_writer import PackageWriter
from .git_urls import local_path
from .transfer import Form, Transfer
from .trees import MAX_BYTES, MAX_DEPTH, MAX_FILES, copy_tree

MAX_ARCHIVE = 64 * 1024 * 1024
MAX_REDIRECTS = 5
CONNECT_LIMIT = 10.0
SILENCE_LIMIT = 20.0
"""Seconds without a byte."""
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HEADERS: Final = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "smcp-runtime"}
_OWN_FOLDERS: Final = frozenset({".tfrobot-plugin", "plugins", "skills", "mcp-servers"})


def fetch_archive(url: str, form: Form, target: Path, transfer: Transfer) -> str:
    """Makes `target` the tree in an archive; a digest of the archive, in place of a commit.

    An archive that holds nothing but one directory is what is in that directory.

    Raises:
        ConfigValidationError: The url may not be used (`bad_archive_url`), or the archive is refused (`bad_archive`).
        NetworkError: It could not be fetched; `target` does not exist.
    """
    place = target.with_name(f"{target.name}.archive")
    place.mkdir(mode=0o700)
    stop = _Stop(transfer, "the archive")
    local = local_path(url)
    try:
        if local is not None:
            packed = Path(local)
            digest = _digest_of(packed)
        else:
            packed = place / "packed"
            with packed.open("xb") as file:
                digest = _download(url, file, transfer, stop)
        limits = PackageLimits(MAX_ARCHIVE, MAX_BYTES, MAX_FILES, MAX_DEPTH)
        unpack(str(packed), form, PackageWriter(str(place / "tree"), limits, stop), limits)
        copy_tree(_root_of(place / "tree"), target)
    except StagingFailed as failed:
        shutil.rmtree(target, ignore_errors=True)
        if failed.transfer:
            raise NetworkError(str(failed), code="fetch_failed") from None
        raise ConfigValidationError(str(failed), code="bad_archive") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return f"archive-{digest[:40]}"


class _Stop(Stop):
    """Also ends work that nobody waits for any more."""

    def __init__(self, transfer: Transfer, what: str) -> None:
        super().__init__(transfer.timeout, what)
        self._is_stopped = transfer.is_stopped

    def check(self) -> None:
        if self._is_stopped():
            self.give_up()
        super().check()


def _digest_of(packed: Path) -> str:
    try:
        if not packed.is_file() or packed.stat().st_size > MAX_ARCHIVE:
            raise StagingFailed(f"the archive is no file of at most {MAX_ARCHIVE} bytes")
        with packed.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StagingFailed(f"the archive cannot be read: {error.strerror}", transfer=True) from None


def _download(url: str, file: BinaryIO, transfer: Transfer, stop: Stop) -> str:
    """Follows redirects to the archive and writes it; its digest."""
    ends = time.monotonic() + transfer.timeout
    for _ in range(MAX_REDIRECTS + 1):
        try:
            origin = check_archive_url(url, local=transfer.local, allow_insecure=False)
        except StagingFailed as failed:
            raise ConfigValidationError(str(failed), code="bad_archive_url", field="url") from None
        stop.check()
        silence = max(0.1, min(SILENCE_LIMIT, ends - time.monotonic()))
        limits = {"connect": min(CONNECT_LIMIT, silence), "read": silence, "write": silence, "pool": silence}
        request = httpx2.Request("GET", url, headers=_HEADERS, extensions={"timeout": limits})
        try:
            with _transport(url, transfer.environ) as transport:
                response = transport.handle_request(request)
                try:
                    if response.status_code in _REDIRECTS:
                        location = response.headers.get("location")
                        url = redirect_target(url, location, local=transfer.local, allow_insecure=False)
                        continue
                    if response.status_code != 200:
                        reason = f"{origin} answers with status {response.status_code}"
                        raise StagingFailed(reason, transfer=True)
                    return _store(cast(Iterator[bytes], response.stream), file, transfer, stop)
                finally:
                    response.close()
        except (httpx2.HTTPError, httpx2.StreamError, ValueError) as error:
            raise StagingFailed(f"{origin} could not be read: {type(error).__name__}", transfer=True) from None
    raise StagingFailed(f"more than {MAX_REDIRECTS} redirects", transfer=True)


def _store(pieces: Iterator[bytes], file: BinaryIO, transfer: Transfer, stop: Stop) -> str:
    digest, total = hashlib.sha256(), 0
    for piece in pieces:
        stop.check()
        total += len(piece)
        if total > MAX_ARCHIVE:
            raise StagingFailed(f"the archive is larger than {MAX_ARCHIVE} bytes")
        digest.update(piece)
        file.write(piece)
        transfer.grown(total)
    return digest.hexdigest()


def _transport(url: str, environ: Mapping[str, str]) -> httpx2.HTTPTransport:
    host = urlsplit(url).hostname or ""
    proxy = environ.get("https_proxy") or environ.get("HTTPS_PROXY")
    direct = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if url.startswith("http:") or is_loopback(host) or goes_direct(host, direct):
        proxy = None
    trust = ssl.create_default_context(cafile=environ.get("SSL_CERT_FILE"), capath=environ.get("SSL_CERT_DIR"))
    return httpx2.HTTPTransport(verify=trust, proxy=proxy)


def goes_direct(host: str, exceptions: str) -> bool:
    """Whether a host is among those for which no proxy is to be used: `*`, names, and domains they end in. Pure."""
    names = (one.strip().lstrip(".").lower() for one in exceptions.split(","))
    return any(name and (name == "*" or host.lower() == name or host.lower().endswith("." + name)) for name in names)


def _root_of(tree: Path) -> Path:
    """Where the content begins: hosts pack a repository into one directory named after it."""
    entries = list(tree.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and entries[0].name not in _OWN_FOLDERS:
        return entries[0]
    return tree
