"""The set in the making: layers into members, members into what every other part needs of them.

Holds no task and awaits nothing. The actor asks it what a configuration would mean, and
tells it which picture is current.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ...wire.errors import ConflictError, Finding
from ...wire.messages.projection import PendingApproval
from ...wire.protocol import ACK_BUDGET
from ..plugins.baseline import Baseline, baseline, cut, needs_trust, overridden
from .approval.gate import Rules, gate, rules_of
from .approval.requests import pending_approvals
from .commits.committer import Projection
from .config import directories
from .config.computer_config import ComputerConfig
from .config.config_projection import project_config
from .config.env_names import collisions
from .config.findings import Findings, render
from .config.inputs import Definition
from .config.options import RuntimeOptions
from .config.policies import ServerPolicies, read_runtime, settle
from .config.server_entry import ServerEntry
from .held import Held
from .layers import embed_layers
from .loading import Loaded, settings_of
from .rendering.scoped_ids import Lookup, lookup
from .scopes.registration import register
from .scopes.settings import Settings
from .scopes.trust import definer, projected_inputs, visible_inputs
from .server_set import Layer, SetEntry, refuse_collisions, resolve_inputs, resolve_servers

_FRAME_RESERVE = 1_024


class Picture(msgspec.Struct, frozen=True):
    """What all intents of a Computer come to.

    Attributes:
        collisions: Ambient entries that are left out because their variables are taken.
        trusted, project: Input definitions by id, as servers of trusted origin and of project origin see them.
        shown: Input definitions by id, as an Agent sees them.
        base: What plugins contribute.
    """

    config: ComputerConfig
    mounts: Mapping[str, ServerEntry]
    defined: Mapping[str, Definition]
    loaded: Loaded
    layers: tuple[Layer, ...]
    collisions: tuple[Finding, ...]
    settings: Settings
    rules: Rules
    servers: dict[str, SetEntry]
    policies: dict[str, ServerPolicies]
    trusted: dict[str, Definition]
    project: dict[str, Definition]
    shown: dict[str, Definition]
    base: Baseline = Baseline()

    def definitions_for(self, member: SetEntry) -> dict[str, Definition]:
        """The definitions a member of the set may use (R-INPUT-8)."""
        is_of_project = member.origin == "project" or self.base.plugin_of(member) in self.base.untrusted
        return self.project if is_of_project else self.trusted

    def lookups(self, member: SetEntry) -> tuple[Lookup, ...]:
        """Where the values of a member's inputs are looked for, one for each of its references (R-INPUT-9)."""
        definitions, plugin_id = self.definitions_for(member), self.base.plugin_of(member)
        return tuple(lookup(one, plugin_id, definitions) for one in member.entry.referenced_inputs)

    def definer_of(self, input_id: str) -> Layer | None:
        """The layer whose definition of an id is shown (R-INPUT-8)."""
        return definer(self.layers, input_id)

    def refuse_claims(self, inputs: Iterable[str] = (), servers: Iterable[ServerEntry] = ()) -> None:
        """Refuses what is about to be written when it would read a variable of somebody else (R-INPUT-18, F-10).

        Raises:
            ConflictError: Names the variable and all who would read it (`env_name_collision`).
        """
        members = {bundle_id: member.entry for bundle_id, member in self.servers.items()}
        members |= {entry.bundle_id: entry for entry in servers}
        referenced = {bundle_id: entry.referenced_inputs for bundle_id, entry in members.items()}
        clashes = collisions({*self.shown, *inputs}, referenced)
        if clashes:
            raise ConflictError(
                "; ".join(clash.describe() for clash in clashes), code="env_name_collision", field="inputs"
            )

    @property
    def order(self) -> tuple[str, ...]:
        """Servers in the order of their declaration."""
        return tuple(dict.fromkeys(entry.bundle_id for layer in self.layers for entry in layer.declaration.servers))

    @property
    def findings(self) -> tuple[str, ...]:
        """What was wrong or odd on disk, a line each."""
        of_plugins = (*self.loaded.plugins.findings, *self.base.suppressed.values(), *self.base.findings)
        on_disk = (*self.loaded.ambient.findings, *self.loaded.flags.findings)
        told = (*on_disk, *self.collisions, *of_plugins, *overridden(self.base, self.servers))
        return (*map(render, dict.fromkeys(told)), *self.loaded.plugins.notes, *self.loaded.plugins.catalogs.notes)

    @property
    def losses(self) -> dict[tuple[str, str], Finding]:
        """What does not count though it was declared, by component and identity; a degradation each (R-SCOPE-13)."""
        lost = {**self.loaded.ambient.losses, **self.loaded.flags.losses}
        files = {("settings", label): finding for label, finding in lost.items()}
        inputs = {("inputs", finding.source or "inputs"): finding for finding in self.collisions}
        plugins = {("plugin", plugin_id): finding for plugin_id, finding in self.base.suppressed.items()}
        return {**files, **inputs, **self.loaded.plugins.losses, **plugins}


