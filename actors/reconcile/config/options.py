"""RuntimeOptions: how one run behaves, never what it should contain (R-OPT-1, 03 §2.3).

An option left at `None` takes its environment variable, and where that is silent its
default. `settle` does this once, checks everything, and gives back options in which
nothing is left to be looked up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....wire import protocol
from ....wire.backoff import Backoff
from ....wire.errors import Finding
from ...finder.resolver import Resolver
from ...ops.access import SHORTEST, is_loopback, split
from ...tools.confirmation import ConfirmTool
from .computer_config import ComputerConfig
from .findings import Findings, member
from .policies import GROUPS, PLACEMENTS, Layer, Placement, read_group, read_runtime
from .settings_fields import is_absolute

Hook = Callable[..., Any]
KIB, MIB = 1024, 1024 * 1024
TOKEN_STORES = ("memory", "file")
OWN_STORES = ("keyring", "memory")
"""What `secret_providers` may name; everything else in it is a hook."""
LAUNCHERS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman"})
"""Commands that download before they start; each counts for itself (DEC-3)."""

_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")
_ENDPOINT = re.compile(r"(?:ipc|tcp)://\S+")


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """All options. Durations are seconds and sizes bytes; `None` is explained at each group.

    Attributes:
        env: The mapping every lookup uses; `None` for the process environment.
        flag_mcp_config, flag_settings: Files of the flag layer, in order of rising strength.
        secret_providers: Resolver hooks in order (R-INPUT-12), and `keyring` and `memory` for our own stores; `None`
            for these two.
        prompter: Asks a person; `None` for a run without one.
        token_store: Where authorizations at servers are kept: `memory`, `file` (0600), or an object with the methods
            of a secret store; `None` for the keyring, and memory where there is none (R-MCP-25).
        browser: Shows a person the page on which a server is authorized: its bundle_id and a URL; `None` for the
            browser of this machine.
        placement: Where servers run that say nothing else: `inline`, `process` or `external`. `server_limits` goes
            before it.
        bus: Endpoint of the hub for workers, `ipc:///path` or `tcp://host:port`; `None` for a private one, which
            external workers cannot find.
        bus_keys: Directory of the hub's key pair and of the public keys of external workers; `None` for `bus-keys`
            beside the user's settings with `tcp://`, and for none with `ipc://`, which its directory protects.
        server_approval: Asked with a `PendingApproval`; answers `approve`, `deny`, `approve_all` or `None` (R-GATE-12).
        approve_all_servers: Approves every server of project files, in this run only.
        auth_payload_provider: Value or callable evaluated at every handshake; excludes `connection.auth`.
        reconnect: Whether a lost Server is looked for again, with the delays of `reconnect_backoff`.
        inline_budget … upload_max_bytes, watch_polling: `None` takes the environment, then the default.
        log, health: Told each record of this package's log, and each change of a server, as a mapping without secrets.
        metrics: Told all samples at the start and every `metrics_interval_s` seconds: a mapping with `time` and
            `samples`, each with `name`, `labels` and `value`.
        management_authorization: Asked with a mapping about each operation that changes something; refuses by `False`.
        ops, ops_token: `HOST:PORT` of the operator endpoint, and what it asks for beyond loopback.
        tool_confirmation: Answers confirmations (W-CALL-7).
        reference_resolver: Form of the built-in document resolver, `blob` or `file`; `None` for none (C-DOC-31).
        document_resolver: The application's own, which goes before it (C-DOC-17).
        health_check, reconnect_policy, server_limits: Defaults of all servers, fields as in 03 §4.6.
    """

    home: str | None = None
    user_config_dir: str | None = None
    state_dir: str | None = None
    blob_cache_root: str | None = None
    env: Mapping[str, str] | None = None
    project_root: str | None = None
    flag_mcp_config: Sequence[str] = ()
    flag_settings: str | None = None
    policy_source: Any = None
    secret_providers: Sequence[Hook | str] | None = None
    prompter: Hook | None = None
    auth_payload_provider: Any = None
    transports: Sequence[str] = protocol.DEFAULT_TRANSPORTS
    connect_timeout_s: float = 10.0
    reconnect: bool = True
    reconnect_backoff: Backoff = field(default_factory=Backoff)
    rejoin_budget_s: float = 60.0
    inline_budget: int | None = None
    too_large_cap: int | None = None
    chunk_max_bytes: int | None = None
    upload_idle_timeout_s: float | None = None
    upload_max_concurrent: int | None = None
    upload_max_bytes: int | None = None
    source_trust: Hook | None = None
    plugin_approval: Hook | None = None
    server_approval: Hook | None = None
    token_store: Any = None
    browser: Hook | None = None
    approve_all_servers: bool = False
    management_authorization: Hook | None = None
    tool_confirmation: ConfirmTool | None = None
    log: Callable[[Mapping[str, Any]], None] | None = None
    metrics: Callable[..., Awaitable[None] | None] | None = None
    metrics_interval_s: float = 10.0
    health: Callable[..., Awaitable[None] | None] | None = None
    auto_start: bool = True
    server_start_timeout_s: float = 30.0
    start_wait_s: float = 1.0
    health_check: Mapping[str, Any] = field(default_factory=dict)
    reconnect_policy: Mapping[str, Any] = field(default_factory=dict)
    server_limits: Mapping[str, Any] = field(default_factory=dict)
    max_concurrent_starts: int = 8
    max_concurrent_per_launcher: int = 2
    placement: Placement = "inline"
    bus: str | None = None
    bus_keys: str | None = None
    ops: str | None = None
    ops_token: str | None = field(default=None, repr=False)
    skill_mount_roots: Sequence[str] = ()
    skill_allow_insecure_archive: bool = False
    forbidden_skill_files: Sequence[str] | None = None
    spool_persistent: bool = True
    reference_resolver: str | None = None
    document_resolver: Resolver | None = None
    git_timeout_s: float = 120.0
    coalesce_ms: float = 300.0
    coalesce_max_wait_ms: float = 2000.0
    drain_timeout_s: float = 5.0
    watch_user_skills: bool = True
    watch_polling: bool | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        """The mapping every lookup uses."""
        return os.environ if self.env is None else self.env

    @property
    def policy_layer(self) -> Layer:
        """The runtime-wide layer of server policies; only for settled options."""
        layer: dict[str, Mapping[str, Any]] = {
            "health_check": self.health_check,
            "reconnect": self.reconnect_policy,
            "limits": {"placement": self.placement, **self.server_limits},
        }
        return layer


@dataclass(frozen=True)
class LogSettings:
    """Logging as the environment asks for it (R-OPT-3)."""

    level: str = "INFO"
    file: str | None = None
    silent: bool = False


def settle(options: RuntimeOptions, config: ComputerConfig | None = None) -> tuple[RuntimeOptions, tuple[Finding, ...]]:
    """Checked options with nothing left open, and warnings about what was corrected.

    Args:
        config: The configuration they belong to, for the options that exclude something in it.
    Raises:
        ConfigValidationError: An option is out of bounds or excludes another; one error with all findings.
    """
    findings = Findings("options")
    changes: dict[str, Any] = {name: _number(options, name, findings) for name in _FROM_ENVIRONMENT}
    for name, group in _GROUP_OPTIONS.items():
        changes[name] = read_group(getattr(options, name), group, name, findings)
    if config is not None:
        findings.faults.extend(unreachable(config, options))
    flags = [options.flag_mcp_config] if isinstance(options.flag_mcp_config, str) else options.flag_mcp_config
    _check_bounds(options, findings)
    _check_choices(options, findings)
    _check_stores(options, findings)
    if (
        options.auth_payload_provider is not None
        and config is not None
        and config.connection
        and config.connection.auth
    ):
        findings.add("auth_payload_provider", "excludes connection.auth", code="exclusive")
    settled = replace(
        options,
        **changes,
        flag_mcp_config=tuple(flags),
        transports=_polling_first(options.transports, findings),
        project_root=options.project_root or _working_directory(findings),
        watch_polling=_watch_polling(options),
    )
    findings.raise_if_any("options")
    return settled, tuple(findings.warnings)


def unreachable(config: ComputerConfig, options: RuntimeOptions) -> tuple[Finding, ...]:
    """What a configuration places at external workers, though none can find this Computer."""
    if options.bus is not None:
        return ()
    everybody, single = read_runtime(config.settings.get("mcpServerRuntime"), "mcpServerRuntime", Findings())
    layers = {"defaults": everybody, **{member("servers", bundle_id): layer for bundle_id, layer in single.items()}}
    return tuple(
        Finding(f"mcpServerRuntime.{path}.placement", "external needs a bus endpoint", "validation", "no_bus")
        for path, layer in layers.items()
        if layer.get("limits", {}).get("placement") == "external"
    )


def _working_directory(findings: Findings) -> str:
    try:
        return os.getcwd()
    except OSError:
        findings.add("project_root", "the working directory does not exist any more", code="no_directory")
        return os.sep


def log_settings(environ: Mapping[str, str]) -> LogSettings:
    """`A2C_LOG_LEVEL`, `A2C_LOG_FILE`, `A2C_LOG_SILENT`; the prefix of inputs is never used for settings (R-OPT-3)."""
    level = environ.get("A2C_LOG_LEVEL", "").strip().upper()
    known = level if level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL") else "INFO"
    return LogSettings(
        known, environ.get("A2C_LOG_FILE", "").strip() or None, env_flag(environ, "A2C_LOG_SILENT", False)
    )


def env_flag(environ: Mapping[str, str], name: str, default: bool) -> bool:
    """A boolean variable: four words are true, blank or unset is the default, anything else false (R-OPT-2)."""
    word = environ.get(name, "").strip().lower()
    return word in _TRUE_WORDS if word else default


class _FromEnvironment:
    """An option with a variable, a default, and a largest value."""

    def __init__(self, variable: str, default: int, ceiling: int | None = None) -> None:
        self.variable, self.default, self.ceiling = variable, default, ceiling


_FROM_ENVIRONMENT: Mapping[str, _FromEnvironment] = {
    "inline_budget": _FromEnvironment("A2C_SKILL_INLINE_BUDGET", protocol.INLINE_BUDGET, 128 * KIB),
    "too_large_cap": _FromEnvironment("A2C_SKILL_MAX_SIZE", protocol.ABSOLUTE_CAP),
    "chunk_max_bytes": _FromEnvironment("A2C_BLOB_CHUNK_BYTES", protocol.CHUNK_MAX, protocol.CHUNK_CEILING),
    "upload_idle_timeout_s": _FromEnvironment("A2C_UPLOAD_IDLE_TIMEOUT", int(protocol.UPLOAD_IDLE_TIMEOUT)),
    "upload_max_concurrent": _FromEnvironment("A2C_UPLOAD_MAX_CONCURRENT", protocol.UPLOAD_CONCURRENT_MAX),
    "upload_max_bytes": _FromEnvironment("A2C_UPLOAD_MAX_BYTES", 100 * MIB),
}

_GROUP_OPTIONS: Mapping[str, str] = dict(
    zip(("health_check", "reconnect_policy", "server_limits"), GROUPS, strict=True)
)

_POSITIVE = (
    "connect_timeout_s",
    "rejoin_budget_s",
    "server_start_timeout_s",
    "git_timeout_s",
    "metrics_interval_s",
    "upload_idle_timeout_s",
    "too_large_cap",
    "chunk_max_bytes",
    "upload_max_concurrent",
    "upload_max_bytes",
)
_NOT_NEGATIVE = ("start_wait_s", "drain_timeout_s", "coalesce_ms", "coalesce_max_wait_ms", "inline_budget")
_AT_LEAST_ONE = ("max_concurrent_starts", "max_concurrent_per_launcher")


def _number(options: RuntimeOptions, name: str, findings: Findings) -> float:
    """The value of an option, of its variable, or its default; clamped to its ceiling with a warning (C-DEF-1)."""
    source = _FROM_ENVIRONMENT[name]
    value = getattr(options, name)
    if value is None:
        text = options.environ.get(source.variable, "").strip()
        if text and not (text.isascii() and text.isdecimal() and int(text) > 0):
            findings.warn(source.variable, "is not a positive integer, the default is used", code="bad_variable")
            text = ""
        value = int(text) if text else source.default
    if source.ceiling is not None and isinstance(value, int) and value > source.ceiling:
        findings.warn(name, f"is clamped to {source.ceiling}", code="clamped")
        return source.ceiling
    return value  # type: ignore[no-any-return]


def _check_bounds(options: RuntimeOptions, findings: Findings) -> None:
    for names, fits, expected in (
        (_POSITIVE, lambda value: value > 0, "a number > 0"),
        (_NOT_NEGATIVE, lambda value: value >= 0, "a number >= 0"),
        (_AT_LEAST_ONE, lambda value: isinstance(value, int) and value >= 1, "an integer >= 1"),
    ):
        for name in names:
            value = getattr(options, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not fits(value):
                findings.add(name, f"must be {expected}", code="out_of_bounds")


def _check_choices(options: RuntimeOptions, findings: Findings) -> None:
    if options.placement not in PLACEMENTS:
        findings.add("placement", f"must be one of {', '.join(PLACEMENTS)}", code="bad_choice")
    if options.bus is not None and not _ENDPOINT.fullmatch(options.bus):
        findings.add("bus", "must be an ipc:// or tcp:// endpoint", code="bad_endpoint")
    wanted = options.server_limits.get("placement", options.placement)
    if options.bus is None and wanted == "external":
        findings.add("placement", "external needs a bus endpoint", code="no_bus")
    if options.ops is not None:
        match = _HOST_PORT.fullmatch(options.ops)
        if match is None or int(match["port"]) > 65_535:
            findings.add("ops", "must be HOST:PORT", code="bad_endpoint")
        elif options.ops_token is None and not is_loopback(split(options.ops)[0]):
            findings.add("ops_token", "is needed to listen on anything but loopback", code="no_token")
        elif options.ops_token is not None and len(options.ops_token) < SHORTEST:
            findings.add("ops_token", f"has {SHORTEST} characters at least", code="weak_token")
    if options.reference_resolver not in (None, "blob", "file"):
        findings.add("reference_resolver", "must be blob, file or null", code="bad_choice")
    for index, root in enumerate(options.skill_mount_roots):
        if not is_absolute(root):
            findings.add(f"skill_mount_roots[{index}]", "must be an absolute path", code="not_absolute")
    for transport in options.transports:
        if transport not in protocol.DEFAULT_TRANSPORTS:
            findings.add("transports", "holds polling and websocket only", code="bad_choice")


def _check_stores(options: RuntimeOptions, findings: Findings) -> None:
    if isinstance(options.token_store, str) and options.token_store not in TOKEN_STORES:
        findings.add("token_store", f"must be one of {', '.join(TOKEN_STORES)}", code="bad_choice")
    for provider in options.secret_providers or ():
        if not callable(provider) and provider not in OWN_STORES:
            findings.add("secret_providers", "holds functions, keyring and memory only", code="bad_choice")


def _polling_first(transports: Sequence[str], findings: Findings) -> tuple[str, ...]:
    """The transports with polling in front: a refused handshake cannot be read otherwise."""
    if transports and transports[0] == "polling":
        return tuple(dict.fromkeys(transports))
    findings.warn("transports", "polling comes first, so that a refused handshake can be read", code="corrected")
    return ("polling", *(transport for transport in transports if transport != "polling"))


def _watch_polling(options: RuntimeOptions) -> bool:
    if options.watch_polling is not None:
        return options.watch_polling
    return env_flag(options.environ, "A2C_SKILL_WATCH_POLLING", False)
