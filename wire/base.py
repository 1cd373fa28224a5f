"""What every JSON structure of the protocol is made of: the base class, and the one way in and out.

Structures are open: unknown fields are ignored (W-GEN-2), an absent optional field is
`UNSET` and stays off the wire, `null` in a field that cannot hold it counts as absence
(W-GEN-3), and a boolean is never a number (C-GEN-5). A fault is reported by place and
expected type, never by the value that was found there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta
from msgspec import inspect as shapes

from .errors import InvalidPayload

T = TypeVar("T")

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NonEmpty = Annotated[str, Meta(min_length=1)]


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every structure of 01 §6.

    `whole_numbers` names integer fields that also accept a float without a fraction, such as `30.0`.
    """

    whole_numbers: ClassVar[frozenset[str]] = frozenset()


class Request(Structure, frozen=True, kw_only=True):
    """Base of what an Agent sends: its name, and the id that correlates the answer (AgentCallData)."""

    agent: str
    req_id: str


class ComputerRequest(Request, frozen=True, kw_only=True):
    """Base of every `client:*` request (W-EVT-1)."""

    computer: str


def to_wire(structure: Structure) -> dict[str, Any]:
    """The JSON object of a structure, as dicts and lists. Absent fields are left out."""
    return msgspec.to_builtins(structure)  # type: ignore[no-any-return]


def to_json(value: Any) -> bytes:
    """Compact UTF-8 JSON of a structure or of plain JSON values."""
    return _encode(value)


