"""The authorization a connection is opened with: from what was granted before, never from a person (R-MCP-23)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from ....wire.messages.mcp import LaunchPlan
from .grant import Grant, key_of
from .vault import Grants, Vault

if TYPE_CHECKING:
    import httpx2

Authorize = Callable[[LaunchPlan], Awaitable[None]]
"""Has a server authorized, with whoever sits at this machine if it takes a person."""


def credentials_from(vault: Grants) -> Callable[[LaunchPlan], httpx2.Auth | None]:
    """What `Opener` asks for the authorization of a plan; `None` where there is none to be had."""

    def credentials(plan: LaunchPlan) -> httpx2.Auth | None:
        if plan.transport != "streamable":
            return None
        from .bearer import Bearer  # noqa: PLC0415 - see `_by_itself`

        is_machine = plan.oauth is not None and plan.oauth.grant == "client_credentials"
        return Bearer(vault, key_of(plan), (lambda: _by_itself(plan)) if is_machine else None)

    return credentials


def authorizer(vault: Vault, show: Callable[[str, str], Awaitable[None]]) -> Authorize:
    """How a server is authorized.

    Args:
        show: Shows a person a page for a server: its bundle_id and a URL.
    """

    async def authorize(plan: LaunchPlan) -> None:
        if plan.oauth is not None and plan.oauth.grant == "client_credentials":
            grant = await _by_itself(plan)
        else:
            from .obtain import with_a_person  # noqa: PLC0415 - see `_by_itself`

            grant = await with_a_person(plan, partial(show, plan.bundle_id))
        await vault.save(key_of(plan), grant)

    return authorize


async def _by_itself(plan: LaunchPlan) -> Grant:
    # The flows bring an HTTP client, signatures and models that no Computer without such a server has to load.
    from .obtain import by_itself  # noqa: PLC0415

    return await by_itself(plan)
