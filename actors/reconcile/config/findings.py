"""Findings: every fault of a declaration in one pass, by place and expectation, never by value (R-CFG-2, R-CFG-3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import msgspec

from ....wire.errors import ConfigValidationError, ConflictError, Finding, PolicyError, SmcpError

_PLAIN = re.compile(r"[A-Za-z0-9_$@-]+")


def member(path: str, key: str) -> str:
    """The path of a member: dotted, or quoted in brackets when the key would make dots ambiguous."""
    if not _PLAIN.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def item(path: str, index: int) -> str:
    """The path of a list element."""
    return f"{path}[{index}]"


class Findings:
    """Collects faults and warnings of one declaration source.

    Attributes:
        faults: What makes the declaration invalid.
        warnings: What is worth knowing and changes nothing.
    """

    def __init__(self, source: str | None = None) -> None:
        self.source = source
        self.faults: list[Finding] = []
        self.warnings: list[Finding] = []

    def add(self, field: str, reason: str, *, category: str = "validation", code: str = "invalid") -> None:
        """Notes a fault."""
        self.faults.append(Finding(field or "$", reason, category, code, self.source))

    def warn(self, field: str, reason: str, *, category: str = "validation", code: str = "ignored") -> None:
        """Notes a warning."""
        self.warnings.append(Finding(field or "$", reason, category, code, self.source))

    def wrong_type(self, field: str, expected: str, found: object) -> None:
        """Notes a value of another type than expected; names the type that was found, never the value."""
        self.add(field, f"must be {expected}, not {type_name(found)}", code="wrong_type")

    def raise_if_any(self, what: str) -> None:
        """Raises one error with all faults, if there are any."""
        if self.faults:
            raise error_of(self.faults, what)


def type_name(value: object) -> str:
    """JSON's word for the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, int | float):
        return "a number"
    return "an array" if isinstance(value, list | tuple) else "an object"


def render(finding: Finding) -> str:
    """One line for people: source, place, reason."""
    where = f"{finding.source}: " if finding.source else ""
    return where + _place_and_reason(finding)


def error_of(findings: Iterable[Finding], what: str) -> SmcpError:
    """The one public error of all findings: of the category they share, `ConfigValidationError` when they differ."""
    found = tuple(findings)
    first = found[0]
    shown = (_place_and_reason(finding) if finding.source == what else render(finding) for finding in found)
    lines = "\n".join(f"  {line}" for line in shown)
    message = f"{what} is invalid:\n{lines}"
    details = {"findings": [msgspec.to_builtins(finding) for finding in found]}
    cls = _CLASSES.get(first.category) if len({finding.category for finding in found}) == 1 else None
    if cls is not None:
        return cls(message, code=first.code, field=first.field, source=first.source, details=details)
    return ConfigValidationError(
        message, findings=found, code=first.code, field=first.field, source=first.source, details=details
    )


def findings_of(error: SmcpError) -> tuple[Finding, ...]:
    """All findings an error of `error_of` carries, also after it crossed the bus."""
    return tuple(msgspec.convert(error.details.get("findings", []), list[Finding]))


def _place_and_reason(finding: Finding) -> str:
    return f"{finding.field}: {finding.reason}"


_CLASSES: dict[str, type[SmcpError]] = {"conflict": ConflictError, "policy": PolicyError}
