"""The layers of a run: configuration and mounts, and the flag files an operator named (R-SCOPE-3, R-CFG-6).

Flag files are explicit: whatever is wrong with one is raised, and fails a start before anything happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from ...wire.errors import ConfigValidationError, Finding
from .config.computer_config import ComputerConfig
from .config.declaration import Declaration, read_mcp_file
from .config.findings import Findings
from .config.inputs import Definition
from .config.json_text import load
from .config.server_entry import ServerEntry
from .config.settings_fields import read_settings
from .files.atomic import read_file
from .files.intent import revision_of
from .server_set import Layer

Said = TypeVar("Said")

FOR_THIS_RUN = "mounted"
"""Label of what was mounted and defined for this run alone."""


def embed_layers(
    config: ComputerConfig, mounts: Iterable[ServerEntry], defined: Iterable[Definition] = ()
) -> tuple[Layer, ...]:
    """The configuration, and above it what was mounted and defined for this run; one origin (R-CORE-9)."""
    return (
        Layer("embed", config.declaration),
        Layer("embed", Declaration(FOR_THIS_RUN, tuple(mounts), tuple(defined))),
    )


class FlagFile(msgspec.Struct, Generic[Said], frozen=True):
    """A file that was named on the command line, as it was read.

    Attributes:
        warnings: What is worth knowing about it and no fault.
        revision: SHA-256 of its bytes, `None` once it is gone.
    """

    path: str
    said: Said
    warnings: tuple[Finding, ...]
    revision: str | None


def read_flag_file(path: str) -> FlagFile[Layer]:
    """An `--mcp-config` file. Reads it; call it off the event loop.

    Raises:
        ConfigValidationError, ConflictError: It is missing, unreadable or faulty; with all faults.
    """
    data = _read(path)
    declaration, findings = read_mcp_file(data, path)
    findings.raise_if_any(path)
    return FlagFile(path, Layer("flag", declaration), tuple(findings.warnings), revision_of(data))


def read_flag_settings(path: str) -> FlagFile[dict[str, Any]]:
    """A `--settings` file.

    Raises:
        ConfigValidationError, PolicyError: As `read_flag_file`.
    """
    findings, data = Findings(path), _read(path)
    settings = read_settings(load(data, path), "", findings)
    findings.raise_if_any(path)
    return FlagFile(path, settings, tuple(findings.warnings), revision_of(data))


def merge_settings(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Two settings objects as one: objects by key, arrays united, anything else from the higher (R-SCOPE-6)."""
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = merge_settings(below, value)
        elif isinstance(below, list) and isinstance(value, list):
            merged[key] = [*below, *(element for element in value if element not in below)]
        else:
            merged[key] = value
    return merged


def _read(path: str) -> bytes:
    data = read_file(Path(path))
    if data is not None:
        return data
    reason = "cannot be read: there is no such file"
    raise ConfigValidationError(
        f"{path}: {reason}",
        code="unreadable",
        field="$",
        source=path,
        findings=(Finding("$", reason, code="unreadable", source=path),),
    )
