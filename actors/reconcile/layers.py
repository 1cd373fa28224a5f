"""The layers of a run: configuration and mounts, and the flag files an operator named (R-SCOPE-3, R-CFG-6).

Flag files are explicit: whatever is wrong with one fails the start before anything happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...wire.errors import ConfigValidationError, Finding
from .config.computer_config import ComputerConfig
from .config.declaration import Declaration, read_mcp_file
from .config.findings import Findings
from .config.inputs import Definition
from .config.json_text import load
from .config.server_entry import ServerEntry
from .config.settings_fields import read_settings
from .files.atomic import read_file
from .server_set import Layer

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


def read_flag_files(paths: Sequence[str]) -> tuple[Layer, ...]:
    """The layers of `--mcp-config` files, in command-line order. Reads the files; call it off the event loop.

    Raises:
        ConfigValidationError, ConflictError: A file is missing, unreadable or faulty; with all faults of that file.
    """
    layers = []
    for path in paths:
        declaration, findings = read_mcp_file(_read(path), path)
        findings.raise_if_any(path)
        layers.append(Layer("flag", declaration))
    return tuple(layers)


def read_flag_settings(path: str | None) -> dict[str, Any]:
    """The settings of a `--settings` file.

    Raises:
        ConfigValidationError, PolicyError: As `read_flag_files`.
    """
    if path is None:
        return {}
    findings = Findings(path)
    settings = read_settings(load(_read(path), path), "", findings)
    findings.raise_if_any(path)
    return settings


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
