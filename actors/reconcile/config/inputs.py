"""Input definitions as a configuration declares them (03 §5.1), and the form an Agent sees.

Three kinds are the protocol's, three are local extensions that travel as a plain prompt
(R-INPUT-2). A definition says where a value may come from; values live elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from ....wire.inputs import (
    OLD_OPTIONS_HINT,
    CommandInput,
    InputDefinition,
    PickOption,
    PickStringInput,
    PromptStringInput,
    uses_old_options,
)
from .fields import Fields
from .findings import Findings, item

Kind = Literal["secret", "value"]


class NumberInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="number"):
    """An integer within optional bounds."""

    id: str
    description: str
    default: int | None = None
    min: int | None = None
    max: int | None = None


class BoolInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="bool"):
    """A yes or no; the labels are for whoever is asked."""

    id: str
    description: str
    default: bool | None = None
    true_label: str | None = None
    false_label: str | None = None


class FilePathInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="filePath"):
    """A path; `filter` is the suffix it must end in."""

    id: str
    description: str
    default: str | None = None
    must_exist: bool = False
    filter: str | None = None


Definition: TypeAlias = PromptStringInput | PickStringInput | CommandInput | NumberInput | BoolInput | FilePathInput

TYPE_SPELLINGS: Mapping[str, str] = {
    **{name: name for name in ("promptString", "pickString", "command", "number", "bool", "filePath")},
    "PromptString": "promptString",
    "PickString": "pickString",
    "Command": "command",
    "Number": "number",
    "Bool": "bool",
    "boolean": "bool",
    "FilePath": "filePath",
}


def kind_of(definition: Definition) -> Kind:
    """Whether its values are secret."""
    return "secret" if is_secret(definition) else "value"


def is_secret(definition: Definition) -> bool:
    """Whether its values are secret."""
    return isinstance(definition, PromptStringInput) and definition.password is True


def default_of(definition: Definition) -> str | int | bool | None:
    """The declared default; `None` for none. An empty text is one."""
    default = getattr(definition, "default", None)
    return None if default is UNSET else default


def read_inputs(raw: object, path: str, findings: Findings) -> list[Definition]:
    """The definitions of one layer. Faulty ones are noted and left out; of two with one id neither counts."""
    if raw is None:
        return []
    if not isinstance(raw, list | tuple):
        findings.wrong_type(path, "an array of input definitions", raw)
        return []
    found: list[Definition] = []
    places: dict[str, list[str]] = {}
    for index, element in enumerate(raw):
        definition = read_input(element, item(path, index), findings)
        if definition is not None:
            found.append(definition)
            places.setdefault(definition.id, []).append(item(path, index))
    for input_id, at in places.items():
        if len(at) > 1:
            reason = f"input id {input_id!r} is defined at {' and '.join(at)}; ids must be unique"
            findings.add(at[-1], reason, category="conflict", code="duplicate_input_id")
    return [definition for definition in found if len(places[definition.id]) == 1]


def read_input(raw: object, path: str, findings: Findings) -> Definition | None:
    """One definition, or `None` with at least one finding."""
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return None
    before = len(findings.faults)
    fields = Fields(
        raw, path, findings, {"trueLabel": "true_label", "falseLabel": "false_label", "mustExist": "must_exist"}
    )
    common = {
        "id": fields.text("id", required=True, empty=False) or "",
        "description": fields.text("description", required=True) or "",
    }
    written = fields.text("type", required=True)
    spelled = TYPE_SPELLINGS.get(written) if written is not None else None
    if spelled is None:
        if written is not None:
            findings.add(fields.at("type"), f"must be one of {', '.join(_READERS)}", code="bad_choice")
        return None
    definition = _READERS[spelled](fields, common, findings)
    fields.refuse_unknown(f"a {spelled} input")
    return definition if len(findings.faults) == before else None


def project(definition: Definition) -> dict[str, Any]:
    """The definition as an Agent may see it: no password default, no nulls, extensions as a prompt (W-CFG-3)."""
    wire: InputDefinition
    match definition:
        case PromptStringInput() if definition.password is True:
            wire = msgspec.structs.replace(definition, default=UNSET)
        case PromptStringInput() | PickStringInput() | CommandInput():
            wire = definition
        case _:
            default = default_of(definition)
            text = UNSET if default is None else as_text(default)
            wire = PromptStringInput(id=definition.id, description=definition.description, default=text)
    return {name: value for name, value in msgspec.to_builtins(wire).items() if value is not None}


def canonical(definition: Definition) -> dict[str, Any]:
    """The definition as a configuration declares it, without what was left out."""
    return {name: value for name, value in msgspec.to_builtins(definition).items() if value is not None}


def as_text(value: str | int | bool) -> str:
    """A typed value in the words of a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read_prompt(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    default = fields.text("default")
    password = fields.flag("password", False) if fields.has("password") else fields.take("password")
    if password and default:
        findings.warn(fields.at("default"), "a password default is readable by everybody who sees this file")
    return PromptStringInput(**common, default=_or_unset(default), password=_or_unset(password))


def _read_pick(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    raw = fields.take("options")
    options: list[PickOption] = []
    if uses_old_options({"options": raw}):
        findings.add(fields.at("options"), OLD_OPTIONS_HINT, code="old_options")
    elif not isinstance(raw, list | tuple) or not raw:
        findings.add(
            fields.at("options"), "is required and must be a non-empty array of {label, value}", code="missing"
        )
    else:
        for index, element in enumerate(raw):
            option = _read_option(element, item(fields.at("options"), index), findings)
            if option is not None:
                options.append(option)
    default = fields.text("default")
    if default is not None and options and all(option.value != default for option in options):
        findings.add(fields.at("default"), "must equal the value of an option", code="bad_default")
    return PickStringInput(**common, options=tuple(options), default=_or_unset(default))


def _read_option(raw: object, path: str, findings: Findings) -> PickOption | None:
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object with label and value", raw)
        return None
    fields = Fields(raw, path, findings, {})
    label = fields.text("label", required=True, empty=False)
    value = fields.text("value", required=True, empty=False)
    fields.refuse_unknown("an option")
    return None if label is None or value is None else PickOption(label=label, value=value)


def _read_command(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    command = fields.text("command", required=True, empty=False) or ""
    args = fields.text_map("args") if fields.has("args") else fields.take("args")
    return CommandInput(**common, command=command, args=_or_unset(args))


def _read_number(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    default, low, high = (_whole(fields, name, findings) for name in ("default", "min", "max"))
    if low is not None and high is not None and low > high:
        findings.add(fields.at("min"), "must not exceed max", code="bad_range")
    elif default is not None and not in_range(default, low, high):
        findings.add(fields.at("default"), "must lie between min and max", code="bad_default")
    return NumberInput(**common, default=default, min=low, max=high)


def _read_bool(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    default = fields.flag("default", False) if fields.has("default") else fields.take("default")
    return BoolInput(
        **common, default=default, true_label=fields.text("true_label"), false_label=fields.text("false_label")
    )


def _read_file_path(fields: Fields, common: dict[str, str], findings: Findings) -> Definition:
    return FilePathInput(
        **common,
        default=fields.text("default"),
        must_exist=fields.flag("must_exist", False),
        filter=fields.text("filter"),
    )


def in_range(value: int, low: int | None, high: int | None) -> bool:
    """Whether a number keeps to its bounds."""
    return (low is None or value >= low) and (high is None or value <= high)


def _whole(fields: Fields, name: str, findings: Findings) -> int | None:
    value = fields.number(name)
    if value is None or isinstance(value, int):
        return value
    findings.add(fields.at(name), "must be an integer", code="wrong_type")
    return None


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


_READERS: Mapping[str, Callable[[Fields, dict[str, str], Findings], Definition]] = {
    "promptString": _read_prompt,
    "pickString": _read_pick,
    "command": _read_command,
    "number": _read_number,
    "bool": _read_bool,
    "filePath": _read_file_path,
}
