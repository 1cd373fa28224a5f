"""`ops`: the actor that owns the operator endpoint. When it dies its listener dies with it, and is opened again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskStatus

from ...bus.deferred import Deferred
from ...wire.errors import StartupError
from ..kernel import Actor
from .access import Access, split
from .operations import Operations

logger = logging.getLogger(__name__)


class OpsActor(Actor):
    """Takes no messages.

    Args:
        endpoint: `HOST:PORT`; port 0 for a free one.
        token: What has to be shown; needed unless the host is loopback.
    """

    def __init__(self, operations: Operations, endpoint: str, token: str | None) -> None:
        self._operations = operations
        self._host, port = split(endpoint)
        # Whoever looks finds the next life where the last one was.
        self._port = port or operations.port
        self._access = Access(token)

    async def started(self) -> None:
        await self.tasks.start(self._listen)

    async def _listen(self, *, task_status: TaskStatus[None]) -> None:
        try:
            serve = await _serve.get()
            async with serve(self._operations, self._access, self._host, self._port) as url:
                self._operations.url, self._operations.port = url, split(url)[1]
                logger.info("the operator endpoint listens on %s", url)
                task_status.started()
                await anyio.sleep_forever()
        except OSError as error:
            where = f"{self._host}:{self._port}"
            raise StartupError(
                f"cannot listen on {where}: {error.strerror}", code="cannot_listen", field="ops"
            ) from None
        finally:
            self._operations.url = None


def _import_serve() -> Callable[[Operations, Access, str, int], AbstractAsyncContextManager[str]]:
    from .http import serve  # noqa: PLC0415 - brings aiohttp, which only an endpoint needs

    return serve


_serve = Deferred(_import_serve)
