"""A home, settings of all scopes and repositories, for operations on files alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from smcp_runtime.actors.plugins import operations
from smcp_runtime.actors.plugins.baseline import Baseline, baseline
from smcp_runtime.actors.plugins.ids import parse_plugin_id
from smcp_runtime.actors.plugins.ledger import read_ledger
from smcp_runtime.actors.plugins.recovery import Recovered, migrate, recover
from smcp_runtime.actors.plugins.site import Site, site_of
from smcp_runtime.actors.reconcile.approval.gate import rules_of
from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.loading import Loaded, load_all, settings_of
from smcp_runtime.actors.reconcile.scopes.settings import Settings

from .marketplaces import Repository, catalog

CONFIG = parse_computer_config({"name": "desk"}).config


class Home:
    """One user's places, and what is managed in them without a Computer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.config: dict[str, Any] = {"name": "desk"}
        self.options, _ = settle(
            RuntimeOptions(
                home=str(self.home),
                user_config_dir=str(root / "config"),
                state_dir=str(root / "state"),
                project_root=str(root / "project"),
                policy_source=str(root / "managed"),
                git_timeout_s=20.0,
            )
        )
        self.site: Site = site_of(self.options)

    @property
    def user_settings(self) -> Path:
        return self.root / "config" / "settings.json"

    def say(self, scope: str, **fields: Any) -> None:
        """Writes the settings of a scope anew."""
        path = {
            "user": self.user_settings,
            "project": self.root / "project/.tfrobot/settings.json",
            "local": self.root / "project/.tfrobot/settings.local.json",
            "policy": self.root / "managed/managed-settings.json",
        }[scope]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fields))

    def said(self, scope: str = "user") -> dict[str, Any]:
        """What the settings file of a scope says."""
        paths = {"user": self.user_settings, "local": self.root / "project/.tfrobot/settings.local.json"}
        path = paths[scope]
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def loaded(self) -> Loaded:
        return load_all(self.options)

    def settings(self) -> Settings:
        return settings_of(parse_computer_config(self.config).config, self.loaded())

    def boot(self, **how: Any) -> Recovered:
        """What a start would recover."""
        migrate(self.site, self.settings())
        return recover(self.site, self.settings(), boot=True, **how)

    def active(self) -> Baseline:
        """What would contribute."""
        recovered = self.boot()
        settings = self.settings()
        return baseline(recovered, settings, rules_of(settings))

    def declare(self, repository: Repository, name: str = "acme", *, scope: str = "user", **more: Any) -> None:
        self.say(scope, extraKnownMarketplaces={name: {"source": {"type": "git", "url": repository.url}}}, **more)

    def install(self, plugin_id: str, version: str | None = None) -> operations.Installed:
        return operations.install(self.site, self.settings(), parse_plugin_id(plugin_id), version)

    def enable(self, plugin_id: str, value: bool = True, scope: Any = None) -> operations.Opinion:
        return operations.write_opinion(self.site, self.settings(), parse_plugin_id(plugin_id), value, scope)

    def uninstall(self, plugin_id: str) -> operations.Departure:
        parsed = parse_plugin_id(plugin_id)
        known = recover(self.site, self.settings()).find(parsed)
        departure = operations.withdraw(self.site, self.settings(), parsed, known.bundle if known else None)
        operations.discard(self.site, parsed)
        return departure

    def ledger(self) -> dict[str, Any]:
        return dict(read_ledger(self.home)[0])

    def repository(self, name: str, *files: Any) -> Repository:
        return Repository(self.root / "repositories" / name, *files)

    def marketplace(self, name: str, *files: Any) -> Repository:
        """A repository with a manifest that lists the plugins in `files` by bare name."""
        plugins = sorted({path.split("/")[1] for one in files for path in one if path.startswith("plugins/")})
        return self.repository(name, catalog(name, *plugins), *files)

    def everything(self) -> dict[str, bytes]:
        """All files of the user by path, without locks."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name != "repositories"]
            for name in names:
                path = Path(folder, name)
                if path.suffix != ".lock" and path.is_file():
                    found[str(path.relative_to(self.root))] = path.read_bytes()
        return found
