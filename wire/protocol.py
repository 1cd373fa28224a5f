"""Numbers and names every role must agree on (01 Appendix A), in one place.

Sizes are bytes, durations seconds, unless a suffix says otherwise. A configurable
number here is the default of its option, not a limit of the protocol.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = "0.4.0"
"""What we declare in the handshake, and what our Server serves unless a test says otherwise (W-HS-1)."""

NAMESPACE: Final = "/smcp"
SOCKETIO_PATH: Final = "/socket.io"
DEFAULT_TRANSPORTS: Final = ("polling", "websocket")
"""Polling first, so that a refusal arrives as a readable body (W-HS-3)."""

VERSION_PARAMETER: Final = "a2c_version"
VERSION_REFUSED_HEADER: Final = "X-A2C-Error-Code"
VERSION_REFUSED_CLOSE_CODE: Final = 4900
"""WebSocket close code; never an ErrorPayload code (W-HS-25)."""
CLOSE_REASON_MAX: Final = 123

DEFAULT_AUTH_FIELD: Final = "token"
DEFAULT_AUTH_HEADER: Final = "x-api-key"
CONNECTION_REFUSED: Final = "Connection refused by server"
"""The one text a denied connection gets (W-AUTH-5)."""

PACKET_LIMIT: Final = 1_000_000
"""Characters one Socket.IO packet may have before the receiving Server cuts the connection (W-GEN-7)."""
ACK_BUDGET: Final = 900_000
"""Largest JSON we send in one packet, requests included (C-GEN-7)."""
POLLING_PACKETS_MAX: Final = 16
"""Packets of one polling payload an official Server accepts (DEC-17)."""

INLINE_BUDGET: Final = 32_768
"""Largest resource or binary item sent inline, inclusive (W-CALL-24)."""
CHUNK_MAX: Final = 262_144
"""Raw bytes of one download or upload chunk."""
CHUNK_CEILING: Final = 655_360
"""No configuration may raise `CHUNK_MAX` above this: base64 adds a third (C-BLOB-13)."""
ABSOLUTE_CAP: Final = 104_857_600
"""Largest resource that travels at all, in either direction (W-CALL-25)."""
UPLOAD_IDLE_TIMEOUT: Final = 120.0
UPLOAD_CONCURRENT_MAX: Final = 4
HANDLE_MAX: Final = 4_096

TOOL_TIMEOUT_MIN: Final = 1
TOOL_TIMEOUT_MAX: Final = 3_600
TOOL_TIMEOUT_SUGGESTED_MAX: Final = 300
SERVER_TOOL_MARGIN: Final = 5.0
"""The Server waits this much longer than the Computer's own limit (W-CALL-10)."""
AGENT_TOOL_MARGIN: Final = 2.0
"""The Agent waits this much longer, inside the Server's limit (W-CALL-11)."""
SERVER_ACK_LIMIT: Final = 60.0
"""Server limit of every relayed event but tool calls and get_dpe (W-CALL-12)."""
AGENT_ACK_WAIT: Final = 30.0
"""Agent wait for everything but tool calls and get_dpe (W-EVT-4)."""
DPE_TIMEOUT: Final = 60.0
DPE_TIMEOUT_MAX: Final = 300.0

RETRY_ATTEMPTS_MAX: Final = 3
CANCEL_REASON: Final = "agent_requested"

FINDER_PAGE: Final = 20
FINDER_PAGE_MAX: Final = 100
NAME_HINT_MAX: Final = 64

FALLBACK_ID_PREFIX: Final = "bundle_"
NAME_SEPARATOR: Final = "__"
ENV_PREFIX: Final = "A2C_SMCP_"
"""Variables under this prefix supply inputs and nothing else (R-OPT-3)."""

REDACTED: Final = "[REDACTED]"
REDACTED_IN_URL: Final = "%5BREDACTED%5D"
"""Bare brackets break URL parsers (DEC-30)."""

IDENTIFIER_MAX: Final = 256
"""Characters our Server accepts in name, office_id, req_id and tool_name (W-SRV-5)."""
PENDING_CALLS_MAX: Final = 1_024
"""Pending calls of one Agent our Server keeps (W-SRV-5)."""

META_KEY_TOOL_META: Final = "a2c_tool_meta"
META_KEY_ANNOTATIONS: Final = "MCP_TOOL_ANNOTATION"
RESERVED_META_PREFIX: Final = "a2c_"
"""Metadata keys under this prefix are written by the Computer alone (C-BLOB-20)."""
