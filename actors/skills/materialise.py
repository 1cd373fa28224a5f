"""Makes the package of one root in a fresh directory, in the mode its server asks for (C-SKILL-17, C-SKILL-18).

Async around blocking work in threads. A thread whose result nobody waits for any more stops at
its next step and deletes what it wrote, so that nothing of an interrupted package remains.
"""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec

from ...bus.deferred import Deferred
from . import archive, contents, mounted
from .archive_url import expected_sha256
from .frontmatter import BadFrontmatter, head_bytes
from .limits import DownloadRules, PackageLimits, StagingFailed, Stop
from .manifest import Manifest, Say, read_manifest
from .package_writer import PackageWriter
from .publish import discard
from .roots import Root, SubResource
from .workspace import Workspace

T = TypeVar("T")

ENTRY: Final = "SKILL.md"
ReadResource = Callable[[str], Awaitable[bytes]]
"""Reads a resource of the server the root belongs to; its content blocks as a JSON array."""


class StagingRules(msgspec.Struct, frozen=True):
    """Limits and options of staging. Times in seconds.

    Attributes:
        work_time: Copying or unpacking one package.
        reading_time: Reading all files of one package in resources mode.
    """

    limits: PackageLimits = PackageLimits()
    mounts: mounted.MountRules = mounted.MountRules()
    downloads: DownloadRules = DownloadRules()
    parallel_reads: int = 4
    work_time: float = 60.0
    reading_time: float = 300.0
    tls: Any = None


class Package(msgspec.Struct, frozen=True):
    """A finished package that is not published yet.

    Attributes:
        directory: Its root; inside `scrap`, which is to be discarded once the package has left it.
        content: Equal for packages with equal files.
        notes: What was left out.
    """

    directory: str
    scrap: str
    content: bytes
    manifest: Manifest
    notes: tuple[str, ...] = ()


