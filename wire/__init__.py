"""What crosses a boundary: structures, events, codes and the pure rules that every role shares.

Import from here what an application needs; the rest is in the modules, one idea each.
"""

from __future__ import annotations

from .base import Structure, decode_payload, to_json, to_wire
from .blobs import GetBlobReq, GetBlobRet, PutBlobChunk, PutBlobReq, PutBlobRet
from .codes import CODES, Code
from .config import GetComputerConfigReq, GetComputerConfigRet, read_config
from .documents import DocumentSummary, GetDpeReq, GetDpeRet, ListFinderReq, ListFinderRet
from .errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    Finding,
    InvalidPayload,
    InvalidSelectionError,
    MalformedReplyError,
    MissingInputError,
    NetworkError,
    PartialFailureError,
    PeerError,
    PolicyError,
    ProtocolVersionError,
    ShutdownError,
    SmcpError,
    StartupError,
)
from .events import CALLS, NOTIFICATIONS, OFFICE_EVENTS, UPDATES
from .identity import bundle_id_of, derive_bundle_id, is_valid_bundle_id
from .inputs import CommandInput, InputDefinition, PickOption, PickStringInput, PromptStringInput, env_name
from .names import exposed_name
from .payload import ErrorPayload
from .protocol import NAMESPACE, PROTOCOL_VERSION, SOCKETIO_PATH
from .resources import A2CResource, Annotations, GetDeskTopReq, GetDeskTopRet, GetResourcesReq, GetResourcesRet
from .results import error_code, failure_kind, read_result, result_meta
from .retry import Advice, advise
from .rooms import (
    AgentCallData,
    EnterOfficeNotification,
    EnterOfficeReq,
    LeaveOfficeNotification,
    LeaveOfficeReq,
    ListRoomReq,
    ListRoomRet,
    Role,
    SessionInfo,
    UpdateComputerConfigReq,
    UpdateDesktopNotification,
    UpdateFinderNotification,
    UpdateMCPConfigNotification,
    UpdateSkillsNotification,
    UpdateToolListNotification,
)
from .servers import MCPServer, SseServer, StdioServer, StreamableServer, read_server
from .skills import A2CSkillRef, GetSkillReq, GetSkillRet, GetSkillsReq, GetSkillsRet
from .tools import GetToolsReq, GetToolsRet, SMCPTool, ToolCallReq, ToolMeta

__all__ = [
    "CALLS",
    "CODES",
    "NAMESPACE",
    "NOTIFICATIONS",
    "OFFICE_EVENTS",
    "PROTOCOL_VERSION",
    "SOCKETIO_PATH",
    "UPDATES",
    "A2CResource",
    "A2CSkillRef",
    "Advice",
    "AgentCallData",
    "Annotations",
    "AuthError",
    "Code",
    "CommandInput",
    "ConfigValidationError",
    "ConflictError",
    "DocumentSummary",
    "EnterOfficeNotification",
    "EnterOfficeReq",
    "ErrorPayload",
    "Finding",
    "GetBlobReq",
    "GetBlobRet",
    "GetComputerConfigReq",
    "GetComputerConfigRet",
    "GetDeskTopReq",
    "GetDeskTopRet",
    "GetDpeReq",
    "GetDpeRet",
    "GetResourcesReq",
    "GetResourcesRet",
    "GetSkillReq",
    "GetSkillRet",
    "GetSkillsReq",
    "GetSkillsRet",
    "GetToolsReq",
    "GetToolsRet",
    "InputDefinition",
    "InvalidPayload",
    "InvalidSelectionError",
    "LeaveOfficeNotification",
    "LeaveOfficeReq",
    "ListFinderReq",
    "ListFinderRet",
    "ListRoomReq",
    "ListRoomRet",
    "MCPServer",
    "MalformedReplyError",
    "MissingInputError",
    "NetworkError",
    "PartialFailureError",
    "PeerError",
    "PickOption",
    "PickStringInput",
    "PolicyError",
    "PromptStringInput",
    "ProtocolVersionError",
    "PutBlobChunk",
    "PutBlobReq",
    "PutBlobRet",
    "Role",
    "SMCPTool",
    "SessionInfo",
    "ShutdownError",
    "SmcpError",
    "SseServer",
    "StartupError",
    "StdioServer",
    "StreamableServer",
    "Structure",
    "ToolCallReq",
    "ToolMeta",
    "UpdateComputerConfigReq",
    "UpdateDesktopNotification",
    "UpdateFinderNotification",
    "UpdateMCPConfigNotification",
    "UpdateSkillsNotification",
    "UpdateToolListNotification",
    "advise",
    "bundle_id_of",
    "decode_payload",
    "derive_bundle_id",
    "env_name",
    "error_code",
    "exposed_name",
    "failure_kind",
    "is_valid_bundle_id",
    "read_config",
    "read_result",
    "read_server",
    "result_meta",
    "to_json",
    "to_wire",
]
