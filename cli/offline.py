"""The same operations when no Computer runs: intent and derived files alone; the projection follows at a start.

Blocking (R-CLI-2). Results are JSON values, as those of a running Computer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..actors.plugins import gc, marketplaces, operations
from ..actors.plugins.baseline import refuse_denied
from ..actors.plugins.bundle import Bundle
from ..actors.plugins.catalogs import declarations
from ..actors.plugins.desk import collected
from ..actors.plugins.ids import PluginId, check_marketplace_name, parse_plugin_id
from ..actors.plugins.ledger import read_knowns, read_ledger
from ..actors.plugins.operations import Departure
from ..actors.plugins.recovery import Recovered, migrate, recover
from ..actors.plugins.recycling import reclaimed
from ..actors.plugins.site import Report, Site, nobody, site_of
from ..actors.plugins.standing import standing_catalogs
from ..actors.plugins.views import marketplace_views, plugin_views
from ..actors.reconcile.composition import Picture
from ..actors.reconcile.config.computer_config import ComputerConfig
from ..actors.reconcile.config.options import RuntimeOptions
from ..actors.reconcile.loading import load_all, settings_of
from ..actors.reconcile.management.declaring import declare, read_declared
from ..actors.reconcile.management.operations import outcome_of_declaring, outcome_of_removing
from ..actors.reconcile.management.preview import preview
from ..actors.reconcile.management.server_desk import server_views, switched
from ..actors.reconcile.management.server_files import remove, switch
from ..actors.reconcile.scopes.settings import Settings
from ..actors.skills.discover import scan_plugins, scan_roots
from ..actors.skills.forbidden import ForbiddenNames
from ..wire.errors import ConfigValidationError, ConflictError, PartialFailureError
from ..wire.messages.management import ManagementResult
from ..wire.messages.plugins import CollectedPlugins
from ..wire.messages.skills import SkillState, SkillStatus
from ..wire.plain import plain
from . import intents

NEXT_START = "no Computer runs; this shows at its next start"
Words = Mapping[str, Any]


class Offline:
    """The files of one user and project.

    Args:
        options: Settled options.
        report: Told what work that takes long is at.
    """

    def __init__(self, options: RuntimeOptions, report: Report = nobody) -> None:
        self._options = options
        self._site: Site = site_of(options, report)
        self._config = ComputerConfig(name="computer")

    def carry_out(self, operation: str, words: Words) -> Any:
        """Does what is asked.

        Raises:
            ConflictError: That needs a Computer that runs (`not_running`).
            SmcpError: It failed.
        """
        if operation in intents.OPERATIONS:
            return intents.Intents(self._options).carry_out(operation, words)
        act = _OPERATIONS.get(operation)
        if act is None:
            raise ConflictError(f"{operation} needs a Computer that runs", code="not_running")
        migrate(self._site, self.settings())
        return plain(act(self, words))

    def settings(self) -> Settings:
        """The settings as the files say now."""
        return settings_of(self._config, load_all(self._options))

    def _picture(self) -> Picture:
        return preview(self._config, self._options).picture

    # -- servers --------------------------------------------------------------------------------

    def servers(self, _: Words) -> Any:
        return server_views(self._picture(), {})

    def declare(self, words: Words) -> ManagementResult:
        server = words["server"]
        entry, picture = read_declared(server), self._picture()
        picture.refuse_claims(servers=(entry,))
        winner = picture.servers.get(entry.bundle_id)
        changed, scope = declare(server, words.get("scope", "local"), self._site.places, winner)
        return _later(outcome_of_declaring(changed, scope, self._picture().servers.get(entry.bundle_id)))

    def remove(self, words: Words) -> ManagementResult:
        bundle_id = words["bundle_id"]
        changed = remove(self._site.places, self._picture().servers.get(bundle_id), bundle_id, False)
        return _later(outcome_of_removing(changed, self._picture().servers.get(bundle_id)))

    def switch(self, words: Words, *, enabled: bool) -> ManagementResult:
        bundle_id = words["bundle_id"]
        member = self._picture().servers.get(bundle_id)
        if member is None:
            raise ConfigValidationError("there is no such server", code="unknown_server", bundle_id=bundle_id)
        changed = switch(self._site.places, member, enabled=enabled)
        return _later(switched(self._picture(), bundle_id, changed, enabled=enabled))

    # -- skills ---------------------------------------------------------------------------------

    def skills(self, _: Words) -> SkillStatus:
        """Those on disk; what servers bring needs servers."""
        picture = self._picture()
        forbidden = ForbiddenNames(self._options.forbidden_skill_files)
        finds = [scan_roots([str(self._site.home / "user")], forbidden)]
        finds += scan_plugins(list(enumerate(picture.base.skills)), forbidden)
        refs = (found.ref for one in finds for found in one.skills)
        skills = (SkillState(ref.name, ref.source, ref.path, ref.description) for ref in refs)
        notes = (note for one in finds for lines in one.notes.values() for note in lines)
        return SkillStatus(tuple(sorted(skills, key=lambda skill: skill.name)), tuple(notes))

    # -- plugins --------------------------------------------------------------------------------

    def plugins(self, _: Words) -> Any:
        picture = self._picture()
        return plugin_views(picture.loaded.plugins, picture.base, picture.settings, picture.servers)

    def install(self, words: Words) -> ManagementResult:
        plugin_id = parse_plugin_id(words["plugin_id"])
        made = operations.install(self._site, self.settings(), plugin_id, words.get("version"))
        servers = self._picture().servers
        there = tuple(one for one in made.bundle.bundle_ids if one in servers)
        notes = tuple(f"dependency satisfied: {one} is there already and stays as it is" for one in there)
        return ManagementResult(made.changed, written_scope="user", warnings=(NEXT_START,), diagnostics=notes)

    def opine(self, words: Words, *, value: bool) -> ManagementResult:
        plugin_id = parse_plugin_id(words["plugin_id"])
        picture = self._picture()
        known = picture.loaded.plugins.find(plugin_id)
        if value and known is not None and known.bundle is not None:
            refuse_denied(known.bundle, picture.rules)
        opinion = operations.write_opinion(self._site, self.settings(), plugin_id, value, words.get("scope"))
        after = self.settings()
        is_effective = after.merged["enabledPlugins"].get(str(plugin_id)) is value
        above = None if is_effective else after.source_of(("enabledPlugins", str(plugin_id)))
        label = above.label if above is not None else None
        return ManagementResult(opinion.changed, is_effective, label, opinion.scope, (NEXT_START,))

    def uninstall(self, words: Words) -> ManagementResult:
        plugin_id = parse_plugin_id(words["plugin_id"])
        known = self._picture().loaded.plugins.find(plugin_id)
        departure = self._withdraw(plugin_id, known.bundle if known else None)
        picture = self._picture()
        ledger, _ = read_ledger(self._site.home)
        others = {key: [one for record in records for one in record.mcp_servers] for key, records in ledger.items()}
        gone = reclaimed(departure.servers, others, picture.layers)
        notes = tuple(f"{one} goes with it" for one in gone)
        label = departure.remaining[0] if departure.remaining else None
        return ManagementResult(departure.changed, label is None, label, "user", (NEXT_START,), notes)

    def _withdraw(self, plugin_id: PluginId, known: Bundle | None) -> Departure:
        departure = operations.withdraw(self._site, self.settings(), plugin_id, known)
        if not departure.remaining:
            operations.discard(self._site, plugin_id)
        return departure

    def collect(self, words: Words) -> CollectedPlugins:
        settings = self.settings()
        recovered = recover(self._site, settings)
        prune = words.get("prune_dangling", False)
        return collected(gc.collect(self._site, settings, recovered, prune_dangling=prune))

    # -- marketplaces ---------------------------------------------------------------------------

    def marketplaces(self, _: Words) -> Any:
        settings = self.settings()
        knowns, _notes = read_knowns(self._site.home)
        return marketplace_views(Recovered(catalogs=standing_catalogs(self._site, settings)), settings, knowns)

    def add_marketplace(self, words: Words) -> ManagementResult:
        added = marketplaces.add_marketplace(
            self._site,
            self.settings,
            words["url"],
            words.get("name"),
            trust=words.get("trust", False),
            auto_update=words.get("auto_update"),
            fetch=words.get("fetch", True),
        )
        return ManagementResult(added.changed, written_scope="user", diagnostics=added.notes)

    def remove_marketplace(self, words: Words) -> ManagementResult:
        settings, name = self.settings(), check_marketplace_name(words["name"])
        installed = [parse_plugin_id(text) for text in settings.names("installedPlugins")]
        keep = words.get("keep_plugins", False)
        leaving = [] if keep else [one for one in installed if one.marketplace == name]
        changed = marketplaces.undeclare_marketplace(self._site, settings, name, leaving)
        for plugin_id in leaving:
            self._withdraw(plugin_id, None)
        after = self.settings()
        return _later(marketplaces.end_removal(self._site, after, name, changed=changed, keep_plugins=keep))

    def set_marketplace(self, words: Words) -> ManagementResult:
        return marketplaces.set_auto_update(self._site, self.settings(), words["name"], words["auto_update"])

    def refresh(self, words: Words) -> ManagementResult:
        settings = self.settings()
        declared = declarations(settings)
        names = frozenset(words.get("names") or declared)
        for name in sorted(names - declared.keys()):
            raise ConfigValidationError(f"no marketplace {name!r} is declared", code="unknown_marketplace")
        report = recover(self._site, settings, refresh=names).catalogs.report
        failed = sorted(names & (report.failed | report.skipped).keys())
        if failed:
            applied = sorted(names - set(failed))
            reasons = "; ".join((report.failed | report.skipped)[name].reason for name in failed)
            raise PartialFailureError(f"not everything could be refreshed: {reasons}", applied=applied, failed=failed)
        changed = bool(report.updated or report.installed)
        return ManagementResult(changed, warnings=(NEXT_START,))

    def prune(self, _: Words) -> ManagementResult:
        gone = gc.prune(self._site, self.settings())
        return ManagementResult(bool(gone), diagnostics=tuple(f"{name} is deleted" for name in gone))


def _later(result: ManagementResult) -> ManagementResult:
    return msgspec.structs.replace(result, warnings=(*result.warnings, NEXT_START))


_OPERATIONS: Mapping[str, Callable[[Offline, Words], Any]] = {
    "server.list": Offline.servers,
    "server.declare": Offline.declare,
    "server.remove": Offline.remove,
    "server.enable": lambda files, words: files.switch(words, enabled=True),
    "server.disable": lambda files, words: files.switch(words, enabled=False),
    "skill.list": Offline.skills,
    "plugin.list": Offline.plugins,
    "plugin.install": Offline.install,
    "plugin.uninstall": Offline.uninstall,
    "plugin.enable": lambda files, words: files.opine(words, value=True),
    "plugin.disable": lambda files, words: files.opine(words, value=False),
    "plugin.gc": Offline.collect,
    "marketplace.list": Offline.marketplaces,
    "marketplace.add": Offline.add_marketplace,
    "marketplace.remove": Offline.remove_marketplace,
    "marketplace.set": Offline.set_marketplace,
    "marketplace.refresh": Offline.refresh,
    "marketplace.prune": Offline.prune,
}
