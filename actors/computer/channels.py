"""The actors of the channels: which there are, and what each is given of the options (R-OPT-1, 02 §F).

Called by the crew once for each run of a Computer. What an actor must not lose in a restart
is made here and handed to every life of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...wire.envelope import Address
from ...wire.messages.projection import Slice
from ..blobs import BlobActor, BlobSettings, UploadLimits
from ..desktop import DesktopActor
from ..finder import FinderActor, FinderSettings, Resolver
from ..kernel import ChildSpec
from ..reconcile.config.directories import Directories, home_of_user, resolve
from ..reconcile.config.options import RuntimeOptions
from ..reconcile.held import Held
from ..skills.actor import SkillActor
from ..skills.projection import LastList
from ..skills.settings import SkillSettings
from ..tools.actor import ToolSettings
from ..tools.offload import OffloadLimits

DESKTOP: Final = Address("desktop")
SKILLS: Final = Address("skills")
BLOBS: Final = Address("blobs")
FINDER: Final = Address("finder")

SLICES: Final[tuple[Slice, ...]] = ("tool_list", "desktop", "skills", "finder")
"""What the actors of a Computer answer for, beside the configuration."""


def channel_specs(
    held: Held, options: RuntimeOptions, *, office: Callable[[], str], resolver: Callable[[], Resolver | None]
) -> tuple[ChildSpec, ...]:
    """One child for each channel, those first that others ask.

    Args:
        options: Settled options.
        office: Where the Computer is, `""` for nowhere.
        resolver: The document resolver the application registered, now (C-DOC-17).
    """
    places = resolve(options)
    blobs, skills = blob_settings(held, options, places, office), skill_settings(held, options, places)
    finder = finder_settings(options)
    last = LastList()
    return (
        ChildSpec(BLOBS, lambda: BlobActor(blobs)),
        ChildSpec(DESKTOP, DesktopActor),
        ChildSpec(SKILLS, lambda: SkillActor(skills, last)),
        ChildSpec(FINDER, lambda: FinderActor(resolver, finder)),
    )


def blob_settings(held: Held, options: RuntimeOptions, places: Directories, office: Callable[[], str]) -> BlobSettings:
    """The BlobActor's part of the options."""
    uploads = UploadLimits(
        idle=float(_settled(options.upload_idle_timeout_s)),
        most_open=_settled(options.upload_max_concurrent),
        most_bytes=_settled(options.upload_max_bytes),
    )
    return BlobSettings(
        computer=held.config.name,
        state_dir=places.state,
        spool_dir=places.blob_cache / ".blobspool",
        landing_root=lambda: landing_root(held),
        office=office,
        chunk_max=_settled(options.chunk_max_bytes),
        uploads=uploads,
        persistent=options.spool_persistent,
    )


def skill_settings(held: Held, options: RuntimeOptions, places: Directories) -> SkillSettings:
    """The SkillActor's part of the options."""
    root = landing_root(held)
    forbidden = options.forbidden_skill_files
    return SkillSettings(
        home=str(places.home),
        user_home=home_of_user(options.environ),
        protected=(str(places.state), str(places.blob_cache / ".blobspool"), *((root,) if root else ())),
        mount_roots=tuple(options.skill_mount_roots),
        allow_insecure_archive=options.skill_allow_insecure_archive,
        forbidden=None if forbidden is None else tuple(forbidden),
        watch=options.watch_user_skills,
        watch_polling=bool(options.watch_polling),
        inline_budget=_settled(options.inline_budget),
        too_large_cap=_settled(options.too_large_cap),
    )


def finder_settings(options: RuntimeOptions) -> FinderSettings:
    """The FinderActor's part of the options."""
    form: Any = options.reference_resolver
    return FinderSettings(document_cap=_settled(options.too_large_cap), reference=form)


def tool_settings(options: RuntimeOptions) -> ToolSettings:
    """The ToolActor's part of the options."""
    limits = OffloadLimits(inline=_settled(options.inline_budget), cap=_settled(options.too_large_cap))
    return ToolSettings(offload=limits)


def landing_root(held: Held) -> str | None:
    """Where uploads go, by the settings of the trusted scopes as they are now (C-UP-31)."""
    root = held.settings.merged.get("landingRoot")
    return root if isinstance(root, str) else None


def _settled(value: Any) -> Any:
    """An option that `settle` has filled in."""
    assert value is not None
    return value
