"""One rendering of one server for one actual start: inputs resolved, placeholders replaced, env file read.

Nothing is kept from one rendering to the next (R-INPUT-19, R-INPUT-20).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import anyio

from ....wire.errors import ConfigValidationError
from ....wire.inputs import CommandInput
from ....wire.messages.mcp import LaunchPlan
from ....wire.redaction import SecretRegistry
from ..config.directories import home_of_user
from ..config.findings import Findings
from ..config.inputs import Definition, kind_of
from ..config.options import RuntimeOptions
from ..config.placeholders import Surroundings
from ..config.policies import Layer, ServerPolicies, read_runtime, settle
from ..config.server_entry import ServerEntry
from ..files.atomic import read_file
from .env_file import parse_env_file
from .launch import LaunchContext, launch_plan, render_entry
from .resolution import Chain, ResolveFor, resolve
from .scoped_ids import lookup

logger = logging.getLogger(__name__)

LARGEST_ENV_FILE = 1024 * 1024
"""Bytes."""


def policies_of(entry: ServerEntry, settings: Mapping[str, Any], options: RuntimeOptions) -> ServerPolicies:
    """The settled policies of a server: settings for it, its own keys, settings for all, options, table."""
    defaults, by_id = read_runtime(settings.get("mcpServerRuntime"), "mcpServerRuntime", Findings())
    own: Layer = {"health_check": entry.health_check, "reconnect": entry.reconnect}
    return settle([by_id.get(entry.bundle_id, {}), own, defaults, options.policy_layer])


class Renderer:
    """Renders servers with the options of one run.

    Args:
        options: Settled options.
        chain: Sources of values beside the environment and the definitions.
        registry: Learns every secret that was resolved, so that others can keep it inside (R-INPUT-23).
    """

    def __init__(self, options: RuntimeOptions, chain: Chain, registry: SecretRegistry) -> None:
        self._options = options
        self._chain = chain
        self._registry = registry

    async def render(
        self,
        entry: ServerEntry,
        definitions: Mapping[str, Definition],
        policies: ServerPolicies,
        *,
        is_automatic: bool,
        plugin_id: str | None = None,
    ) -> LaunchPlan:
        """The plan of one start.

        Args:
            plugin_id: The plugin the server is bound to, whose inputs come first (R-INPUT-9).
        Raises:
            MissingInputError, InvalidSelectionError, ConfigValidationError, StartupError: It cannot be rendered.
        """
        environ = self._options.environ
        around = Surroundings(environ, home_of_user(environ), os.sep)
        context = LaunchContext(
            around, self._options.project_root or os.getcwd(), policies, self._options.server_start_timeout_s
        )
        asked = ResolveFor(entry.bundle_id, plugin_id, is_automatic=is_automatic)
        values = await resolve(entry.referenced_inputs, definitions, environ, self._chain, asked)
        secrets = [
            value
            for reference, value in values.items()
            if isinstance(value, str)
            and any(_is_secret(definitions[one]) for one in lookup(reference, plugin_id, definitions).ids)
        ]
        self._registry.use(entry.bundle_id, secrets)
        rendered = render_entry(entry, values, context)
        notes = list(rendered.notes)
        file_env: dict[str, str] = {}
        if rendered.env_file is not None and entry.type == "stdio":
            file_env, file_notes = await anyio.to_thread.run_sync(_read_env_file, rendered.env_file)
            notes.extend(file_notes)
        for note in notes:
            logger.warning("%s: %s", entry.bundle_id, note)
        return launch_plan(entry, rendered, file_env, context, secrets)


def _is_secret(definition: Definition) -> bool:
    """Whether its values must never be shown: a password, or what a command printed (R-INPUT-23)."""
    return kind_of(definition) == "secret" or isinstance(definition, CommandInput)


def _read_env_file(path: str) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        data = read_file(path, limit=LARGEST_ENV_FILE)
        text = None if data is None else data.decode("utf-8")
        why = "there is none"
    except ConfigValidationError as error:
        text, why = None, error.findings[0].reason
    except UnicodeDecodeError:
        text, why = None, "is not UTF-8"
    if text is None:
        return {}, (f"the env file could not be read and was left out: {why}",)
    values, notes = parse_env_file(text)
    return values, tuple(f"env file, {note}" for note in notes)