def decode_payload(tp: type[T], value: object) -> T:
    """The structure of type `tp` in a payload.

    Args:
        tp: A `Structure` class.
        value: What Socket.IO delivered (plain JSON values), or JSON text as bytes.
    Raises:
        InvalidPayload: Not JSON, not an object, a field missing or of another type; `field` is its dotted
            path (`$` for the whole payload), `details["expected"]` a short type name.
    Spec: W-GEN-2, W-GEN-3, C-GEN-5.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        key: Any = tp
        try:
            return _decoder(key).decode(value)  # type: ignore[no-any-return]
        except (ValueError, RecursionError):
            value = parse_json(value)
    return convert(tp, value)  # type: ignore[no-any-return]


def parse_json(text: bytes | bytearray | memoryview) -> Any:
    """Plain JSON values of a text.

    Raises:
        InvalidPayload: It is not JSON, or nested deeper than any structure of the protocol.
    """
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise InvalidPayload("$", "JSON") from None


def convert(tp: Any, value: object) -> Any:
    """As `decode_payload` for any type msgspec knows, unions of structures included."""
    try:
        return msgspec.convert(value, tp)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        pass
    # Nulls and whole floats are rare, so only what the plain conversion refused is looked at twice.
    shape = _shape(tp)
    try:
        return msgspec.convert(_tidy(shape, value), tp)
    except msgspec.ValidationError as fault:
        field, expected = _locate(shape, str(fault))
    except UnicodeEncodeError:  # a lone surrogate where something else than text belongs
        field, expected = "$", "JSON of whole characters"
    except RecursionError:
        field, expected = "$", "JSON of moderate depth"
    raise InvalidPayload(field, expected)


_encode = msgspec.json.Encoder().encode


@functools.cache
def _decoder(tp: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(tp)


@functools.cache
def _shape(tp: Any) -> shapes.Type:
    return shapes.type_info(tp)


def _tidy(shape: shapes.Type, value: Any) -> Any:
    """A copy of `value` without the nulls that mean absence, and with whole floats where they are welcome."""
    if isinstance(shape, shapes.UnionType):
        chosen = _branch(shape, value)
        return value if chosen is None else _tidy(chosen, value)
    if isinstance(shape, shapes.StructType) and isinstance(value, Mapping):
        return _tidy_struct(shape, value)
    if isinstance(shape, shapes.ListType | shapes.VarTupleType) and isinstance(value, list | tuple):
        return [_tidy(shape.item_type, item) for item in value]
    if isinstance(shape, shapes.DictType) and isinstance(value, Mapping):
        return {key: _tidy(shape.value_type, item) for key, item in value.items()}
    return value


def _tidy_struct(shape: shapes.StructType, value: Mapping[str, Any]) -> dict[str, Any]:
    whole: frozenset[str] = getattr(shape.cls, "whole_numbers", frozenset())
    tidy = dict(value)
    for field in shape.fields:
        name = field.encode_name
        found = tidy.get(name)
        if found is None:
            if name in tidy and not _takes_null(field.type):
                del tidy[name]
        elif name in whole and isinstance(found, float) and found.is_integer():
            tidy[name] = int(found)
        else:
            tidy[name] = _tidy(field.type, found)
    return tidy


def _takes_null(shape: shapes.Type) -> bool:
    if isinstance(shape, shapes.UnionType):
        return any(_takes_null(branch) for branch in shape.types)
    return isinstance(shape, shapes.NoneType | shapes.AnyType | shapes.RawType)


def _branch(shape: shapes.UnionType, value: Any) -> shapes.Type | None:
    """The member of a union that a value is meant for; `None` when only msgspec can tell."""
    if isinstance(value, Mapping):
        structs = [branch for branch in shape.types if isinstance(branch, shapes.StructType)]
        for branch in structs:
            if len(structs) == 1 or value.get(branch.tag_field) == branch.tag:
                return branch
        return next((branch for branch in shape.types if isinstance(branch, shapes.DictType)), None)
    if isinstance(value, list | tuple):
        return next((b for b in shape.types if isinstance(b, shapes.ListType | shapes.VarTupleType)), None)
    return None


_PLACE = re.compile(r" - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>[^\]]*)\]")


def _locate(shape: shapes.Type, fault: str) -> tuple[str, str]:
    """Place and expectation of a msgspec fault. Its text is not passed on: it may quote the value."""
    place = _PLACE.search(fault)
    path = place["path"] if place else ""
    if place and place["key"]:
        return _spell(path), "object with string keys"
    if missing := _MISSING.match(fault):
        path += "." + missing["name"]
    expected: shapes.Type | str | None = shape
    for step in _STEP.finditer(path):
        expected = _step(expected, step["name"])
    return _spell(path), expected if isinstance(expected, str) else _describe(expected)


def _spell(path: str) -> str:
    return path.removeprefix(".") or "$"


def _step(shape: shapes.Type | str | None, name: str | None) -> shapes.Type | str | None:
    """The shape one step down: into the field `name`, or into any item when there is no name."""
    if isinstance(shape, shapes.UnionType):
        return _step_union(shape, name)
    if isinstance(shape, shapes.StructType) and name is not None:
        return next((field.type for field in shape.fields if field.encode_name == name), None)
    if isinstance(shape, shapes.ListType | shapes.VarTupleType) and name is None:
        return shape.item_type
    if isinstance(shape, shapes.DictType) and name is None:
        return shape.value_type
    return None


def _step_union(shape: shapes.UnionType, name: str | None) -> shapes.Type | str | None:
    tags = [b.tag for b in shape.types if isinstance(b, shapes.StructType) and name and b.tag_field == name]
    if tags:
        return _one_of(tags)
    return next((below for branch in shape.types if (below := _step(branch, name)) is not None), None)


_NAMES: dict[type[shapes.Type], str] = {
    shapes.BoolType: "boolean",
    shapes.DictType: "object",
    shapes.FloatType: "number",
    shapes.IntType: "integer",
    shapes.ListType: "array",
    shapes.NoneType: "null",
    shapes.StrType: "string",
    shapes.StructType: "object",
    shapes.VarTupleType: "array",
}


def _describe(shape: shapes.Type | None) -> str:
    if isinstance(shape, shapes.UnionType):
        parts = (_describe(branch) for branch in shape.types if "Unset" not in repr(branch))
        return " or ".join(dict.fromkeys(parts))
    if isinstance(shape, shapes.LiteralType):
        return _one_of(shape.values)
    name = _NAMES.get(type(shape), "JSON value") if shape is not None else "JSON value"
    if isinstance(shape, shapes.StrType) and shape.min_length:
        return f"non-empty {name}"
    if isinstance(shape, shapes.IntType | shapes.FloatType):
        return name + _bounds(shape)
    return name


def _bounds(shape: shapes.IntType | shapes.FloatType) -> str:
    if shape.gt is not None:
        return f" > {shape.gt:g}"
    low = shape.ge if shape.ge is not None and shape.ge > -(2**63) else None
    high = shape.le if shape.le is not None and shape.le < 2**63 - 1 else None
    if low is not None and high is not None:
        return f" in {low}…{high}"
    return f" >= {low}" if low is not None else f" <= {high}" if high is not None else ""


def _one_of(values: Any) -> str:
    return "one of " + ", ".join(str(value) for value in values)
