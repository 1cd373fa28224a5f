"""What `tools` answers: the tool list and tool calls of the Agent, and the commits that feed it."""

from __future__ import annotations

from typing import Any, Literal

from ..codec import Attachment
from ..message import Ask, Fact, Record, Tell


class ToolPolicy(Record):
    """The part of one server's configuration that decides its tools (W-META, W-EXP, R-MCP-12…18).

    `capacity` is how many calls the server takes at once, in work and queued together (DEC-7). Tools of a `lazy` one
    are searched for in place of being listed, and can be called while it is not connected (F-68).
    """

    bundle_id: str
    name: str
    disabled: bool = False
    forbidden: tuple[str, ...] = ()
    tool_meta: dict[str, dict[str, Any]] = {}
    default_tool_meta: dict[str, Any] | None = None
    vrl: str | None = None
    capacity: int = 288
    lazy: bool = False


class ServerTools(Record):
    """One server's slice: its policy, its last listing (JSON array), and whether it is connected now."""

    policy: ToolPolicy
    listing: Attachment
    connected: bool


class Applied(Record):
    """Acknowledgement of a commit: whether what the Agent sees changed.

    `signature` tells states of the slice apart also over restarts of the actor: equal ones look the same to an
    Agent, `""` is an empty slice. `None` leaves it to `changed`.
    """

    changed: bool
    notes: tuple[str, ...] = ()
    signature: str | None = None


class ApplyTools(Ask[Applied]):
    """Replaces the whole slice with that of commit `number`, servers ordered by bundle_id."""

    lane = "control"
    number: int
    servers: tuple[ServerTools, ...]


class ToolList(Record):
    """`tools` is the JSON array of SMCPTool, encoded when it was committed (DEC-4, DEC-5)."""

    tools: Attachment
    commit: int = 0


class ListTools(Ask[ToolList]):
    """The committed list; waits for nothing."""


class ToolAnswer(Record):
    """`result` is the CallToolResult for the acknowledgement, as JSON."""

    result: Attachment


class RunTool(Ask[ToolAnswer]):
    """One `client:tool_call`: exposed name, `params` as JSON object, `timeout` in whole seconds (W-CALL-4).

    `indirect` marks a call that came through the tool for calling unlisted ones, and is unwrapped (F-68).
    """

    req_id: str
    tool_name: str
    params: Attachment
    timeout: int
    agent: str = ""
    indirect: bool = False


class CancelTool(Tell):
    """The Agent gave up on a call; ignored when it is not in flight (W-CALL-14)."""

    lane = "control"
    req_id: str


class CallQueued(Tell):
    """From a server's actor: a call waits in its queue (`waiting`), or has just left it for the server.

    Sent only for calls that had to wait; whoever ends a waiting call knows that it was not executed (DEC-10).
    """

    lane = "control"
    bundle_id: str
    req_id: str
    waiting: bool


class ToolsRead(Fact):
    """An Agent read the tool list; at most one in 5 s.

    The cue for servers that announce no changes to be listed again in the background (DEC-4).
    """

    def coalesce_key(self) -> str:
        return "tools"


class DrainCalls(Ask[None]):
    """Refuses new calls, waits at most `grace` seconds for running ones, then answers the rest (DEC-13, DEC-26)."""

    lane = "control"
    grace: float


class ResumeCalls(Ask[None]):
    """Accepts calls again after a drain."""

    lane = "control"


class CallRecord(Record):
    """One finished call that was routed to a server. `ended_at` in Unix seconds, `duration` in seconds."""

    req_id: str
    bundle_id: str
    tool: str
    ended: str
    ended_at: float
    duration: float


class CallHistory(Record):
    """Finished calls, oldest first (C-DESK-23)."""

    calls: tuple[CallRecord, ...]


class GetCallHistory(Ask[CallHistory]):
    """The bounded history of calls."""


class CallFinished(Fact):
    """A routed call ended, whatever way."""

    record: CallRecord


CallOutcome = Literal[
    "ok", "tool_error", "failed", "not_executed", "timeout", "cancelled", "busy", "unauthorized", "unconfirmed",
    "too_large", "unknown_tool", "disabled_tool", "malformed", "abandoned",
]  # fmt: skip
"""How a tool call ended, for whoever counts: `tool_error` is an answer of the tool; `failed` is no answer of the
server, `not_executed` that it never got the call; with `abandoned` nobody waited for it any more."""


class CallEnded(Fact):
    """A tool call of an Agent ended, also one that was refused and never routed; never holds arguments (F-72).

    `tool` is the name the Agent used, `bundle_id` the server it stands for or `""`. `ended_at` in Unix seconds,
    `duration` in seconds.
    """

    req_id: str
    agent: str
    tool: str
    bundle_id: str
    outcome: CallOutcome
    ended_at: float
    duration: float
