"""The set in the making: layers into members, members into what every other part needs of them.

Holds no task and awaits nothing. The actor asks it what a configuration would mean, and
tells it which set is current.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...wire.protocol import ACK_BUDGET
from . import directories
from .committer import Projection
from .computer_config import ComputerConfig
from .config_projection import project_config
from .held import Held
from .inputs import Definition
from .layers import embed_layers, merge_settings
from .options import RuntimeOptions
from .policies import ServerPolicies
from .rendering import policies_of
from .server_entry import ServerEntry
from .server_set import Judge, Layer, SetEntry, refuse_collisions, resolve_inputs, resolve_servers

_FRAME_RESERVE = 1_024


class Composition:
    """What the intents of one Computer come to.

    Attributes:
        definitions: Input definitions by id.
        policies: Settled policies by bundle_id.
        order: Servers in the order of their declaration.
    """

    def __init__(self, held: Held, options: RuntimeOptions, judge: Judge) -> None:
        self._held = held
        self._options = options
        self._judge = judge
        self.definitions: dict[str, Definition] = {}
        self.policies: dict[str, ServerPolicies] = {}
        self.order: tuple[str, ...] = ()
        self._projected: tuple[dict[str, SetEntry], dict[str, Definition], Projection] | None = None

    def layers(self, config: ComputerConfig, mounts: Mapping[str, ServerEntry]) -> tuple[Layer, ...]:
        """The layers of a configuration with these mounts."""
        return (*embed_layers(config, mounts.values()), *(self._held.flags or ()))

    def servers(self, layers: tuple[Layer, ...]) -> dict[str, SetEntry]:
        """The set out of layers, judged.

        Raises:
            ConflictError: Two inputs would read one environment variable (R-INPUT-18).
        """
        servers = resolve_servers(layers, self._judge)
        refuse_collisions(servers, resolve_inputs(layers))
        return servers

    def policies_for(self, entry: ServerEntry, config: ComputerConfig) -> ServerPolicies:
        """The policies an entry would have under a configuration."""
        return policies_of(entry, merge_settings(config.settings, self._held.settings), self._options)

    def adopt(self, layers: tuple[Layer, ...], servers: dict[str, SetEntry]) -> None:
        """Makes a set current, together with the configuration that is held."""
        held = self._held
        held.servers = servers
        self.definitions = resolve_inputs(layers)
        self.policies = {
            bundle_id: self.policies_for(member.entry, held.config) for bundle_id, member in servers.items()
        }
        self.order = tuple(dict.fromkeys(entry.bundle_id for layer in layers for entry in layer.declaration.servers))

    def clear(self) -> None:
        """Makes the empty set current."""
        self._held.halted()
        self.definitions = {}

    def project(self) -> Projection:
        """The configuration an Agent may see; made anew only for another set."""
        servers, definitions = self._held.servers, self.definitions
        if self._projected is None or self._projected[0] is not servers or self._projected[1] is not definitions:
            config, notes = project_config(servers, definitions.values(), ACK_BUDGET - _FRAME_RESERVE)
            is_filled = bool(definitions) or any(member.is_projected for member in servers.values())
            self._projected = (servers, definitions, Projection(config, is_filled, notes))
        return self._projected[2]

    def skill_roots(self) -> tuple[str, ...]:
        """Directories of the user's own skills."""
        roots = self._held.config.skills
        return roots if roots is not None else (str(directories.resolve(self._options).home / "user"),)
