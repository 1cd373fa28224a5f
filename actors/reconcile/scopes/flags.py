"""The files named on the command line, as one layer of servers and one of settings (R-SCOPE-3).

At a start whatever is wrong with one of them is raised. When they are read again while a Computer runs, a file that
turned bad keeps counting as it was and leaves a finding, as an ambient one does (F-66). Blocking; call it off the
event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ....wire.errors import ConfigValidationError, Finding, SmcpError
from ..config.findings import findings_of
from ..layers import FlagFile, read_flag_file, read_flag_settings
from ..server_set import Layer
from .settings import SettingsLayer

Said = TypeVar("Said", Layer, dict[str, Any])


class Flags(msgspec.Struct, frozen=True):
    """What the files of the command line say.

    Attributes:
        faults: Of files that turned bad since they were first read, which count as they were.
    """

    mcp: tuple[FlagFile[Layer], ...] = ()
    settings: FlagFile[dict[str, Any]] | None = None
    faults: tuple[Finding, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Servers and inputs, in command-line order."""
        return tuple(file.said for file in self.mcp)

    @property
    def settings_layers(self) -> tuple[SettingsLayer, ...]:
        """The settings, if a file of them was named."""
        return () if self.settings is None else (SettingsLayer("flag", self.settings.path, self.settings.said),)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong or worth knowing."""
        return (*self.faults, *(warning for file in self._files for warning in file.warnings))

    @property
    def losses(self) -> dict[str, Finding]:
        """Of each file that turned bad, the first fault; a degradation each."""
        return {os.path.abspath(fault.source or ""): fault for fault in reversed(self.faults)}

    @property
    def revisions(self) -> dict[str, str | None]:
        """What was read, by path; `None` for a file that is gone."""
        return {os.path.abspath(file.path): file.revision for file in self._files}

    @property
    def _files(self) -> tuple[FlagFile[Layer] | FlagFile[dict[str, Any]], ...]:
        return (*self.mcp, *(() if self.settings is None else (self.settings,)))


def read_flags(mcp_config: Sequence[str], settings: str | None) -> Flags:
    """Reads them for a start.

    Raises:
        ConfigValidationError, ConflictError, PolicyError: A file is missing or faulty.
    """
    return Flags(
        tuple(read_flag_file(path) for path in mcp_config), None if settings is None else read_flag_settings(settings)
    )


def read_flags_again(before: Flags) -> Flags:
    """Reads the same files again."""
    faults: list[Finding] = []
    mcp = tuple(_again(file, read_flag_file, faults) for file in before.mcp)
    settings = None if before.settings is None else _again(before.settings, read_flag_settings, faults)
    return Flags(mcp, settings, tuple(faults))


def _again(former: FlagFile[Said], read: Callable[[str], FlagFile[Said]], faults: list[Finding]) -> FlagFile[Said]:
    """The file as it is now, or as it was when it is bad now."""
    try:
        return read(former.path)
    except SmcpError as error:
        faults.extend(error.findings if isinstance(error, ConfigValidationError) else findings_of(error))
        revision = former.revision if os.path.exists(former.path) else None
        return msgspec.structs.replace(former, revision=revision)
