"""Where and with what plugins are managed: places, git, and the hooks that may refuse. Blocking."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.from_thread
import msgspec

from ...wire.errors import ConfigValidationError
from ..reconcile.config import directories
from ..reconcile.config.options import RuntimeOptions
from ..reconcile.scopes.places import Places, places_of
from .git import Git
from .git_urls import is_of_this_machine, local_path
from .transfer import archive_form
from .trees import copy_tree, digest_of

REPORT_EVERY = 0.25
Report = Callable[[str, str, int | None], None]


def nobody(_what: str, _step: str, _size: int | None) -> None:
    """Nobody waits for this work."""


class Site(msgspec.Struct, frozen=True):
    """What every operation needs.

    Attributes:
        source_trust, plugin_approval: Hooks of the application; each is asked with a mapping and refuses by `False`.
        clock: Unix seconds.
        report: Told what is being worked on, which step of it, and how many bytes of a fetch are there.
    """

    home: Path
    places: Places
    git: Git
    project_root: Path
    source_trust: Callable[..., Any] | None = None
    plugin_approval: Callable[..., Any] | None = None
    clock: Callable[[], float] = time.time
    report: Report = nobody

    def stoppable(self, report: Report) -> Site:
        """The same site with a git of its own, which can be stopped without stopping others, and who hears of it."""
        return msgspec.structs.replace(self, git=self.git.again(), report=report)


def site_of(options: RuntimeOptions, report: Report = nobody) -> Site:
    """The site of a run; `options` are settled."""
    known = directories.resolve(options)
    root = Path(options.project_root or ".")
    return Site(
        known.home,
        places_of(known, root),
        Git(options.environ, options.git_timeout_s),
        root,
        options.source_trust,
        options.plugin_approval,
        report=report,
    )


def refuses(hook: Callable[..., Any] | None, question: Mapping[str, Any]) -> bool:
    """Whether a hook refuses; one that raises does."""
    if hook is None:
        return False
    try:
        answer = hook(question)
        if inspect.isawaitable(answer):
            answer = anyio.from_thread.run(_awaited, answer)
    except Exception:  # the host's code; what it cannot judge is not let through
        return True
    return answer is False


def fetch_tree(
    site: Site,
    url: str,
    target: Path,
    *,
    what: str,
    local: bool = True,
    ref: str | None = None,
    sha: str | None = None,
) -> str:
    """Fetches a repository or an archive, or copies a plain local directory.

    Args:
        what: What it is, in reports.
        local: Whether the url may lead to this machine: what a catalog from elsewhere names has no business here.
    Returns:
        The commit; of what is no repository, a digest in its place.
    Raises:
        ConfigValidationError: It leads to this machine and may not (`local_source`).
        SmcpError: It could not be had; see `Git.fetch`, `fetch_archive` and `copy_tree`.
    """
    site.report(what, "fetching", None)
    directory, form = local_path(url), archive_form(url)
    if not local and is_of_this_machine(url):
        raise ConfigValidationError("a catalog from elsewhere names a place of this machine", code="local_source")
    is_plain = directory is not None and is_plain_directory(Path(directory))
    if (is_plain or form is not None) and (ref is not None or sha is not None):
        raise ConfigValidationError("what is no repository has neither refs nor commits", code="bad_ref")
    grown = _now_and_then(lambda size: site.report(what, "fetching", size))
    if directory is not None and is_plain:
        copy_tree(Path(directory), target)
        return f"dir-{digest_of(target)}"
    if form is not None:
        from .archives import fetch_archive  # noqa: PLC0415 - brings an HTTP client along, which commands seldom need

        return fetch_archive(url, form, target, site.git.transfer(grown, local=local))
    return site.git.fetch(url, target, ref=ref, sha=sha, grown=grown)


def advance_tree(site: Site, url: str, known: Path, target: Path, *, what: str) -> str | None:
    """Moves a clone of a repository forward into `target`; `None` when it has to be fetched as a whole."""
    if archive_form(url) is not None or not (known / ".git").is_dir():
        return None
    site.report(what, "fetching", None)
    grown = _now_and_then(lambda size: site.report(what, "fetching", size))
    return site.git.advance(known, url, target, grown=grown)


def is_plain_directory(path: Path) -> bool:
    """Whether a directory is no repository, bare or otherwise."""
    return path.is_dir() and not (path / ".git").exists() and not (path / "objects").is_dir()


def _now_and_then(tell: Callable[[int], None], clock: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """Tells of a growing size often enough for people and no oftener."""
    told = clock()

    def grown(size: int) -> None:
        nonlocal told
        if clock() - told >= REPORT_EVERY:
            told = clock()
            tell(size)

    return grown


async def _awaited(answer: Any) -> Any:
    return await answer
