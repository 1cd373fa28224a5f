"""What a candidate value must be to count for its input (R-INPUT-13, R-INPUT-16). Errors never hold the value."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ....wire.errors import ConfigValidationError, InvalidSelectionError
from ....wire.inputs import PickStringInput
from ..config.inputs import BoolInput, Definition, FilePathInput, NumberInput, as_text, in_range

Value = str | int | bool

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_WORDS = {"true": True, "1": True, "yes": True, "是": True, "false": False, "0": False, "no": False, "否": False}


def settle(definition: Definition, candidate: object, exists: Callable[[str], bool] = os.path.exists) -> Value:
    """The typed value of a candidate from any source but the definition itself.

    Raises:
        InvalidSelectionError: It equals no option.
        ConfigValidationError: It cannot be converted, or breaks a bound; `field` is `inputs.<id>`.
    """
    match definition:
        case PickStringInput():
            if all(candidate != option.value for option in definition.options):
                raise InvalidSelectionError(
                    f"input {definition.id!r} holds none of its {len(definition.options)} options",
                    input_id=definition.id,
                )
            return str(candidate)
        case NumberInput():
            return _number(definition, candidate)
        case BoolInput():
            return _boolean(definition, candidate)
        case FilePathInput():
            return _path(definition, _text(definition, candidate), exists)
        case _:
            return _text(definition, candidate)


def _number(definition: NumberInput, candidate: object) -> int:
    if isinstance(candidate, str) and _WHOLE.fullmatch(candidate.strip()) and len(candidate) <= 32:
        candidate = int(candidate)
    if isinstance(candidate, bool) or not isinstance(candidate, int):
        raise _refused(definition, "must be an integer")
    if not in_range(candidate, definition.min, definition.max):
        raise _refused(definition, "must lie between its min and max")
    return candidate


def _boolean(definition: BoolInput, candidate: object) -> bool:
    if isinstance(candidate, bool):
        return candidate
    known = _WORDS.get(candidate.strip().lower()) if isinstance(candidate, str) else None
    if known is None:
        raise _refused(definition, "must be one of true, 1, yes, false, 0, no")
    return known


def _path(definition: FilePathInput, path: str, exists: Callable[[str], bool]) -> str:
    if definition.filter and not path.endswith(definition.filter):
        raise _refused(definition, f"must end in {definition.filter}")
    if definition.must_exist and not exists(path):
        raise _refused(definition, "must name an existing file")
    return path


def _text(definition: Definition, candidate: object) -> str:
    if isinstance(candidate, str):
        return candidate
    if isinstance(candidate, bool | int):
        return as_text(candidate)
    raise _refused(definition, "must be a text")


def _refused(definition: Definition, reason: str) -> ConfigValidationError:
    place = f"inputs.{definition.id}"
    return ConfigValidationError(f"{place}: {reason}", code="bad_value", field=place, input_id=definition.id)
