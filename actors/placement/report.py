"""Reports: what a worker's tally says of its actor, and what several workers, one after another, add up to. Pure.

Each life of a worker counts from zero. What an earlier life had counted when it was last
asked stays, so the sums an operator sees never fall.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...bus import Tally
from ...bus.tally import Spread, Work
from ...wire.messages.placement import WorkerReport, WorkRow

EMPTY = WorkerReport(0, "")


def rows_of(tally: Tally, address: str) -> tuple[WorkRow, ...]:
    """The work of one actor."""
    return tuple(
        WorkRow(message, (work.counts[0] + work.quick, *work.counts[1:]), work.total, work.failed, work.cancelled)
        for message, work in sorted(tally.work.get(address, {}).items())
    )


class Sum:
    """The work of one server's actor over all its lives elsewhere.

    Attributes:
        latest: The last report of the present life.
    """

    def __init__(self) -> None:
        self.latest = EMPTY
        self._past: dict[str, Work] = {}

    def take(self, report: WorkerReport) -> None:
        """The present life tells of itself."""
        self.latest = report

    def over(self) -> None:
        """The present life has ended."""
        self._past = dict(self.rows())
        self.latest = EMPTY

    def rows(self) -> Mapping[str, Work]:
        """All work by message type, as in a tally. Latencies of asks are those of who asked, who counts them."""
        rows: dict[str, Work] = {}
        for message, past in self._past.items():
            _add(rows.setdefault(message, Work()), past, past.failed, past.cancelled)
        for row in self.latest.rows:
            spread = Spread()
            if len(row.counts) == len(spread.counts):
                spread.counts, spread.total = list(row.counts), row.total
                _add(rows.setdefault(row.message, Work()), spread, row.failed, row.cancelled)
        return rows


class Reported:
    """The load of a life elsewhere, as `kernel.Incarnation` shows it: what its worker said last."""

    _work: Sum

    @property
    def queued(self) -> int:
        return self._work.latest.queued

    @property
    def high_water(self) -> int:
        return self._work.latest.high_water

    @property
    def busy(self) -> int:
        return self._work.latest.busy

    @property
    def capacity(self) -> int:
        return self._work.latest.capacity


def _add(row: Work, spread: Spread, failed: int, cancelled: int) -> None:
    row.merge(spread)
    row.failed += failed
    row.cancelled += cancelled
