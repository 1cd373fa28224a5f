"""What a worker may say on the bus: what its own server is about, and nothing else. Pure.

Its actor is the same code as in the Computer's process, so the list is what that actor says. A
worker that is not ours any more (another host, another administrator) must neither get what is
rendered for another server nor make anybody believe something about one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from ...wire.codec import decode_message
from ...wire.message import Message
from ...wire.messages.channels import ResourcesRead
from ...wire.messages.mcp import ResourcesListed, ResourceUpdated, ServerStatusChanged, ToolsListed
from ...wire.messages.placement import GetGrant, KeepGrant, Serve, TakeSeat
from ...wire.messages.projection import EndStart, GetLaunchPlan, GrantStart
from ...wire.messages.tools import CallQueued, ToolsRead

WORKERS: Final = "workers"
_OF_A_SERVER: Final = {
    ("reconcile", GetLaunchPlan.subject()),
    ("reconcile", GrantStart.subject()),
    ("reconcile", EndStart.subject()),
    ("tools", CallQueued.subject()),
    (WORKERS, GetGrant.subject()),
    (WORKERS, KeepGrant.subject()),
}
_OF_A_NODE: Final = {(WORKERS, TakeSeat.subject()), (WORKERS, Serve.subject())}
_FACTS: Final = frozenset(
    kind.subject() for kind in (ServerStatusChanged, ToolsListed, ResourcesListed, ResourceUpdated)
)
_WANTED: Final = frozenset({ResourcesRead.subject(), ToolsRead.subject()})
_GRANT_KEY: Final = re.compile(r"oauth/([A-Za-z0-9_-]+)/[0-9a-f]{16}")


class WorkerCustoms:
    """Implements `bus.zeromq.Customs`.

    Args:
        bundle_of: The server a node hosts, `None` for none.
    """

    def __init__(self, bundle_of: Callable[[str], str | None]) -> None:
        self._bundle_of = bundle_of

    def may_send(self, node: str, target: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        way = (target, subject)
        if way in _OF_A_NODE:
            return getattr(_read(subject, body, attachments), "node", None) == node
        return way in _OF_A_SERVER and self._is_own(node, _read(subject, body, attachments))

    def may_publish(self, node: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        return subject in _FACTS and self._is_own(node, _read(subject, body, attachments))

    def may_claim(self, node: str, address: str) -> bool:
        bundle_id = self._bundle_of(node)
        return bundle_id is not None and address in (f"mcp/{bundle_id}", f"worker/{bundle_id}")

    def may_observe(self, node: str, subject: str) -> bool:
        return subject in _WANTED

    def _is_own(self, node: str, message: Message | None) -> bool:
        if message is None:
            return False
        bundle_id = self._bundle_of(node)
        named = message.status.bundle_id if isinstance(message, ServerStatusChanged) else _bundle_in(message)
        if isinstance(message, GetGrant | KeepGrant):
            key = _GRANT_KEY.fullmatch(message.key)
            if key is None or key[1] != bundle_id:
                return False
        return bundle_id is not None and named == bundle_id


def _read(subject: str, body: bytes, attachments: Sequence[bytes]) -> Message | None:
    try:
        return decode_message(subject, body, tuple(attachments))
    except (LookupError, msgspec.DecodeError, ValueError, TypeError):
        return None


def _bundle_in(message: Message) -> str | None:
    named = getattr(message, "bundle_id", None)
    return named if isinstance(named, str) else None