class Composition:
    """What the intents of one Computer come to, and which of their pictures is current.

    Attributes:
        picture: The current one.
        pending: Servers of it that wait for an approval.
    """

    def __init__(self, held: Held, options: RuntimeOptions) -> None:
        self._held = held
        self._options = options
        self.picture = self.compose(held.config, held.mounts, Loaded())
        self.pending: tuple[PendingApproval, ...] = ()
        self._projected: tuple[dict[str, SetEntry], Projection] | None = None

    def compose(
        self,
        config: ComputerConfig,
        mounts: Mapping[str, ServerEntry],
        loaded: Loaded,
        defined: Mapping[str, Definition] | None = None,
    ) -> Picture:
        """The picture of these intents.

        Args:
            defined: Inputs defined for this run; `None` for those that are.
        Raises:
            ConflictError: Two inputs that were named explicitly would read one environment variable (R-INPUT-18).
        """
        defined = self._held.defined if defined is None else defined
        explicit = (*embed_layers(config, mounts.values(), defined.values()), *loaded.flags.layers)
        refuse_collisions(resolve_servers(explicit), resolve_inputs(explicit))
        settings = settings_of(config, loaded)
        rules = rules_of(settings, approve_all=self._options.approve_all_servers)
        base = baseline(loaded.plugins, settings, rules)
        registered = register(explicit, (*loaded.ambient.layers, *base.layers))
        dropped = cut(base, registered.layers, registered.findings)
        if dropped:
            base = base.without(dropped)
            registered = register(explicit, (*loaded.ambient.layers, *base.layers))
        servers = resolve_servers(registered.layers, gate(rules, needs_trust=needs_trust(base)))
        return Picture(
            config,
            mounts,
            dict(defined),
            loaded,
            registered.layers,
            registered.findings,
            settings,
            rules,
            servers,
            self._policies(servers, settings),
            visible_inputs(registered.layers, "user"),
            visible_inputs(registered.layers, "project"),
            projected_inputs(registered.layers),
            base,
        )

    def refuse_newcomers(self, picture: Picture) -> None:
        """Refuses a picture in which something that was named explicitly pushes out what is there already.

        Raises:
            ConflictError: Names the variable and all who would read it (R-INPUT-18).
        """
        pushed = [finding for finding in picture.collisions if finding not in self.picture.collisions]
        if pushed:
            raise ConflictError(
                "; ".join(finding.reason for finding in pushed), code="env_name_collision", field="inputs"
            )

    def adopt(self, picture: Picture) -> None:
        """Makes a picture current."""
        held = self._held
        held.config, held.mounts, held.loaded = picture.config, dict(picture.mounts), picture.loaded
        held.defined = dict(picture.defined)
        held.servers, held.settings = picture.servers, picture.settings
        self.picture = picture
        self.pending = pending_approvals(
            picture.servers.values(), picture.rules, picture.loaded.approved, picture.base.plugin_of
        )

    def clear(self) -> None:
        """Makes the empty set current."""
        self._held.halted()
        self.pending = ()
        self.picture = msgspec.structs.replace(
            self.picture, servers=self._held.servers, policies={}, trusted={}, project={}, shown={}, base=Baseline()
        )

    def project(self) -> Projection:
        """The configuration an Agent may see; made anew only for another picture."""
        servers, definitions = self.picture.servers, self.picture.shown
        if self._projected is None or self._projected[0] is not servers:
            config, notes = project_config(servers, definitions.values(), ACK_BUDGET - _FRAME_RESERVE)
            is_filled = bool(definitions) or any(member.is_projected for member in servers.values())
            self._projected = (servers, Projection(config, is_filled, notes))
        return self._projected[1]

    def skill_roots(self) -> tuple[str, ...]:
        """Directories of the user's own skills."""
        roots = self._held.config.skills
        return roots if roots is not None else (str(directories.resolve(self._options).home / "user"),)

    def _policies(self, servers: Mapping[str, SetEntry], settings: Settings) -> dict[str, ServerPolicies]:
        """Settled policies: settings for a server, its own keys, settings for all, options, table (03 §4.6)."""
        runtime = settings.merged.get("mcpServerRuntime")
        defaults, by_id = read_runtime(runtime, "mcpServerRuntime", Findings())
        weakest = self._options.policy_layer
        return {
            bundle_id: settle(
                [
                    by_id.get(bundle_id, {}),
                    {"health_check": member.entry.health_check, "reconnect": member.entry.reconnect},
                    defaults,
                    weakest,
                ]
            )
            for bundle_id, member in servers.items()
        }