class Materialiser:
    """Makes packages.

    Args:
        threads: Bounds how many work at once.
    """

    def __init__(self, rules: StagingRules, threads: anyio.CapacityLimiter) -> None:
        self._rules = rules
        self._threads = threads

    async def package(self, root: Root, workspace: Workspace, read: ReadResource, say: Say, *, local: bool) -> Package:
        """The package of a root.

        Args:
            local: Whether the server runs on this machine.
        Raises:
            StagingFailed: It cannot be made; nothing is left of it.
        """
        target = workspace.fresh()
        with _disk_trouble():
            match root.mode:
                case "mounted":
                    made = await self._mounted(root, target, local=local)
                case "archive":
                    made = await self._archive(root, target, workspace.fresh(".archive"), local=local)
                case "resources":
                    made = await self._resources(root.files, target, read)
            return await self._inspect(root, target, made, say)

    async def _mounted(self, root: Root, target: str, *, local: bool) -> tuple[bytes, tuple[str, ...]]:
        def copy(writer: PackageWriter) -> tuple[str, ...]:
            real = mounted.mount_directory(root.meta.get("mount_dir"), self._rules.mounts, local=local)
            return mounted.copy_mount(real, writer)

        return await self._write(target, copy, "copying the mount")

    async def _archive(self, root: Root, target: str, file: str, *, local: bool) -> tuple[bytes, tuple[str, ...]]:
        url, form = root.meta.get("archive_uri"), root.meta.get("archive_format")
        if not isinstance(url, str):
            raise StagingFailed("archive_uri is no text")
        if form not in archive.FORMATS:
            raise StagingFailed("archive_format is neither tar.gz nor zip")
        sha256 = expected_sha256(root.meta.get("archive_sha256"))

        def unpack(writer: PackageWriter) -> tuple[str, ...]:
            archive.unpack(file, cast(archive.Format, form), writer, self._rules.limits)
            return ()

        try:
            with await anyio.to_thread.run_sync(_create, file, limiter=self._threads) as arriving:
                download = await _download.get()
                await download(
                    url, sha256, arriving, self._rules.downloads, local=local, tls=cast(ssl.SSLContext, self._rules.tls)
                )
            return await self._write(target, unpack, "unpacking the archive")
        finally:
            discard(file)

    async def _resources(
        self, files: tuple[SubResource, ...], target: str, read: ReadResource
    ) -> tuple[bytes, tuple[str, ...]]:
        paths = contents.file_paths(files, self._rules.limits)
        stop = Stop(self._rules.reading_time, "reading the resources")
        writer = await self._in_thread(stop, PackageWriter, target, self._rules.limits, stop)
        places = anyio.Semaphore(self._rules.parallel_reads)
        one_at_a_time = anyio.Lock()
        failures: list[Exception] = []

        async def fetch(parts: tuple[str, ...], uri: str) -> None:
            async with places:
                try:
                    blocks = contents.content_bytes(await read(uri))
                    async with one_at_a_time:
                        await self._in_thread(stop, writer.file, parts, blocks)
                except (StagingFailed, OSError) as failure:
                    failures.append(failure)
                    tasks.cancel_scope.cancel()

        try:
            with anyio.move_on_after(self._rules.reading_time) as limit:
                async with anyio.create_task_group() as tasks:
                    for parts, uri in paths:
                        tasks.start_soon(fetch, parts, uri)
            if failures:
                raise failures[0]
            if limit.cancelled_caught:
                stop.check()
        except BaseException:
            await self._discard(target)
            raise
        return writer.fingerprint(), ()

    async def _write(
        self, target: str, fill: Callable[[PackageWriter], tuple[str, ...]], what: str
    ) -> tuple[bytes, tuple[str, ...]]:
        stop = Stop(self._rules.work_time, what)

        def work() -> tuple[bytes, tuple[str, ...]]:
            try:
                writer = PackageWriter(target, self._rules.limits, stop)
                notes = fill(writer)
                # Whoever gave up may have looked for leftovers already.
                stop.check()
            except BaseException:
                discard(target)
                raise
            return writer.fingerprint(), notes

        return await self._in_thread(stop, work)

    async def _inspect(self, root: Root, target: str, made: tuple[bytes, tuple[str, ...]], say: Say) -> Package:
        def look() -> tuple[str, Manifest]:
            directory = archive.package_root(target) if root.mode == "archive" else target
            if not archive.has_entry_file(directory):
                raise StagingFailed(archive.NO_ENTRY)
            return directory, read_entry(os.path.join(directory, ENTRY), say)

        try:
            directory, manifest = await anyio.to_thread.run_sync(look, limiter=self._threads)
        except BaseException:
            await self._discard(target)
            raise
        return Package(directory, target, made[0], manifest, made[1])

    async def _in_thread(self, stop: Stop, function: Callable[..., T], *arguments: object) -> T:
        try:
            return await anyio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=self._threads)
        except anyio.get_cancelled_exc_class():
            stop.give_up()
            raise

    async def _discard(self, target: str) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(discard, target)


def _import_download() -> Callable[..., Awaitable[None]]:
    from .download import download  # noqa: PLC0415 - brings aiohttp, which only archives need

    return download


_download = Deferred(_import_download)


def _create(path: str) -> BinaryIO:
    return open(path, "xb")


def read_entry(path: str, say: Say) -> Manifest:
    """The manifest of a SKILL.md that lies in a package of ours.

    Raises:
        StagingFailed: Its header cannot be used.
        OSError: It cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(head_bytes())
    try:
        return read_manifest(head, say)
    except BadFrontmatter as bad:
        raise StagingFailed(f"SKILL.md: {bad}") from None


@contextmanager
def _disk_trouble() -> Iterator[None]:
    """Says of trouble with the disk what it is, without the paths in its text."""
    try:
        yield
    except OSError as error:
        what = errno.errorcode.get(error.errno or 0, type(error).__name__)
        raise StagingFailed(f"the disk does not take the package: {what}", transfer=True) from None
