"""What must outlive the reconcile actor: intents and wishes of one run, held by whoever composes the Computer.

A restarted actor finds here what it was told to do; what is going on now it learns from
its neighbours. The last projection is kept too, so that lists answer at once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire.redaction import SecretRegistry
from .config.computer_config import ComputerConfig
from .config.inputs import Definition
from .config.policies import Placement
from .config.server_entry import ServerEntry
from .loading import Loaded
from .pinning.board import Pinboard
from .rendering.candidates import Value
from .running.server_facts import ServerFacts
from .scopes.settings import Settings
from .server_set import SetEntry


class Held(msgspec.Struct):
    """Mutable on purpose, and touched by one actor at a time.

    Attributes:
        config: The embed layer; replaced by a sync only.
        loaded: What was read from disk; `None` before.
        settings: Settings of all scopes, as they count now.
        mounts: Servers mounted for this run, by bundle_id (R-CORE-9).
        defined: Inputs defined for this run, by id.
        stopped: Servers stopped by hand; everything else that may run is wanted.
        told: Servers whose actor was told in its present life to run, or to stand by.
        launched: What each server was last started from (`launch_shape`), by bundle_id.
        placed: Where each server's actor was started, and its `idle_stop` then, by bundle_id.
        listed: What the known tools of each lazy server belong to, by bundle_id (`key_of`).
        servers: The set as it is; a commit shows it.
        facts: What servers said last.
        commit: Number of the last commit.
        projection: GetComputerConfigRet of the last commit.
        is_running: Whether the servers were let start; from the first life of the actor until they are halted.
        signatures: Last signature of each slice, so that a restart is no change (R-PROJ-5).
        registry: Secrets resolved for servers, while in use (R-INPUT-23); never shown.
        run_values: Values of inputs set for this run, by resolved id; never shown.
        tokens: Authorizations at servers that no other store keeps; never shown.
        pins: Tools as they were when they were pinned (F-117).
        asked: Approvals that somebody was asked for, by bundle_id: the fingerprint of what was shown.
    """

    config: ComputerConfig
    loaded: Loaded | None = None
    settings: Settings = Settings()
    mounts: dict[str, ServerEntry] = {}
    defined: dict[str, Definition] = {}
    stopped: set[str] = msgspec.field(default_factory=set)
    told: set[str] = msgspec.field(default_factory=set)
    launched: dict[str, tuple[Any, ...]] = {}
    placed: dict[str, tuple[Placement, float | None]] = {}
    listed: dict[str, str] = {}
    servers: dict[str, SetEntry] = {}
    facts: ServerFacts = msgspec.field(default_factory=ServerFacts)
    commit: int = 0
    projection: bytes = b'{"servers":{},"inputs":[]}'
    signatures: dict[str, str] = {}
    is_running: bool = False
    registry: SecretRegistry = msgspec.field(default_factory=SecretRegistry)
    run_values: dict[str, Value] = {}
    tokens: dict[str, str] = {}
    pins: Pinboard = msgspec.field(default_factory=Pinboard)
    asked: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Held({self.config!r}, commit {self.commit})"

    @property
    def secrets(self) -> frozenset[str]:
        """Values resolved for servers that must not leave this Computer (R-LIFE-22)."""
        return self.registry.values

    def halted(self) -> None:
        """Forgets what belongs to servers that ran; intents stay."""
        self.servers, self.launched, self.placed, self.listed = {}, {}, {}, {}
        self.stopped.clear()
        self.told.clear()
        self.facts = ServerFacts()
        self.is_running = False
