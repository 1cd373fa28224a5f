"""Answers about one file of a skill: `client:get_skill`, and the bytes behind a handle of it.

Each step repeats every check; what differs is only the code in which a refusal travels
(C-SKILL-59…65, C-BLOB-8, C-BLOB-16).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import anyio.to_thread

from ...wire import payload
from ...wire.base import to_json
from ...wire.codec import Attachment
from ...wire.envelope import Address
from ...wire.errors import DeadlineExceeded, PeerError
from ...wire.messages.blobs import MintHandle
from ...wire.messages.channels import BlobSlice, BlobSource, ReadSkillBytes
from ...wire.messages.skills import GetSkillFile, SkillFile
from ...wire.skill_name import skill_kind
from ...wire.skills import SKILL_ENTRY
from .reader import Described, OutOfRange, Reader
from .registry import Entry
from .rel_path import Refused
from .staging import Asker

BLOBS: Final = Address("blobs")
ECHO_MAX: Final = 65_536
"""Characters of a request that an error repeats; no valid name or path is nearly as long."""


class FileAnswers:
    """Reads files for Agents.

    Args:
        find: The entry of a name, once it can be known.
        threads: Bounds concurrent reads.
        limit: Seconds one answer may take.
        slice_max: Largest slice in bytes.
    """

    def __init__(
        self,
        reader: Reader,
        find: Callable[[str], Awaitable[Entry | None]],
        ask: Asker,
        threads: anyio.CapacityLimiter,
        *,
        limit: float,
        slice_max: int,
    ) -> None:
        self._reader = reader
        self._find = find
        self._ask = ask
        self._threads = threads
        self._limit = limit
        self._slice_max = slice_max

    async def file(self, message: GetSkillFile) -> SkillFile:
        """One file: its text, or a handle for its bytes.

        Raises:
            PeerError: 4016, 4014 or 4017.
        """
        if skill_kind(message.name) is None:
            raise payload.invalid_skill_name(message.name[:ECHO_MAX]).to_error()
        requested = message.rel_path or SKILL_ENTRY
        try:
            with anyio.fail_after(self._limit):
                return await self._file(message.name, requested)
        except (TimeoutError, DeadlineExceeded):
            raise _refused("not_found", requested) from None

    async def slice(self, message: ReadSkillBytes) -> BlobSlice:
        """A slice of a file's resource bytes.

        Raises:
            PeerError: 4018.
        """
        try:
            with anyio.fail_after(self._limit):
                return await self._slice(message)
        except TimeoutError:
            raise payload.blob_refused("gone").to_error() from None

    async def _file(self, name: str, requested: str) -> SkillFile:
        entry = await self._find(name)
        if entry is None or entry.orphan:
            raise payload.skill_not_found(name).to_error()
        try:
            found: Described = await anyio.to_thread.run_sync(
                self._reader.describe, entry.ref.path, requested, abandon_on_cancel=True, limiter=self._threads
            )
        except Refused as refused:
            raise _refused(refused.reason, requested, refused.total_size) from None
        except OSError:
            raise _refused("not_found", requested) from None
        fields: dict[str, Any] = {
            "name": name,
            "rel_path": requested,
            "mime_type": found.mime_type,
            "total_size": found.total_size,
            "sha256": found.sha256,
        }
        if found.body is not None:
            fields["body"] = found.body
        else:
            fields["blob_handle"] = await self._handle(name, found)
        return SkillFile(Attachment(to_json(fields)))

    async def _handle(self, name: str, found: Described) -> str:
        source = BlobSource("s", name, "/".join(found.parts), mime_type=found.mime_type)
        return (await self._ask(BLOBS, MintHandle(source, found.total_size, found.sha256))).handle

    async def _slice(self, message: ReadSkillBytes) -> BlobSlice:
        entry = await self._find(message.name)
        if entry is None:
            raise payload.blob_refused("gone").to_error()
        if entry.orphan:
            raise payload.blob_refused("forbidden").to_error()
        length = max(0, min(message.length, self._slice_max))
        try:
            found = await anyio.to_thread.run_sync(
                self._reader.slice,
                entry.ref.path,
                message.rel_path,
                message.offset,
                length,
                abandon_on_cancel=True,
                limiter=self._threads,
            )
        except OutOfRange as beyond:
            raise payload.blob_refused("range", beyond.total_size).to_error() from None
        except Refused as refused:
            raise payload.blob_refused("gone" if refused.reason == "not_found" else "forbidden").to_error() from None
        except OSError:
            raise payload.blob_refused("gone").to_error() from None
        return BlobSlice(Attachment(found.data), found.mime_type, found.total_size, found.sha256)


def _refused(reason: str, requested: str, total_size: int | None = None) -> PeerError:
    return payload.skill_resource_refused(reason, requested[:ECHO_MAX], total_size).to_error()
