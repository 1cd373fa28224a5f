"""The administrator's settings: of several sources the first that says anything counts, alone (R-SCOPE-9).

Sources are functions, so that the choice is pure. Which there are depends on the platform.
Blocking where they read; call `from_platform` sources off the event loop.
"""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....wire.errors import ConfigValidationError, Finding
from ..config.json_text import load
from ..files.atomic import read_file
from ..files.intent import read_intent
from .places import MANAGED_DROP_INS, MANAGED_SETTINGS

MAC_PREFERENCES = Path("/Library/Managed Preferences/com.a2c.computer.plist")
WINDOWS_KEY = r"SOFTWARE\Policies\A2CComputer\Settings"
WINDOWS_VALUE = "Settings"


class Part(msgspec.Struct, frozen=True):
    """One whole of a source, such as a file: what it says unchecked, or why nobody understands it."""

    label: str
    values: Mapping[str, Any] = {}
    findings: tuple[Finding, ...] = ()

    def of(self, labels: Iterable[str]) -> list[str]:
        """Which of these parts it is: itself, and for a directory the files in it."""
        return [label for label in labels if label == self.label or os.path.dirname(label) == self.label]


class Source(msgspec.Struct, frozen=True):
    """One place for policy settings; `read` gives its parts, lowest first."""

    label: str
    read: Callable[[], tuple[Part, ...]]


class PolicySettings(msgspec.Struct, frozen=True):
    """The parts that count, lowest first, and what was wrong with sources that were asked."""

    parts: tuple[Part, ...] = ()
    findings: tuple[Finding, ...] = ()


def first_filled(sources: Iterable[Source], in_use: Collection[str] = ()) -> PolicySettings:
    """The first source that is not empty; one that fails is passed over with a finding.

    Args:
        in_use: Labels of parts that counted until now. One of them that broke still counts: whoever lost the policy
            must not gain by it (R-SEC-14).
    """
    findings: list[Finding] = []
    for source in sources:
        parts = source.read()
        findings.extend(finding for part in parts for finding in part.findings)
        counting = tuple(part for part in parts if part.values or (part.findings and part.of(in_use)))
        if counting:
            return PolicySettings(counting, tuple(findings))
    return PolicySettings(findings=tuple(findings))


def platform_sources(managed: Path, platform: str = sys.platform) -> tuple[Source, ...]:
    """The sources of this platform, strongest first. The remote endpoint is reserved: nothing is fetched for it."""
    files = managed_files(managed)
    if platform == "darwin":
        return (Source(str(MAC_PREFERENCES), lambda: (_read_preferences(MAC_PREFERENCES),)), files)
    if platform == "win32":
        machine, user = (
            Source(f"{hive}\\{WINDOWS_KEY}", lambda hive=hive: (_read_registry(hive),))  # type: ignore[misc]
            for hive in ("HKLM", "HKCU")
        )
        return (machine, files, user)
    return (files,)


def managed_files(managed: Path) -> Source:
    """`managed-settings.json` with `managed-settings.d/*.json` over it, in lexical order."""

    def read() -> tuple[Part, ...]:
        return (_read_file(managed / MANAGED_SETTINGS), *_read_drop_ins(managed / MANAGED_DROP_INS))

    return Source(str(managed / MANAGED_SETTINGS), read)


def chosen_source(policy_source: Any) -> tuple[tuple[Source, ...] | None, Path | None]:
    """What the option `policy_source` puts in place of the platform's: sources, and a managed directory.

    A path is a managed directory; an object, or a function that gives one, is the settings themselves.
    """
    if policy_source is None:
        return None, None
    if isinstance(policy_source, str | os.PathLike):
        managed = Path(policy_source)
        return (managed_files(managed),), managed
    give = policy_source if callable(policy_source) else lambda: policy_source
    return (Source("policy_source", lambda: (Part("policy_source", dict(give() or {})),)),), None


def _read_drop_ins(directory: Path) -> Iterable[Part]:
    try:
        found = sorted(path for path in directory.iterdir() if path.suffix == ".json")
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        # What it holds may be a denial: it is not to be missed without a word.
        finding = Finding("$", f"cannot be read: {error.strerror}", code="unreadable", source=str(directory))
        return (Part(str(directory), findings=(finding,)),)
    return map(_read_file, found)


def _read_file(path: Path) -> Part:
    try:
        return Part(str(path), read_intent(path, "settings").tree)
    except ConfigValidationError as error:
        return Part(str(path), findings=error.findings)


def _read_preferences(path: Path) -> Part:
    label = str(path)
    try:
        data = read_file(path)
        return _as_settings({} if data is None else plistlib.loads(data), label)
    except ConfigValidationError as error:
        return Part(label, findings=error.findings)
    except (plistlib.InvalidFileException, ValueError, IndexError, EOFError, SyntaxError):
        return Part(label, findings=(Finding("$", "is no property list", code="bad_plist", source=label),))


def _read_registry(hive: str) -> Part:
    label = f"{hive}\\{WINDOWS_KEY}"
    text = _registry_text(hive)
    try:
        return Part(label) if text is None else _as_settings(load(text, label), label)
    except ConfigValidationError as error:
        return Part(label, findings=error.findings)


def _registry_text(hive: str) -> str | None:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - exists on Windows only

        root = winreg.HKEY_LOCAL_MACHINE if hive == "HKLM" else winreg.HKEY_CURRENT_USER
        try:
            with winreg.OpenKey(root, WINDOWS_KEY) as key:
                value, _ = winreg.QueryValueEx(key, WINDOWS_VALUE)
        except OSError:
            return None
        return value if isinstance(value, str) else None
    return None


def _as_settings(tree: object, label: str) -> Part:
    if isinstance(tree, Mapping):
        return Part(label, tree)
    return Part(label, findings=(Finding("$", "must be an object", code="bad_shape", source=label),))
