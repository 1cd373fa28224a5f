"""What `mcp/<bundle_id>` answers and announces: one MCP session, its process, its health.

Tool arguments and results, tool and resource listings cross as attachments: JSON text
that is produced once and embedded unchanged in the Socket.IO acknowledgement.
"""

from __future__ import annotations

from typing import Literal

from ..codec import Attachment
from ..message import Ask, Fact, Record

Transport = Literal["stdio", "streamable", "sse"]
Activation = Literal["stopped", "started"]
Connection = Literal["disconnected", "connecting", "connected", "authorization_required", "error"]
"""The two public axes of a server's status (R-MCP-24)."""


class HealthCheck(Record):
    """Probing of one server, in seconds (03 §4.6)."""

    enabled: bool = True
    interval: float = 30.0
    timeout: float = 5.0


class ReconnectPolicy(Record):
    """Restart law of one server, in seconds (DEC-1, R-MCP-21). `max_retries` 0 means for ever."""

    enabled: bool = True
    max_retries: int = 5
    initial_delay: float = 1.0
    max_delay: float = 30.0
    backoff_factor: float = 2.0
    stable_after: float = 60.0
    intensity_max: int = 5
    intensity_within: float = 60.0
    park_retry: float = 300.0


class CallLimits(Record):
    """Bulkhead and deadlines of one server (DEC-7, DEC-10, DEC-11). Times in seconds, `None` for off.

    `idle_stop` is how long a lazy server stays up without a call; a server that is not lazy has none (F-68).
    """

    max_in_flight: int = 32
    max_queued: int = 256
    idle_timeout: float | None = None
    retry_safe_tools: bool = False
    idle_stop: float | None = None


class OAuthPlan(Record):
    """How a Computer gets itself authorized at an HTTP server, its secret in clear (R-MCP-25).

    Without `client_id` and `client_metadata_url` the client registers itself. A client with a `private_key` (PEM)
    signs what it says of itself by `signing_algorithm`, in place of a secret.
    """

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = None
    signing_algorithm: str | None = None
    client_metadata_url: str | None = None
    client_name: str | None = None
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    issuer: str | None = None

    def __repr__(self) -> str:
        return f"OAuthPlan({self.grant!r}, …)"


class LaunchPlan(Record):
    """Everything a server needs to start, rendered: placeholders resolved, secrets in clear.

    Never logged, never projected; its repr hides the values. Times in seconds. `secrets` are the resolved
    secret values in it: they are taken out of whatever the server says that we show (R-INPUT-23).
    """

    bundle_id: str
    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    encoding: str = "utf-8"
    encoding_errors: str = "strict"
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float = 30.0
    read_timeout: float = 300.0
    terminate_on_close: bool = True
    oauth: OAuthPlan | None = None
    start_timeout: float = 30.0
    health: HealthCheck = HealthCheck()
    reconnect: ReconnectPolicy = ReconnectPolicy()
    limits: CallLimits = CallLimits()
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"LaunchPlan({self.bundle_id!r}, {self.transport!r}, …)"


class ServerStatus(Record):
    """Public status of one server (R-MCP-24, R-LIFE-23, DEC-1). Instants are Unix seconds.

    `phase` is the state of the supervision table: stopped, idle, queued, starting, ready, unhealthy,
    backing_off, parked or stopping. `reason` is the innermost cause, redacted.
    """

    bundle_id: str
    activation: Activation = "stopped"
    connection: Connection = "disconnected"
    phase: str = "stopped"
    reason: str | None = None
    category: str | None = None
    code: str | None = None
    retries: int = 0
    restarts_in_window: int = 0
    next_try_at: float | None = None
    since: float = 0.0
    pid: int | None = None
    protocol: str | None = None
    server_name: str | None = None
    calls: int = 0
    failed_calls: int = 0
    in_flight: int = 0
    queued: int = 0
    stderr_tail: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class ToolOutcome(Record):
    """How a call ended.

    `ended`: `answered` (result holds the CallToolResult as JSON), `error` (the server answered with a
    JSON-RPC error), `failed` (no answer), `busy` (full queue or open breaker), `timeout`, `cancelled`,
    `unauthorized` (error_code 4006 or 4007), `not_connected`.
    `executed` is `"no"`, `"unknown"` or `"yes"` (DEC-10). `text` is for people and holds no secret.
    """

    ended: Literal["answered", "error", "failed", "busy", "timeout", "cancelled", "unauthorized", "not_connected"]
    result: Attachment | None = None
    executed: Literal["no", "unknown", "yes"] = "yes"
    error_code: int | None = None
    text: str = ""
    attempts: int = 1


class StartServer(Ask[ServerStatus]):
    """Wants the server started; replies once that is accepted, not once it is ready. A manual start resets parking."""

    lane = "control"


