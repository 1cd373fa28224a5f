"""Declaring handlers: which methods of an actor answer which messages, and how many at once.

`@handler` and `@observer` only mark a method; the table is built once per actor class
from the annotations, so that the message type stands in one place.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, overload

import msgspec

from ...wire.message import Ask, Fact, Message, Tell, reply_type

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__smcp_handler__"


class HandlerSpec(msgspec.Struct, frozen=True):
    """One entry of an actor's table.

    Attributes:
        name: Method name.
        message: The message type it takes.
        concurrent: How many may run at once beside the serial work; 0 for a serial handler.
        waits: Whether the method is `async`; a plain one can be neither interrupted nor made to wait.
    """

    name: str
    message: type[Message]
    concurrent: int
    waits: bool


@overload
def handler(method: F) -> F: ...
@overload
def handler(*, concurrent: int = ...) -> Callable[[F], F]: ...
def handler(method: F | None = None, *, concurrent: int = 0) -> F | Callable[[F], F]:
    """Marks the method that answers an ask or a tell.

    Args:
        concurrent: 0 runs it one at a time with the actor's other serial handlers; n > 0 runs up to n at once
            in the actor's task group, beside them.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, concurrent)
        return function

    return mark(method) if method is not None else mark


def observer(method: F) -> F:
    """Marks the method that takes in facts of its parameter's type; serial, in the order of arrival."""
    setattr(method, _MARK, 0)
    return method


_tables: dict[type, Mapping[str, HandlerSpec]] = {}


def handler_table(actor: type) -> Mapping[str, HandlerSpec]:
    """The handlers of an actor class by subject.

    Raises:
        TypeError: A marked method does not take exactly one annotated message, two methods take the same
            message, or the declared reply differs from that of the ask.
    """
    if actor in _tables:
        return _tables[actor]
    table: dict[str, HandlerSpec] = {}
    for name, method in inspect.getmembers(actor, inspect.isfunction):
        concurrent = getattr(method, _MARK, None)
        if concurrent is None:
            continue
        message = _message_of(actor, name, method)
        if message.subject() in table:
            raise TypeError(f"{actor.__name__}: {message.subject()} has two handlers")
        table[message.subject()] = HandlerSpec(name, message, concurrent, inspect.iscoroutinefunction(method))
    _tables[actor] = MappingProxyType(table)
    return _tables[actor]


def _message_of(actor: type, name: str, method: Callable[..., Any]) -> type[Message]:
    hints = typing.get_type_hints(method)
    parameters = list(inspect.signature(method).parameters)[1:]
    message = hints.get(parameters[0]) if len(parameters) == 1 else None
    if not (isinstance(message, type) and issubclass(message, Ask | Tell | Fact)):
        raise TypeError(f"{actor.__name__}.{name} must take exactly one annotated message")
    if issubclass(message, Ask):
        expected = reply_type(message)
        declared = hints.get("return")
        if (declared or type(None)) != (expected or type(None)):
            raise TypeError(f"{actor.__name__}.{name} must return {expected}, as {message.__name__} declares")
    return message
