"""The hook `metrics`: hands the embedding application all samples, at the start and then at intervals, redacted.

One mapping each time: `time` in Unix seconds, and `samples`, each with `name`, `labels` and
`value` as the operator endpoint shows them. While the hook is at work it is not called again.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio

from ...wire.redaction import SecretRegistry

logger = logging.getLogger(__name__)

Samples = Callable[[], Awaitable[Sequence[Mapping[str, Any]]]]


class MetricsHook:
    """Tells a hook of the metrics of one Computer. `run` goes on until it is cancelled.

    Args:
        hook: A plain or a coroutine function; what it raises is logged.
        samples: All samples of this moment.
        registry: The secrets it must not be told.
        every: Seconds between two calls.
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        hook: Callable[[Mapping[str, Any]], Any],
        samples: Samples,
        registry: SecretRegistry,
        every: float,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._hook, self._samples, self._registry = hook, samples, registry
        self._every = every
        self._wall_clock = wall_clock

    async def run(self) -> None:
        """Tells again and again."""
        while True:
            await self._tell()
            await anyio.sleep(self._every)

    async def _tell(self) -> None:
        try:
            record = {"time": self._wall_clock(), "samples": list(await self._samples())}
            answer = self._hook(self._registry.redaction.tree(record))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            logger.warning("the metrics hook failed: %s", type(error).__name__)