class StandBy(Ask[ServerStatus]):
    """Wants a lazy server, and has it started by the first call of a tool; one that is up, or on its way, stays so."""

    lane = "control"


class StopServer(Ask[ServerStatus]):
    """Stops the server: drains calls for at most `drain` seconds, then ends its process tree (R-MCP-26, DEC-13)."""

    lane = "control"
    drain: float = 5.0


class RestartServer(Ask[ServerStatus]):
    """Renders first, then stops and starts; when rendering fails the old process stays (R-INPUT-21)."""

    lane = "control"
    drain: float = 5.0


class AnnounceAgain(Ask[ServerStatus]):
    """Publishes the present status and the last listings once more, for a neighbour that lost them in a restart."""

    lane = "control"


class GetServerStatus(Ask[ServerStatus]):
    """The present status; never waits for the server (F-14)."""

    lane = "control"


class CallTool(Ask[ToolOutcome]):
    """Calls one tool by its original name. `arguments` is a JSON object; `timeout` in seconds from now.

    `repeatable` says that the server annotated the tool read-only or idempotent (DEC-10). With `wake` a server that
    stands by is started, and one that is starting is waited for, within the limit of the call (F-68).
    """

    tool: str
    arguments: Attachment
    timeout: float
    req_id: str = ""
    repeatable: bool = False
    wake: bool = False


class ResourcesPage(Record):
    """One page of `resources/list`: `resources` is the JSON array as sent by the server."""

    resources: Attachment
    next_cursor: str | None = None


class ListResources(Ask[ResourcesPage]):
    """One page, untouched (W-RES-1).

    Raises `PeerError` with a 4014, 4015, 4006 or 4007 payload (W-RES-2, W-RES-3).
    """

    cursor: str | None = None


class Relisted(Record):
    """A digest of the list of resources as it was read last (`list_digest`); `""` while there is none."""

    digest: str


class RelistResources(Ask[Relisted]):
    """Waits until whatever may be out of date about the list of resources has been read again (C-DOC-20).

    What is up to date is answered at once. Only the limit of the ask ends the wait for a server that hangs.
    """


class ResourceContents(Record):
    """`contents` is the JSON array of a `resources/read` result."""

    contents: Attachment


class ReadResource(Ask[ResourceContents]):
    """Reads one resource by its raw URI within `timeout` seconds.

    Raises `NetworkError` with code `timeout`, `resource_not_found` (JSON-RPC -32002), `upstream_error` or
    `not_connected`; `AuthError` when the server refused for want of authorization.
    """

    uri: str
    timeout: float


class Completions(Record):
    """Values a server proposes for an argument, at most 100; `total` when it told how many there are."""

    values: tuple[str, ...]
    total: int | None = None
    has_more: bool = False


class CompleteArgument(Ask[Completions]):
    """`completion/complete` for one argument of a resource template; empty when the server offers none (C-DOC-29).

    `known` are arguments that are settled already. Raises as `ReadResource`.
    """

    template: str
    argument: str
    value: str
    known: dict[str, str] = {}
    timeout: float = 10.0


class Watched(Record):
    """URIs of the request whose subscription is live in the present session; failed ones are missing."""

    uris: tuple[str, ...]


class WatchResources(Ask[Watched]):
    """The URIs one channel wants to be told about, as a whole; other channels' wishes stay.

    Each URI is subscribed to at most once per session, over all channels, and again after a new one (C-DESK-8).
    """

    channel: str
    uris: tuple[str, ...]


class ServerStatusChanged(Fact):
    """A server moved on either axis.

    `number` rises with every one its actor says, over all its lives; it is 0 where somebody else speaks for it.
    """

    status: ServerStatus
    number: int = 0

    def coalesce_key(self) -> str:
        return self.status.bundle_id


class ToolsListed(Fact):
    """All tools of a connected server, in its listing order, as a JSON array; `[]` also when it was lost.

    `session` rises with every session of this server, and no later life of its actor uses a number again; `notes` are
    diagnostics of items set aside (DEC-6).
    """

    bundle_id: str
    session: int
    tools: Attachment
    notes: tuple[str, ...] = ()

    def coalesce_key(self) -> str:
        return self.bundle_id


class ResourcesListed(Fact):
    """All resources of a connected server as a JSON array, and what it can do with them."""

    bundle_id: str
    session: int
    resources: Attachment
    subscribe: bool = False
    declared: bool = True
    notes: tuple[str, ...] = ()

    def coalesce_key(self) -> str:
        return self.bundle_id


class ResourceUpdated(Fact):
    """The server announced new contents for a URI."""

    bundle_id: str
    uri: str

    def coalesce_key(self) -> str:
        return f"{self.bundle_id} {self.uri}"
