"""The upload desk: carries the decisions about chunks out on the landing root, one chunk of a session at a time."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from ...wire.blobs import PutBlobRet
from ...wire.errors import PeerError
from ...wire.payload import upload_refused
from .landing import LandingRoot, Part, has_staging
from .uploads import Declaration, Refusal, Session, UploadLimits, first_chunk, later_chunk

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _Open:
    """A session, its file, and the lock that keeps its chunks in order (C-UP-30)."""

    def __init__(self, session: Session, part: Part) -> None:
        self.session = session
        self.part = part
        self.lock = anyio.Lock()


class UploadDesk:
    """All open uploads of a Computer.

    Args:
        landing_root: The configured root; asked while none is resolved, then fixed for the run (C-UP-32).
        clock: Monotonic seconds.
        threads: Bound of the worker threads.
    """

    def __init__(
        self,
        limits: UploadLimits,
        landing_root: Callable[[], str | None],
        clock: Callable[[], float],
        threads: anyio.CapacityLimiter,
    ) -> None:
        self._limits = limits
        self._landing_root = landing_root
        self._clock = clock
        self._threads = threads
        self._root: LandingRoot | None = None
        self._former_root: LandingRoot | None = None
        self._opening = anyio.Lock()
        self._open: dict[str, _Open] = {}
        self._starting = 0
        self._discards = 0

    async def receive(self, request: Mapping[str, Any], *, agent: str, office: str) -> PutBlobRet:
        """Takes one chunk in.

        Raises:
            PeerError: A 4019 payload with the reason.
        """
        if request.get("upload_id") is None:
            return await self._first(request, agent, office)
        return await self._later(request, agent, office)

    async def discard(self) -> None:
        """Ends all sessions and removes their part files; a chunk in work is written first (C-UP-27).

        An upload whose first chunk is in work and which has no session yet gets none.
        """
        self._discards += 1
        await self._end_those(lambda _: True)

    async def expire(self) -> None:
        """Ends sessions that are idle or too old, and landed files that are due; runs for ever, the owner's task.

        Begins with what an earlier life left behind, and looks again when even its last chunk is old (C-UP-29).
        """
        look_at = self._clock()
        while True:
            if self._root is None or self._clock() >= look_at:
                look_at = self._clock() + self._limits.idle
                await self._collect()
            await anyio.sleep(min(5.0, self._limits.idle / 4))
            await self._end_those(lambda session: session.expired(self._clock(), self._limits))
            if self._root is not None and self._limits.finished_kept is not None:
                await self._in_thread(self._root.expire, self._limits.finished_kept)

    async def close(self) -> None:
        """Ends everything and gives the landing root back."""
        await self.discard()
        for root in (self._root, self._former_root):
            if root is not None:
                root.close()
        self._root = self._former_root = None

    # -- inside -----------------------------------------------------------------------

    async def _first(self, request: Mapping[str, Any], agent: str, office: str) -> PutBlobRet:
        discards = self._discards
        root = await self._usable_root()
        verdict = first_chunk(request, self._limits, len(self._open) + self._starting)
        if isinstance(verdict, Refusal):
            raise upload_refused(verdict.reason, total_size=verdict.total_size).to_error()
        self._starting += 1
        try:
            one = await self._begin(root, verdict, agent, office, discards)
        finally:
            self._starting -= 1
        async with one.lock:
            return await self._append(one, verdict.chunk, eof=verdict.eof)

    async def _begin(self, root: LandingRoot, verdict: Declaration, agent: str, office: str, discards: int) -> _Open:
        upload_id = uuid.uuid4().hex
        await self._in_thread(root.collect, set(self._open), self._limits.idle)
        try:
            part = await self._in_thread(root.begin, upload_id)
        except OSError:
            raise upload_refused("forbidden").to_error() from None
        room = await self._in_thread(root.room)
        if room is not None and room < verdict.total_size:
            await self._in_thread(part.discard)
            raise upload_refused("io_error").to_error()
        if discards != self._discards:
            # Everything was discarded since this chunk came, and what it began belongs to that.
            await self._in_thread(part.discard)
            raise upload_refused("invalid_upload").to_error()
        now = self._clock()
        session = Session(upload_id, agent, office, verdict.total_size, verdict.sha256, verdict.hint, now, now)
        one = self._open[upload_id] = _Open(session, part)
        return one

    async def _later(self, request: Mapping[str, Any], agent: str, office: str) -> PutBlobRet:
        upload_id = request.get("upload_id")
        one = self._open.get(upload_id) if isinstance(upload_id, str) else None
        if one is None or (one.session.agent, one.session.office) != (agent, office):
            raise upload_refused("invalid_upload").to_error()
        async with one.lock:
            if one.session.expired(self._clock(), self._limits):
                await self._end(one)
            if self._open.get(one.session.upload_id) is not one:
                raise upload_refused("invalid_upload").to_error()
            verdict = later_chunk(request, one.session)
            if isinstance(verdict, Refusal):
                if verdict.ends:
                    await self._end(one)
                raise upload_refused(verdict.reason, one.session.upload_id).to_error()
            return await self._append(one, verdict.data, eof=verdict.eof)

    async def _append(self, one: _Open, data: bytes, *, eof: bool) -> PutBlobRet:
        session = one.session
        offset = session.received
        try:
            await self._in_thread(one.part.write, data)
            session.received += len(data)
            if data:
                session.renewed_at = self._clock()
            if not eof:
                return PutBlobRet(upload_id=session.upload_id, chunk_offset=offset, req_id="")
            if one.part.digest() != session.sha256:
                raise upload_refused("integrity", session.upload_id).to_error()
            final: Path = await self._in_thread(one.part.finish, session.hint)
        except OSError as error:
            logger.warning("an upload could not be written: %s", error.strerror)
            await self._end(one)
            raise upload_refused("io_error", session.upload_id).to_error() from None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end(one)
            raise
        del self._open[session.upload_id]
        return PutBlobRet(
            upload_id=session.upload_id,
            chunk_offset=offset,
            req_id="",
            landing_path=str(final),
            total_size=session.received,
            sha256=session.sha256,
        )

    async def _end_those(self, which: Callable[[Session], bool]) -> None:
        for one in [one for one in self._open.values() if which(one.session)]:
            async with one.lock:
                await self._end(one)

    async def _end(self, one: _Open) -> None:
        if self._open.pop(one.session.upload_id, None) is not None:
            await self._in_thread(one.part.discard)

    async def _collect(self) -> None:
        """Deletes parts nobody writes to any more; a root without any is neither opened nor made for it."""
        configured = self._landing_root()
        if self._root is None and configured is not None and await self._in_thread(has_staging, configured):
            with contextlib.suppress(PeerError):
                await self._usable_root()
        if self._root is not None:
            with contextlib.suppress(OSError):
                await self._in_thread(self._root.collect, set(self._open), self._limits.idle)

    async def _usable_root(self) -> LandingRoot:
        """The opened root. Whatever is wrong with it, the Agent hears only that uploads are forbidden (C-UP-4)."""
        async with self._opening:
            if self._root is not None and await self._in_thread(self._root.is_gone):
                await self._part_with(self._root)
            if self._root is None:
                configured = self._landing_root()
                if configured is None:
                    logger.warning("an upload was refused: landingRoot is not set in the settings")
                    raise upload_refused("forbidden").to_error()
                try:
                    self._root = await self._in_thread(LandingRoot, configured)
                except OSError as error:
                    logger.warning("an upload was refused: landingRoot cannot be used: %s", error.strerror)
                    raise upload_refused("forbidden").to_error() from None
            return self._root

    async def _part_with(self, root: LandingRoot) -> None:
        """Scratch space gets swept or moved away: what was being written went with it, and the next upload begins anew.

        A thread may still use its handles, so they are given back when it is the next one's turn.
        """
        logger.warning("the landing root was deleted or replaced; the one at its path is used from now on")
        await self._end_those(lambda _: True)
        former, self._former_root, self._root = self._former_root, root, None
        if former is not None:
            former.close()

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=self._threads)
