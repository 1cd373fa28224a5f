"""The git command, made harmless: it asks nobody, runs nothing of what it fetches, and ends in time. Blocking.

Urls were judged before they come here and follow `--`; protocols are limited by git's own
environment variable, which no configuration overrides (R-PLUGIN-7, R-SEC-12).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...wire.errors import AuthError, ConfigValidationError, NetworkError, SmcpError, StartupError
from ..reconcile.config.masking import mask_url
from .git_urls import is_git_url, is_ref, is_sha, over_https, protocols_of, without_credentials
from .transfer import Transfer
from .trees import MAX_BYTES, size_of

_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
)
_HARDENED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
_REFUSED = re.compile(
    r"authentication failed|could not read (?:username|password)|permission denied|terminal prompts disabled"
    r"|invalid credentials|returned error: 40[13]",
    re.IGNORECASE,
)
MAX_CLONE = 2 * MAX_BYTES
"""Bytes a clone may take: its files and its objects."""
_LOOK_EVERY = 0.1
Grown = Callable[[int], None]
_STDERR_KEPT = 4_096


class Git:
    """Fetches repositories.

    Args:
        environ: Where the few variables that git needs come from.
        timeout: Seconds for one operation.
        max_bytes: Size at which a fetch is given up.
    """

    def __init__(self, environ: Mapping[str, str], timeout: float, max_bytes: int = MAX_CLONE) -> None:
        self._environ = {name: environ[name] for name in _KEPT if name in environ} | _HARDENED
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._stopped = threading.Event()
        self._grown: Grown = lambda _: None

    def fetch(
        self, url: str, target: Path, *, ref: str | None = None, sha: str | None = None, grown: Grown = lambda _: None
    ) -> str:
        """Makes `target` a shallow clone without submodules; returns its commit. An ssh url gets a try over HTTPS.

        Args:
            grown: Told the size in bytes now and then.
        Raises:
            ConfigValidationError: The url, ref or commit is none git may be given.
            NetworkError, AuthError: It could not be fetched; `target` does not exist.
            StartupError: There is no git here (`git_missing`).
        """
        _check(url, ref, sha)
        self._grown = grown
        try:
            return self._fetch(url, target, ref, sha)
        except (NetworkError, AuthError):
            other = over_https(url)
            if other is None:
                raise
            return self._fetch(other, target, ref, sha)

    def advance(self, clone: Path, url: str, target: Path, *, grown: Grown = lambda _: None) -> str | None:
        """Makes `target` a clone like `clone`, moved forward to where the remote is; its commit.

        Returns:
            `None` when the remote is not ahead of it in a straight line, or that cannot be told; nothing is left then.
        Raises:
            NetworkError, AuthError: It could not be fetched; `target` does not exist.
        """
        _check(url, None, None)
        self._grown = grown
        before = self.head(clone)
        objects = clone / ".git/objects"
        if before is None or (objects / "info/alternates").exists() or size_of(objects) > self._max_bytes // 4:
            return None
        try:
            commit = self._advance(clone / ".git", before, url, target)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        if commit is None:
            shutil.rmtree(target, ignore_errors=True)
        return commit

    def again(self) -> Git:
        """One like this that was not stopped."""
        return Git(self._environ, self._timeout, self._max_bytes)

    def stop(self) -> None:
        """Ends what runs now and whatever would run later; for who waits in another thread."""
        self._stopped.set()

    def transfer(self, grown: Grown, *, local: bool) -> Transfer:
        """The bounds of a fetch that is none of git's."""
        return Transfer(self._environ, self._timeout, self._stopped.is_set, grown, local)

    def tip(self, url: str, ref: str | None = None) -> str | None:
        """The commit a remote is at; `None` when it does not say."""
        _check(url, ref, None)
        listed = self._run(["ls-remote", "--", url, ref or "HEAD"], None, url)
        first = listed.split(maxsplit=1)
        return first[0] if first and is_sha(first[0]) else None

    def head(self, tree: Path) -> str | None:
        """The commit a clone is at; `None` when it is none."""
        if not (tree / ".git").is_dir():
            return None
        try:
            said = self._run(["-C", str(tree), "rev-parse", "--verify", "HEAD"], None, "")
        except SmcpError:
            return None
        return said.strip() if is_sha(said.strip()) else None

    def _fetch(self, url: str, target: Path, ref: str | None, sha: str | None) -> str:
        try:
            if sha is None:
                self._clone(url, target, ref)
            else:
                self._fetch_commit(url, target, sha)
            commit = self.head(target)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        if commit is None or sha not in (None, commit):
            shutil.rmtree(target, ignore_errors=True)
            raise NetworkError(f"{mask_url(url)} has no commit to offer", code="empty_repository", retryable=False)
        return commit

    def _advance(self, known: Path, before: str, url: str, target: Path) -> str | None:
        self._run(["init", "--quiet", "--template=", "--", str(target)], target, "")
        inside, own = ["-C", str(target)], target / ".git"
        try:
            shutil.copytree(known / "objects", own / "objects", dirs_exist_ok=True, copy_function=_link)
            if (known / "shallow").is_file():
                shutil.copyfile(known / "shallow", own / "shallow")
            self._run([*inside, "update-ref", "refs/heads/former", before], None, "")
        except (OSError, NetworkError):
            return None  # somebody else replaces that clone just now
        fetch = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
        self._run([*inside, *fetch, "--", url, "HEAD"], target, url)
        commit = self._run([*inside, "rev-parse", "--verify", "FETCH_HEAD"], None, "").strip()
        try:
            self._run([*inside, "merge-base", "--is-ancestor", before, commit], None, "")
        except NetworkError:
            return None
        self._run([*inside, "checkout", "--quiet", "--detach", commit, "--"], target, "")
        return commit

    def _clone(self, url: str, target: Path, ref: str | None) -> None:
        branch = [] if ref is None else ["--branch", ref]
        flags = ["--depth", "1", "--single-branch", "--no-tags", "--template=", "--no-recurse-submodules"]
        self._run(["clone", "--quiet", *flags, *branch, "--", url, str(target)], target, url)

    def _fetch_commit(self, url: str, target: Path, sha: str) -> None:
        self._run(["init", "--quiet", "--template=", "--", str(target)], target, url)
        inside = ["-C", str(target)]
        fetch = [*inside, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
        try:
            self._run([*fetch, "--depth", "1", "--", url, sha], target, url)
        except NetworkError:
            # Not every host hands out a commit by its name.
            self._run([*fetch, "--", url, "+refs/heads/*:refs/remotes/origin/*"], target, url)
        self._run([*inside, "checkout", "--quiet", "--detach", sha, "--"], target, url)

    def _run(self, words: Sequence[str], growing: Path | None, url: str) -> str:
        """Runs git; returns its output.

        Args:
            growing: The directory whose size is watched.
        """
        shown, (*others, last) = without_credentials(url)
        words = [shown if word == url else word for word in words]
        for named in others:
            with suppress(AuthError):
                return self._run_as(named, words, growing, url)
        return self._run_as(last, words, growing, url)

    def _run_as(self, named: Mapping[str, str], words: Sequence[str], growing: Path | None, url: str) -> str:
        command = ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *words]
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=complaints,
                    env={**self._environ, **named, "GIT_ALLOW_PROTOCOL": protocols_of(url) if url else "none"},
                    cwd=os.path.abspath(os.sep),
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise StartupError("git is not installed", code="git_missing") from None
            try:
                self._wait(process, growing, url)
            finally:
                _end(process)
            if process.returncode:
                complaints.seek(0)
                raise _failure(url, complaints.read(_STDERR_KEPT).decode(errors="replace"))
            said.seek(0)
            return said.read(1024 * 1024).decode(errors="replace")

    def _wait(self, process: subprocess.Popen[bytes], growing: Path | None, url: str) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                process.wait(min(_LOOK_EVERY, max(0.0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                if self._stopped.is_set():
                    raise NetworkError(f"{mask_url(url)} was given up", code="interrupted") from None
                if growing is not None:
                    size = size_of(growing)
                    self._grown(size)
                    if size > self._max_bytes:
                        raise ConfigValidationError(f"{mask_url(url)} is too large", code="too_large") from None
                if time.monotonic() >= deadline:
                    limit = f"{self._timeout:g} s"
                    raise NetworkError(f"{mask_url(url)} took longer than {limit}", code="fetch_timeout") from None
                continue
            if growing is not None and size_of(growing) > self._max_bytes:
                raise ConfigValidationError(f"{mask_url(url)} is too large", code="too_large")
            return


def _check(url: str, ref: str | None, sha: str | None) -> None:
    if not is_git_url(url):
        raise ConfigValidationError("that is no git url this runtime fetches from", code="bad_git_url", field="url")
    if ref is not None and not is_ref(ref):
        raise ConfigValidationError("that cannot name a branch or tag", code="bad_ref", field="ref")
    if sha is not None and not is_sha(sha):
        raise ConfigValidationError("that is no full commit", code="bad_sha", field="sha")


def _failure(url: str, complaint: str) -> SmcpError:
    """What git complained of, by class; its words may quote credentials and are left out."""
    if _REFUSED.search(complaint):
        return AuthError(f"{mask_url(url)} refused to be read", code="fetch_refused")
    return NetworkError(f"{mask_url(url)} could not be fetched", code="fetch_failed")


def _link(source: str, target: str) -> None:
    """Objects never change, so that two clones may share them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
