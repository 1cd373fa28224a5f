"""Names of plugins and marketplaces (R-PLUGIN-1). Pure."""

from __future__ import annotations

from typing import NamedTuple

from ...wire.errors import ConfigValidationError
from ..reconcile.config.settings_fields import is_name


class PluginId(NamedTuple):
    """`<plugin>@<marketplace>`."""

    plugin: str
    marketplace: str

    def __str__(self) -> str:
        return f"{self.plugin}@{self.marketplace}"


def parse_plugin_id(text: str) -> PluginId:
    """The two names in a plugin id.

    Raises:
        ConfigValidationError: It is none (`bad_plugin_id`).
    """
    plugin, at, marketplace = text.partition("@")
    if not (at and is_name(plugin) and is_name(marketplace)):
        raise ConfigValidationError(
            f"{text[:140]!r} is no plugin id; expected <plugin>@<marketplace>, both in strict kebab-case",
            code="bad_plugin_id",
            field="plugin_id",
        )
    return PluginId(plugin, marketplace)


def check_marketplace_name(text: str) -> str:
    """The name, when it may name a marketplace.

    Raises:
        ConfigValidationError: It may not (`bad_name`).
    """
    if is_name(text):
        return text
    raise ConfigValidationError(
        f"{text[:140]!r} is no marketplace name; expected strict kebab-case of 1 to 64 characters",
        code="bad_name",
        field="marketplace",
    )
