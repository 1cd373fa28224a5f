"""Messages: the frozen structs that travel on the bus, in three kinds.

An ask wants one typed reply before a deadline, a tell wants none, a fact says what
happened. Every concrete message class registers itself under its class name, which is
its subject on the wire; two nodes may talk only when their registries hash alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform, get_args, get_origin

import msgspec

R = TypeVar("R")

_registry: dict[str, type[Message]] = {}


# The decorator is for type checkers: msgspec passes `frozen` on to subclasses, they would not know.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, array_like=True):
    """A frozen value inside a message or a reply; never sent on its own."""


class Message(Record, tag=True):
    """Root of everything that has a subject on the bus. Unknown trailing fields are ignored."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        if cls.__module__ == __name__:
            return
        known = _registry.setdefault(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"message {cls.__name__} is already defined in {known.__module__}")

    @classmethod
    def subject(cls) -> str:
        """The name under which this message type travels."""
        return cls.__name__


class Ask(Message, Generic[R]):
    """Wants exactly one reply of type `R` (written `class Find(Ask[Found])`; `Ask[None]` for a bare acknowledgement).

    `lane` is `"control"` for asks that overtake ordinary work, `"ordinary"` otherwise.
    """

    lane: ClassVar[str] = "ordinary"


class Tell(Message):
    """Wants no reply; the sender still learns whether a mailbox accepted it."""

    lane: ClassVar[str] = "ordinary"


class Fact(Message):
    """Something that happened; published to whoever subscribed to its type."""

    def coalesce_key(self) -> str | None:
        """Facts of one type with equal keys may replace each other for a slow observer; `None` never does."""
        return None


def reply_type(ask: type[Ask[Any]]) -> Any:
    """The declared reply type of an ask.

    Raises:
        TypeError: The class does not name its reply type as `Ask[R]`.
    """
    for base in getattr(ask, "__orig_bases__", ()):
        if get_origin(base) is Ask:
            (reply,) = get_args(base)
            if not isinstance(reply, TypeVar):
                return reply
    raise TypeError(f"{ask.__name__} does not declare its reply type as Ask[R]")


def message_types() -> Mapping[str, type[Message]]:
    """All registered message types by subject."""
    return MappingProxyType(_registry)


def schema_hash(package: str = "") -> str:
    """16 hex digits over the messages registered from `package` (`""`: all) and their replies.

    Equal on nodes that understand each other.
    """
    lines = []
    for subject, cls in sorted(_registry.items()):
        if package and not cls.__module__.startswith(f"{package}."):
            continue
        reply = reply_type(cls) if issubclass(cls, Ask) else None
        lines.append(f"{subject}:{_shape(cls)}->{_shape(reply)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _shape(tp: Any, depth: int = 0) -> str:
    if isinstance(tp, type) and issubclass(tp, msgspec.Struct) and depth < 8:
        fields = (f"{field.name}={_shape(field.type, depth + 1)}" for field in msgspec.structs.fields(tp))
        return f"{tp.__name__}({','.join(fields)})"
    arguments = get_args(tp)
    if arguments:
        return f"{get_origin(tp)}[{','.join(_shape(argument, depth + 1) for argument in arguments)}]"
    return getattr(tp, "__name__", str(tp))
