"""What a server answers about its resources, as the messages of its actor: pages, contents, completions."""

from __future__ import annotations

from ...wire.codec import Attachment
from ...wire.messages.mcp import CompleteArgument, Completions, ReadResource, ResourceContents, ResourcesPage
from .failures import RequestFailed
from .reading import listing_failure, read_failure
from .session.listing import PAGE_LIMIT
from .session.session import Session


async def page(session: Session, bundle_id: str, cursor: str | None) -> ResourcesPage:
    """One page, untouched (W-RES-1).

    Raises:
        PeerError: There is none (W-RES-3).
    """
    try:
        found = await session.page("resources", cursor, timeout=PAGE_LIMIT)
    except RequestFailed as failure:
        raise listing_failure(failure, bundle_id) from failure
    return ResourcesPage(Attachment(found.items), found.next_cursor)


async def contents(session: Session, message: ReadResource) -> ResourceContents:
    """The contents of one resource.

    Raises:
        NetworkError, AuthError: There are none, as `ReadResource` tells.
    """
    try:
        return ResourceContents(Attachment(await session.read(message.uri, timeout=message.timeout)))
    except RequestFailed as failure:
        raise read_failure(failure, modern=session.modern) from failure


async def completions(session: Session, message: CompleteArgument) -> Completions:
    """What the server proposes; nothing when it proposes at no time. Raises as `contents`."""
    if not session.capabilities.completions:
        return Completions(())
    try:
        return await session.complete(
            message.template, message.argument, message.value, message.known, timeout=message.timeout
        )
    except RequestFailed as failure:
        raise read_failure(failure) from failure
