"""Customs: whether a node of the hub may say what it says, asked before anything is done about it.

Authentication tells who a node is; this tells what it may be told and may make others
believe. A bus whose nodes are all trusted alike needs none. Decisions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Customs(Protocol):
    """What nodes may do, by their names. All methods return at once and never raise."""

    def may_send(self, node: str, target: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        """Whether this ask or tell of a node goes on to its target."""

    def may_publish(self, node: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        """Whether observers get this fact of a node."""

    def may_claim(self, node: str, address: str) -> bool:
        """Whether messages for this address go to the node."""

    def may_observe(self, node: str, subject: str) -> bool:
        """Whether the node gets the facts of this subject."""


class Open:
    """Everybody may say everything."""

    def may_send(self, node: str, target: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        return True

    def may_publish(self, node: str, subject: str, body: bytes, attachments: Sequence[bytes]) -> bool:
        return True

    def may_claim(self, node: str, address: str) -> bool:
        return True

    def may_observe(self, node: str, subject: str) -> bool:
        return True


OPEN = Open()
