"""Limits and options of the skill channel, with the defaults of 02 §F."""

from __future__ import annotations

import ssl

import msgspec

from ...wire.protocol import ABSOLUTE_CAP, ACK_BUDGET, CHUNK_CEILING, INLINE_BUDGET
from .limits import DownloadRules, PackageLimits
from .materialise import StagingRules
from .mounted import MountRules
from .plan import RETRY_DELAYS
from .watch import WatchRules

ENVELOPE_ROOM = 4_096
"""Bytes of an acknowledgement that are not the list itself."""
INLINE_CEILING = 131_072
"""No option raises the inline budget above this: JSON can make six bytes of one (C-DEF-1)."""


class SkillSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one SkillActor. Times in seconds, sizes in bytes.

    Attributes:
        home: Absolute path of the home; staged skills go below it.
        user_home: Home directory of the user, which is never mounted.
        protected: Further directories that no mount may hold: state, spool, landing root.
        mount_roots: Option `skill_mount_roots`.
        allow_insecure_archive: Option `skill_allow_insecure_archive`.
        forbidden: Option `forbidden_skill_files`; `None` for the default list.
        watch: Option `watch_user_skills`; `watch_polling` forces polling.
        inline_budget: D-10, at most `INLINE_CEILING`.
        too_large_cap: D-11.
        slice_max: Largest slice read at once (D-24).
        slice_readers: D-25.
        read_timeout: One `resources/read` (D-7).
        parallel_reads: D-20; `reading_time` bounds all reads of one package.
        retry_delays: After a failed transfer (C-SKILL-18).
        answer_timeout: A whole answer (D-46).
        rebuild_wait: Wait for an unfinished rebuild (D-47).
        scan_wait: How long a commit waits for the scan of roots and plugins before it goes on without.
        own_write_quiet: D-22; `poll_interval`: D-23.
        settle, settle_longest: Quiet time that ends a batch of file changes, and how long one lasts at most.
        announce_after: How long changes are gathered before they are told.
        list_budget: Largest list of skills.
        stagers: Threads that copy and unpack; servers wait for each other in nothing else.
        tls: Certificates that archive downloads trust; `None` for the usual ones.
    """

    home: str
    user_home: str = ""
    protected: tuple[str, ...] = ()
    mount_roots: tuple[str, ...] = ()
    allow_insecure_archive: bool = False
    forbidden: tuple[str, ...] | None = None
    watch: bool = True
    watch_polling: bool = False
    inline_budget: int = INLINE_BUDGET
    too_large_cap: int = ABSOLUTE_CAP
    slice_max: int = CHUNK_CEILING
    slice_readers: int = 8
    limits: PackageLimits = PackageLimits()
    redirects: int = 5
    transfer_time: float = 60.0
    connect_time: float = 10.0
    work_time: float = 60.0
    read_timeout: float = 30.0
    parallel_reads: int = 4
    reading_time: float = 300.0
    retry_delays: tuple[float, ...] = RETRY_DELAYS
    answer_timeout: float = 15.0
    rebuild_wait: float = 5.0
    scan_wait: float = 5.0
    own_write_quiet: float = 2.0
    poll_interval: float = 1.0
    settle: float = 0.2
    settle_longest: float = 2.0
    announce_after: float = 0.05
    list_budget: int = ACK_BUDGET - ENVELOPE_ROOM
    stagers: int = 4
    tls: ssl.SSLContext | None = None

    def staging_rules(self) -> StagingRules:
        """The part that staging works by."""
        return StagingRules(
            limits=self.limits,
            mounts=MountRules(self.mount_roots, (self.home, *self.protected), self.user_home),
            downloads=DownloadRules(
                self.limits.archive_bytes,
                self.redirects,
                self.transfer_time,
                self.connect_time,
                self.allow_insecure_archive,
            ),
            parallel_reads=self.parallel_reads,
            work_time=self.work_time,
            reading_time=self.reading_time,
            tls=self.tls,
        )

    def watch_rules(self) -> WatchRules:
        """The part that the watcher works by."""
        return WatchRules(self.settle, self.settle_longest, self.poll_interval, self.watch_polling)

    def own_quiet(self) -> float:
        """For how long our own writes are no news: the pause of D-22, and the time a batch may be on its way."""
        return (5.0 if self.watch_polling else self.own_write_quiet) + self.settle_longest
