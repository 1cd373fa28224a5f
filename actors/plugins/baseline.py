"""What active plugins contribute to the set, all of a plugin or nothing (R-PLUGIN-20…22, R-GATE-8, R-GATE-9). Pure.

Plugins stand below every scope: they supply a server only where nobody else declares it
(R-SCOPE-2). Among plugins the one installed first supplies it, so that a newcomer cannot
take a server over (F-111).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ...wire.errors import Finding, PolicyError
from ...wire.messages.skills import PluginSkills
from ..reconcile.approval.gate import Rules, judge_safety
from ..reconcile.config.server_entry import ServerEntry
from ..reconcile.config.server_entry import canonical as canonical_entry
from ..reconcile.scopes.settings import Settings
from ..reconcile.server_set import Layer, SetEntry
from .bundle import Bundle
from .recovery import Recovered
from .trust import is_trust_enabled


class Baseline(msgspec.Struct, frozen=True):
    """The contributions of all active plugins.

    Attributes:
        bundles: Of plugins that contribute, in order of installation.
        untrusted: Plugins that a project alone enables.
        suppressed: Active plugins that contribute nothing, and why; by plugin id.
        findings: Clashes that cost nothing.
        owners: Which plugin supplies each bundled server, by bundle_id.
    """

    bundles: tuple[Bundle, ...] = ()
    untrusted: frozenset[str] = frozenset()
    suppressed: dict[str, Finding] = {}
    findings: tuple[Finding, ...] = ()
    owners: dict[str, str] = {}

    @property
    def layers(self) -> tuple[Layer, ...]:
        """One layer a plugin. Of layers of one origin the later is the stronger, and the first installed shall be."""
        return tuple(Layer("plugin", bundle.declaration) for bundle in reversed(self.bundles))

    @property
    def skills(self) -> tuple[PluginSkills, ...]:
        """What the skill registry scans, in order of installation."""
        return tuple(
            PluginSkills(
                bundle.plugin_id.plugin,
                bundle.plugin_id.marketplace,
                str(bundle.root),
                bundle.containers,
                bundle.version,
            )
            for bundle in self.bundles
        )

    def plugin_of(self, member: SetEntry) -> str | None:
        """The plugin a member of the set is bound to; one that somebody declares is bound to none."""
        return self.owners.get(member.bundle_id) if member.origin == "plugin" else None

    def without(self, dropped: Mapping[str, Finding]) -> Baseline:
        """The baseline without some plugins."""
        kept = tuple(bundle for bundle in self.bundles if str(bundle.plugin_id) not in dropped)
        suppressed = {**self.suppressed, **dropped}
        return msgspec.structs.replace(self, bundles=kept, suppressed=suppressed, owners=_owners(kept))


def baseline(recovered: Recovered, settings: Settings, rules: Rules) -> Baseline:
    """What the active ones of the installed plugins contribute."""
    enabled = settings.merged.get("enabledPlugins", {})
    bundles = [plugin.bundle for plugin in recovered.plugins if plugin.bundle and enabled.get(str(plugin.id)) is True]
    suppressed = {}
    kept = []
    for bundle in bundles:
        objection = _objection(bundle, rules)
        if objection is None:
            kept.append(bundle)
        else:
            suppressed[str(bundle.plugin_id)] = objection
    ids = (str(bundle.plugin_id) for bundle in kept)
    untrusted = frozenset(plugin_id for plugin_id in ids if not is_trust_enabled(plugin_id, settings))
    return Baseline(tuple(kept), untrusted, suppressed, tuple(_clashes(kept)), _owners(kept))


def needs_trust(base: Baseline) -> Callable[[SetEntry], bool]:
    """Who is led through the trust steps of the gate: all that is declared, and what a project alone mounts."""

    def needed(member: SetEntry) -> bool:
        return member.origin != "plugin" or base.plugin_of(member) in base.untrusted

    return needed


def cut(base: Baseline, registered: Sequence[Layer], reasons: Iterable[Finding]) -> dict[str, Finding]:
    """Plugins of which registration left something out; they contribute nothing rather than a half (R-PLUGIN-20)."""
    whole = {layer.declaration.label: layer.declaration for layer in registered if layer.origin == "plugin"}
    why = {finding.source: finding for finding in reasons}
    dropped = {}
    for bundle in base.bundles:
        declared = bundle.declaration
        if whole.get(declared.label) != declared:
            finding = why.get(declared.label)
            reason = finding.reason if finding is not None else "its variables are taken"
            plugin_id = str(bundle.plugin_id)
            dropped[plugin_id] = Finding(plugin_id, reason, "conflict", "env_name_collision", plugin_id)
    return dropped


def overridden(base: Baseline, servers: Mapping[str, SetEntry]) -> tuple[Finding, ...]:
    """Bundled servers that somebody else declares, who stays in charge (R-PLUGIN-18)."""
    return tuple(
        Finding(
            bundle_id,
            f"is declared by {servers[bundle_id].source}, which counts; {plugin_id} brings one of the same id",
            code="dependency_satisfied",
            source=plugin_id,
        )
        for bundle_id, plugin_id in base.owners.items()
        if bundle_id in servers and servers[bundle_id].origin != "plugin"
    )


def refuse_denied(bundle: Bundle, rules: Rules) -> None:
    """Refuses to enable a plugin that would contribute nothing because a server of it is denied (R-GATE-8).

    Raises:
        PolicyError: One is (`server_denied`).
    """
    for bundle_id in bundle.bundle_ids:
        objection = judge_safety(bundle_id, rules)
        if objection is not None:
            reason, text = f"its server {bundle_id} is {objection.reason}", str(bundle.plugin_id)
            raise PolicyError(reason, code="server_denied", plugin_id=text, bundle_id=bundle_id)


def _objection(bundle: Bundle, rules: Rules) -> Finding | None:
    """The safety layer's objection to any of a plugin's servers, which then suppresses all of it (DEC-15)."""
    plugin_id = str(bundle.plugin_id)
    for bundle_id in bundle.bundle_ids:
        judgement = judge_safety(bundle_id, rules)
        if judgement is not None:
            reason = f"its server {bundle_id} is {judgement.reason} (step {judgement.step})"
            return Finding(plugin_id, reason, "policy", "server_denied", plugin_id)
    return None


def _owners(bundles: Iterable[Bundle]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for bundle in bundles:
        for bundle_id in bundle.bundle_ids:
            owners.setdefault(bundle_id, str(bundle.plugin_id))
    return owners


def _clashes(bundles: Iterable[Bundle]) -> list[Finding]:
    first: dict[str, tuple[str, ServerEntry]] = {}
    clashes = []
    for bundle in bundles:
        plugin_id = str(bundle.plugin_id)
        for server in bundle.servers:
            owner, known = first.setdefault(server.bundle_id, (plugin_id, server))
            if canonical_entry(known) != canonical_entry(server):
                reason = f"{owner} brings it too, with another configuration, and was installed first"
                clashes.append(Finding(server.bundle_id, reason, "conflict", "bundled_twice", plugin_id))
    return clashes
