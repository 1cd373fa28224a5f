"""Reading one object of a declaration: accepted spellings, expected types, leftovers.

Every getter notes its own fault and returns the default then, so that one pass finds
everything. `null` counts as absence. Nothing here ever puts a value into a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings, item, member
from .placeholders import is_pure_input

_ABSENT: Any = object()


class Fields:
    """The members of one object under their canonical names.

    Args:
        raw: The object as written.
        path: Its dotted path.
        aliases: Accepted spelling to canonical name.
    """

    def __init__(self, raw: Mapping[str, Any], path: str, findings: Findings, aliases: Mapping[str, str]) -> None:
        self.path = path
        self._findings = findings
        self._values: dict[str, Any] = {}
        self._written: dict[str, str] = {}
        self._taken: set[str] = set()
        for key, value in raw.items():
            name = aliases.get(key, key)
            if name not in self._values:
                self._values[name], self._written[name] = value, key
            elif self._values[name] != value:
                alias = key if key != name else self._written[name]
                findings.add(member(path, alias), f"differs from its other spelling {name!r}", code="alias_conflict")

    def at(self, name: str) -> str:
        """The path of a member, in the spelling that was used."""
        return member(self.path, self._written.get(name, name))

    def has(self, name: str) -> bool:
        """Whether the member is there and not null."""
        return self._values.get(name) is not None

    def take(self, name: str) -> Any:
        """The value as written, `None` when it is absent; marks the member as known."""
        self._taken.add(name)
        return self._values.get(name)

    def text(self, name: str, *, required: bool = False, empty: bool = True) -> str | None:
        """A string member."""
        value = self._take(name, required=required, expected="a string")
        if value is _ABSENT:
            return None
        if not isinstance(value, str):
            self._findings.wrong_type(self.at(name), "a string", value)
            return None
        if not empty and not value.strip():
            self._findings.add(self.at(name), "must not be empty", code="empty")
            return None
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A boolean member; nothing else passes for one."""
        value = self._take(name, expected="a boolean")
        if value is _ABSENT:
            return default
        if not isinstance(value, bool):
            self._findings.wrong_type(self.at(name), "a boolean", value)
            return default
        return value

    def number(self, name: str) -> float | int | None:
        """A numeric member."""
        value = self._take(name, expected="a number")
        if value is _ABSENT:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._findings.wrong_type(self.at(name), "a number", value)
            return None
        return value

    def texts(self, name: str) -> list[str]:
        """A member that is an array of strings."""
        value = self._take(name, expected="an array of strings")
        if value is _ABSENT:
            return []
        if not isinstance(value, list | tuple):
            self._findings.wrong_type(self.at(name), "an array of strings", value)
            return []
        for index, element in enumerate(value):
            if not isinstance(element, str):
                self._findings.wrong_type(item(self.at(name), index), "a string", element)
        return [element for element in value if isinstance(element, str)]

    def text_map(self, name: str) -> dict[str, str] | None:
        """A member that is an object of strings, `None` when absent."""
        value = self.object(name)
        if value is None:
            return None
        for key, element in value.items():
            if not isinstance(element, str):
                self._findings.wrong_type(member(self.at(name), key), "a string", element)
        return {key: element for key, element in value.items() if isinstance(element, str)}

    def object(self, name: str, *, required: bool = False) -> dict[str, Any] | None:
        """A member that is an object, `None` when absent."""
        value = self._take(name, required=required, expected="an object")
        if value is _ABSENT:
            return None
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self._findings.wrong_type(self.at(name), "an object", value)
            return None
        return dict(value)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """A string member out of a few."""
        value = self.text(name)
        if value is None:
            return default
        if value not in choices:
            self._findings.add(self.at(name), f"must be one of {', '.join(choices)}", code="bad_choice")
            return default
        return value

    def placeholder(self, name: str) -> str | None:
        """The member if it is one `${input:…}`, whose typed value is checked when it is rendered (R-INPUT-6)."""
        value = self._values.get(name)
        if not is_pure_input(value):
            return None
        self._taken.add(name)
        return str(value)

    def refuse_unknown(self, what: str) -> None:
        """Notes every member nobody took. Names the key, never what it holds (W-CFG-13)."""
        for name in self._values:
            if name not in self._taken:
                self._findings.add(self.at(name), f"unknown key in {what}", code="unknown_key")

    def unknown(self) -> dict[str, Any]:
        """Members nobody took, as written."""
        return {self._written[name]: value for name, value in self._values.items() if name not in self._taken}

    def _take(self, name: str, *, required: bool = False, expected: str) -> Any:
        self._taken.add(name)
        value = self._values.get(name)
        if value is not None:
            return value
        if required:
            self._findings.add(self.at(name), f"is required and must be {expected}", code="missing")
        return _ABSENT
