"""The greeting: what two nodes must agree on before any traffic, decided in one place.

The schema hash covers the messages of `wire.messages`, all of them imported for it, and
nothing a program adds for itself; so a worker and a Computer of one release agree
whatever else they have loaded. Pure.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re

import msgspec

from ...wire import messages
from ...wire.message import schema_hash
from .frames import Hello, Refused

PROTOCOL = 1
"""Version of the frames between nodes."""

_SCHEMA = re.compile(r"[0-9a-f]{8,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


@functools.cache
def contract() -> str:
    """Hash of all messages this release knows."""
    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"{messages.__name__}.{module.name}")
    return schema_hash(messages.__name__)


class Terms(msgspec.Struct, frozen=True):
    """What a hub insists on."""

    schema: str
    protocol: int = PROTOCOL

    def judge(self, hello: Hello, user: str | None) -> Refused | None:
        """Why a node is not taken in, or `None`.

        Args:
            user: Name under which its key is allowed, `None` where there are no keys.
        """
        if hello.protocol != self.protocol:
            text = f"this hub speaks bus protocol {self.protocol}, the node {hello.protocol}"
            return Refused("protocol", text)
        if not _SCHEMA.fullmatch(hello.schema) or not _NAME.fullmatch(hello.name):
            # Past this line nothing a stranger sent can garble a log.
            return Refused("name", "the node's name or schema hash is none")
        if hello.schema != self.schema:
            text = f"the hub's messages have schema {self.schema}, the node's {hello.schema}: run one release on both"
            return Refused("schema", text)
        if user is not None and hello.name != user:
            return Refused("name", f"the key of {user} does not allow the name {hello.name}")
        return None
