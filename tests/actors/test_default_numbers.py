"""The default numbers of 02 §F: one row each, read from the settings that use it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from smcp_runtime.actors.blobs import BlobSettings, Quota, UploadLimits
from smcp_runtime.actors.desktop import DesktopSettings
from smcp_runtime.actors.finder import FinderSettings
from smcp_runtime.actors.mcp.session.listing import MAX_PAGES, PAGE_LIMIT
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.actors.skills.frontmatter import BLOCK_BYTES
from smcp_runtime.actors.skills.settings import INLINE_CEILING, SkillSettings
from smcp_runtime.actors.socket.settings import SocketSettings
from smcp_runtime.actors.tools.offload import OffloadLimits
from smcp_runtime.agent import download, upload
from smcp_runtime.wire import protocol

KIB, MIB, GIB = 1024, 1024**2, 1024**3

SKILLS = SkillSettings(home="/home")
BLOBS = BlobSettings(computer="pc", state_dir=Path("/state"), spool_dir=Path("/spool"))
SOCKET = SocketSettings(computer="pc")


@pytest.mark.spec("C-DEF-1")
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(protocol.ACK_BUDGET, 900_000, marks=pytest.mark.spec("D-1")),
        pytest.param(MAX_PAGES, 1_000, marks=pytest.mark.spec("D-2")),
        pytest.param(SOCKET.coalesce, 0.3, marks=pytest.mark.spec("D-3")),
        pytest.param(SOCKET.coalesce_longest, 2.0, marks=pytest.mark.spec("D-4")),
        pytest.param(PAGE_LIMIT, 10.0, marks=pytest.mark.spec("D-5")),
        pytest.param(DesktopSettings().read_timeout, 10.0, marks=pytest.mark.spec("D-6")),
        pytest.param((SKILLS.read_timeout, FinderSettings().read_timeout), (30.0, 30.0), marks=pytest.mark.spec("D-7")),
        pytest.param(DesktopSettings().parallel_reads, 8, marks=pytest.mark.spec("D-8")),
        pytest.param((DesktopSettings().history, FinderSettings().history), (10, 10), marks=pytest.mark.spec("D-9")),
        pytest.param((OffloadLimits().inline, SKILLS.inline_budget), (32 * KIB,) * 2, marks=pytest.mark.spec("D-10")),
        pytest.param(INLINE_CEILING, 128 * KIB, marks=pytest.mark.spec("D-10")),
        pytest.param((OffloadLimits().cap, SKILLS.too_large_cap), (100 * MIB,) * 2, marks=pytest.mark.spec("D-11")),
        pytest.param(BLOBS.chunk_max, 256 * KIB, marks=pytest.mark.spec("D-12")),
        pytest.param(SKILLS.limits.archive_bytes, 64 * MIB, marks=pytest.mark.spec("D-13")),
        pytest.param(SKILLS.limits.bytes, 256 * MIB, marks=pytest.mark.spec("D-14")),
        pytest.param(SKILLS.limits.entries, 10_000, marks=pytest.mark.spec("D-15")),
        pytest.param(SKILLS.limits.depth, 32, marks=pytest.mark.spec("D-16")),
        pytest.param(SKILLS.limits.path_bytes, 1_024, marks=pytest.mark.spec("D-17")),
        pytest.param(SKILLS.redirects, 5, marks=pytest.mark.spec("D-18")),
        pytest.param((SKILLS.transfer_time, SKILLS.connect_time), (60.0, 10.0), marks=pytest.mark.spec("D-19")),
        pytest.param(SKILLS.parallel_reads, 4, marks=pytest.mark.spec("D-20")),
        pytest.param(BLOCK_BYTES, 64 * KIB, marks=pytest.mark.spec("D-21")),
        pytest.param(SKILLS.own_write_quiet, 2.0, marks=pytest.mark.spec("D-22")),
        pytest.param(
            SkillSettings(home="/home", watch_polling=True).own_quiet() - SKILLS.settle_longest,
            5.0,
            marks=pytest.mark.spec("D-22"),
        ),
        pytest.param(SKILLS.poll_interval, 1.0, marks=pytest.mark.spec("D-23")),
        pytest.param((protocol.CHUNK_CEILING, SKILLS.slice_max), (640 * KIB,) * 2, marks=pytest.mark.spec("D-24")),
        pytest.param((BLOBS.parallel_reads, SKILLS.slice_readers), (8, 8), marks=pytest.mark.spec("D-25")),
        pytest.param(OffloadLimits().kept_text, 64 * KIB, marks=pytest.mark.spec("D-26")),
        pytest.param(Quota().most_bytes, GIB, marks=pytest.mark.spec("D-27")),
        pytest.param(Quota().unused_for, 24 * 3600.0, marks=pytest.mark.spec("D-28")),
        pytest.param(Quota().youngest, 600.0, marks=pytest.mark.spec("D-29")),
        pytest.param(BLOBS.collect_every, 600.0, marks=pytest.mark.spec("D-30")),
        pytest.param(
            inspect.signature(download.download).parameters["limit"].default, 100 * MIB, marks=pytest.mark.spec("D-31")
        ),
        pytest.param(download.ATTEMPTS, 3, marks=pytest.mark.spec("D-32")),
        pytest.param(UploadLimits().idle, 120.0, marks=pytest.mark.spec("D-33")),
        pytest.param(UploadLimits().most_open, 4, marks=pytest.mark.spec("D-34")),
        pytest.param(UploadLimits().most_bytes, 100 * MIB, marks=pytest.mark.spec("D-35")),
        pytest.param(UploadLimits().lifetime, 3600.0, marks=pytest.mark.spec("D-36")),
        pytest.param(upload.CHUNK_MAX, 256 * KIB, marks=pytest.mark.spec("D-37")),
        pytest.param(UploadLimits().finished_kept, None, marks=pytest.mark.spec("D-38")),
        pytest.param(protocol.AGENT_ACK_WAIT, 30.0, marks=pytest.mark.spec("D-39")),
        pytest.param(
            (FinderSettings().page, FinderSettings().page_max), (20, 100), marks=pytest.mark.spec("D-40", "D-41")
        ),
        pytest.param(
            (protocol.DPE_TIMEOUT, protocol.DPE_TIMEOUT_MAX), (60.0, 300.0), marks=pytest.mark.spec("D-42", "D-43")
        ),
        pytest.param(RuntimeOptions().git_timeout_s, 120.0, marks=pytest.mark.spec("D-44")),
        pytest.param(protocol.NAME_HINT_MAX, 64, marks=pytest.mark.spec("D-45")),
        pytest.param(
            (DesktopSettings().answer_timeout, SKILLS.answer_timeout), (15.0, 15.0), marks=pytest.mark.spec("D-46")
        ),
        pytest.param(SKILLS.rebuild_wait, 5.0, marks=pytest.mark.spec("D-47")),
    ],
)
def test_the_default_is_the_number_of_the_table(number: object, expected: object) -> None:
    assert number == expected
