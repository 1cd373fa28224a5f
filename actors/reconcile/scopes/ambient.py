"""The files that merely lie where they lie: user, project, local and policy, read with tolerance (R-SCOPE-13).

One bad entry costs that entry, one bad file that file, and each leaves a finding. A file
that turned bad since it was last read keeps counting as it was (F-66). Blocking; call it
off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ....wire.errors import ConfigValidationError, Finding
from ..config.declaration import Declaration, read_mcp_file
from ..config.findings import Findings
from ..files.intent import Intent, read_intent
from ..server_set import Layer, Origin
from .places import MANAGED_MCP, Places
from .policy import Source, chosen_source, first_filled, platform_sources
from .settings import SettingsLayer, read_scope

T = TypeVar("T", Layer, SettingsLayer)


class Ambient(msgspec.Struct, frozen=True):
    """What the ambient files say.

    Attributes:
        findings: Everything that was wrong or is worth knowing.
        losses: Of each file of which something does not count, the first fault; a degradation each.
        revisions: What was read, by path; `None` for a file that is not there.
    """

    layers: tuple[Layer, ...] = ()
    settings: tuple[SettingsLayer, ...] = ()
    findings: tuple[Finding, ...] = ()
    losses: dict[str, Finding] = {}
    revisions: dict[str, str | None] = {}


def load_ambient(places: Places, policy_source: Any = None, before: Ambient | None = None) -> Ambient:
    """Reads every ambient file.

    Args:
        policy_source: The option of that name.
        before: What was read last, for files that are broken now.
    """
    reader = _Reader(before or Ambient())
    for origin, pair in places.pairs.items():
        reader.settings(origin, pair.settings)
        reader.declaration(origin, pair.mcp)
    sources, managed = chosen_source(policy_source)
    if sources is None:
        sources, managed = platform_sources(places.managed), places.managed
    reader.policy(sources)
    if managed is not None:
        reader.declaration("policy", managed / MANAGED_MCP)
    return reader.result()


class _Reader:
    def __init__(self, before: Ambient) -> None:
        self._before = before
        self._layers: list[Layer] = []
        self._settings: list[SettingsLayer] = []
        self._findings: list[Finding] = []
        self._losses: dict[str, Finding] = {}
        self._revisions: dict[str, str | None] = {}

    def settings(self, origin: Origin, path: Path) -> None:
        """A settings file."""
        former = {layer.label: layer for layer in self._before.settings}
        layer = self._read(path, lambda intent: self._checked(origin, str(path), intent.tree), former)
        if layer is not None:
            self._settings.append(layer)

    def declaration(self, origin: Origin, path: Path) -> None:
        """A declaration file."""
        former = {layer.declaration.label: layer for layer in self._before.layers}
        layer = self._read(path, lambda intent: self._declared(origin, str(path), intent), former)
        if layer is not None:
            self._layers.append(layer)

    def policy(self, sources: tuple[Source, ...]) -> None:
        """The policy settings: a layer for each part, so that what is wrong in one costs nothing of another."""
        former = {layer.label: layer for layer in self._before.settings if layer.origin == "policy"}
        chosen = first_filled(sources, former)
        self._findings.extend(chosen.findings)
        for finding in chosen.findings:
            self._losses.setdefault(finding.source or "policy", finding)
        for part in chosen.parts:
            if part.findings:
                self._settings.extend(former[label] for label in part.of(former))
            else:
                self._settings.append(self._checked("policy", part.label, part.values))

    def result(self) -> Ambient:
        """Everything read."""
        return Ambient(tuple(self._layers), tuple(self._settings), tuple(self._findings), self._losses, self._revisions)

    def _read(self, path: Path, parse: Callable[[Intent], T], former: dict[str, T]) -> T | None:
        label = str(path)
        try:
            intent = read_intent(path, "mcp" if path.name in _MCP_NAMES else "settings")
        except ConfigValidationError as error:
            self._findings.extend(error.findings)
            self._losses[label] = error.findings[0]
            self._revisions[label] = self._before.revisions.get(label)
            return former.get(label)
        self._revisions[label] = intent.revision
        return parse(intent) if intent.revision is not None else None

    def _checked(self, origin: Origin, label: str, tree: Any) -> SettingsLayer:
        findings = Findings(label)
        layer = read_scope(tree, origin, label, findings)
        self._findings.extend((*findings.faults, *findings.warnings))
        return layer

    def _declared(self, origin: Origin, label: str, intent: Intent) -> Layer:
        declaration: Declaration
        declaration, findings = read_mcp_file(intent.text, label)
        self._findings.extend((*findings.faults, *findings.warnings))
        if findings.faults:
            self._losses[label] = findings.faults[0]
        return Layer(origin, declaration)


_MCP_NAMES = frozenset({"mcp.json", "mcp.local.json", MANAGED_MCP})
