"""A library whose import takes long, brought when it is first needed and not before.

A thread imports it, so that the event loop goes on meanwhile; what a server or a network needs of time passes
beside it. Not asyncio's own threads: those are bounded, and others wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

_one_import = Lock()
"""Threads that import modules of one library at once can meet them half made."""


class Deferred(Generic[T]):
    """What an import brings; one for the process, whoever asks for it.

    Args:
        bring: Imports it and returns it.
    """

    def __init__(self, bring: Callable[[], T]) -> None:
        self._bring = bring
        self._begin = Lock()
        self._brought: Future[T] | None = None

    async def get(self) -> T:
        """The thing itself.

        Raises:
            Exception: Whatever its import raises, each time anew.
        """
        return await asyncio.shield(asyncio.wrap_future(self._begun()))

    def _begun(self) -> Future[T]:
        with self._begin:
            if self._brought is None:
                of_its_own = ThreadPoolExecutor(1, thread_name_prefix="import")
                self._brought = of_its_own.submit(self._alone)
                of_its_own.shutdown(wait=False)
            return self._brought

    def _alone(self) -> T:
        with _one_import:
            return self._bring()
