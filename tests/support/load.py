"""Load that judges itself: calls that each carry a word of their own, which a right answer must hold.

Whoever injects faults runs it beside them. A call is right, wrong (an answer that is not its own), hung (it did not
end by its deadline and a second more), or has failed cleanly: it ended in time and said why.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from smcp_runtime.agent import CallToolResult
from smcp_runtime.wire.errors import SmcpError

SLACK = 1.0
"""Seconds beyond its deadline by which a call has to have ended."""
PAUSE = 0.1
"""Seconds a lane rests after a failed call; one that is refused at once must not take the machine for itself."""

Call = Callable[[str, str], Awaitable[CallToolResult]]
"""Calls the tool of a server, named first, with this word."""


@dataclass
class Tally:
    """What became of calls.

    Attributes:
        failed: Clean failures, by what they said.
        wrong: What came in place of the right answer, with the word it should have held.
        slowest: Seconds the slowest call took.
    """

    calls: int = 0
    ok: int = 0
    hung: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {self.ok} ok, {self.failed.total()} failed cleanly {dict(self.failed)}, "
            f"{self.hung} hung, {len(self.wrong)} wrong {self.wrong[:3]}, slowest {self.slowest:.2f} s"
        )


class Load:
    """Lanes, each with one call in flight at a time, over some servers.

    Args:
        call: Makes one call.
        deadline: Seconds after which the caller is promised an end.
        not_executed: Told the word of each call that failed and, as its result says, was not executed.

    Attributes:
        tallies: By server.
        under_way: When each call that has not ended began, on `time.monotonic`.
    """

    def __init__(
        self,
        call: Call,
        servers: Sequence[str],
        *,
        deadline: float,
        seed: int = 0,
        not_executed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.tallies: dict[str, Tally] = {server: Tally() for server in servers}
        self.under_way: dict[str, float] = {}
        self._call = call
        self._deadline = deadline
        self._not_executed = not_executed
        self._servers = list(servers)
        self._random = random.Random(seed)
        self._words = 0
        self._waiting: dict[str, list[tuple[float, asyncio.Future[float]]]] = defaultdict(list)
        self._stopped = False

    async def run(self, lanes: int) -> None:
        """Runs so many lanes until `stop`; all calls have ended when it returns."""
        async with anyio.create_task_group() as group:
            for _ in range(lanes):
                group.start_soon(self._lane)

    def stop(self) -> None:
        """No further calls."""
        self._stopped = True

    async def recovered(self, server: str, since: float | None = None) -> float:
        """Waits for the right answer to a call begun after `since`, a moment on `time.monotonic` (now by default).

        Returns:
            Seconds from that moment to the answer.
        """
        since = time.monotonic() if since is None else since
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[server].append((since, answered))
        return await answered - since

    def began_after(self, moment: float) -> bool:
        """Whether every call that is under way began after a moment on `time.monotonic`."""
        return all(began > moment for began in self.under_way.values())

    async def _lane(self) -> None:
        while not self._stopped:
            server = self._random.choice(self._servers)
            if not await self.once(server):
                await asyncio.sleep(PAUSE)

    async def once(self, server: str) -> bool:
        """One call; whether it was right."""
        self._words += 1
        word = f"{server} {self._words} {self._random.randrange(2**64):016x}"
        tally = self.tallies[server]
        tally.calls += 1
        began = self.under_way[word] = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline + SLACK):
                result = await self._call(server, word)
        except TimeoutError:
            tally.hung += 1
        except SmcpError as error:
            tally.failed[error.code] += 1
        else:
            if result.is_error:
                tally.failed[why(result)] += 1
                if result.outcome == "not_executed":
                    self._not_executed(word)
            elif result.text != word:
                tally.wrong.append(f"{result.text[:80]!r} for {word!r}")
            else:
                tally.ok += 1
                self._answered(server, began)
                return True
        finally:
            del self.under_way[word]
            tally.slowest = max(tally.slowest, time.monotonic() - began)
        return False

    def _answered(self, server: str, began: float) -> None:
        now = time.monotonic()
        still = []
        for since, answered in self._waiting[server]:
            if began < since:
                still.append((since, answered))
            elif not answered.done():
                answered.set_result(now)
        self._waiting[server] = still


def why(result: CallToolResult) -> str:
    """In a word why a call failed."""
    if result.meta.get("a2c_timeout"):
        return "timeout"
    if result.meta.get("a2c_busy"):
        return "busy"
    return f"{result.error_code or 'error'} {result.outcome or ''}".strip()
