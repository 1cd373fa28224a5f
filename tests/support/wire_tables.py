"""The tables of 01 §6 as data: each structure with a complete example, and which of its keys must be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smcp_runtime import wire
from smcp_runtime.wire.tools import ToolMeta

BASE = {"agent": "a1", "req_id": "r1"}
TO_COMPUTER = {**BASE, "computer": "pc1"}
SHA = "ab" * 32


@dataclass(frozen=True)
class Row:
    """`example` has every field; `required` are the keys no peer may leave out, `defaults` what absence means."""

    structure: type[wire.Structure]
    example: dict[str, Any]
    required: frozenset[str]
    defaults: dict[str, Any]

    def __str__(self) -> str:
        return self.structure.__name__


def row(structure: type[wire.Structure], example: dict[str, Any], *optional: str, **defaults: Any) -> Row:
    return Row(structure, example, frozenset(example) - set(optional) - set(defaults), defaults)


ROOMS = [
    row(wire.AgentCallData, BASE),
    row(wire.EnterOfficeReq, {"role": "agent", "name": "a1", "office_id": "o1"}),
    row(wire.LeaveOfficeReq, {"office_id": "o1"}),
    row(wire.EnterOfficeNotification, {"office_id": "o1", "computer": "pc1", "agent": "a1"}, "computer", "agent"),
    row(wire.LeaveOfficeNotification, {"office_id": "o1", "computer": "pc1", "agent": "a1"}, "computer", "agent"),
    row(wire.ListRoomReq, {**BASE, "office_id": "o1"}),
    row(
        wire.SessionInfo,
        {"sid": "s", "name": "n", "office_id": "o1", "role": "computer", "a2c_version": "0.4.0"},
        "a2c_version",
    ),
    row(
        wire.ListRoomRet,
        {"sessions": [{"sid": "s", "name": "n", "office_id": "o1", "role": "agent"}], "req_id": "r1"},
    ),
    row(wire.UpdateComputerConfigReq, {"computer": "pc1"}),
    row(wire.UpdateMCPConfigNotification, {"computer": "pc1"}),
    row(wire.UpdateToolListNotification, {"computer": "pc1"}),
    row(wire.UpdateDesktopNotification, {"computer": "pc1"}),
    row(wire.UpdateSkillsNotification, {"computer": "pc1"}),
    row(wire.UpdateFinderNotification, {"computer": "pc1"}),
]

TOOL = {
    "name": "git__log",
    "bundle_id": "git",
    "description": "shows the log",
    "params_schema": {"type": "object"},
    "return_schema": {"type": "object"},
    "meta": {"k": "v"},
}
TOOLS = [
    row(wire.ToolCallReq, {**TO_COMPUTER, "tool_name": "git__log", "params": {"n": 1}, "timeout": 30}),
    row(wire.GetToolsReq, TO_COMPUTER),
    row(wire.GetToolsRet, {"tools": [TOOL], "req_id": "r1"}),
    row(wire.SMCPTool, TOOL, description="", return_schema=None, meta={}),
    row(
        ToolMeta,
        {"auto_apply": True, "alias": "log", "tags": ["vcs"], "ret_object_mapper": {"a": "b"}},
        auto_apply=None,
        alias=None,
        tags=None,
        ret_object_mapper=None,
    ),
]

STDIO = {
    "type": "stdio",
    "name": "git server",
    "bundle_id": "git",
    "disabled": True,
    "forbidden_tools": ["push"],
    "tool_meta": {"log": {"tags": ["vcs"]}},
    "default_tool_meta": {"auto_apply": True},
    "vrl": ".x = 1",
    "server_parameters": {
        "command": "uvx",
        "args": ["mcp-server-git"],
        "env": {"A": "${env:A}"},
        "cwd": "/tmp",
        "encoding": "latin-1",
        "encoding_error_handler": "ignore",
    },
}
COMMON_DEFAULTS: dict[str, Any] = {
    "bundle_id": None,
    "disabled": False,
    "forbidden_tools": [],
    "tool_meta": {},
    "default_tool_meta": None,
    "vrl": None,
}
STREAMABLE = {
    **STDIO,
    "type": "streamable",
    "server_parameters": {
        "url": "https://mcp.example/x",
        "headers": {"X": "${input:x}"},
        "timeout": "PT10S",
        "sse_read_timeout": "PT1M",
        "terminate_on_close": False,
    },
}
SSE = {
    **STDIO,
    "type": "sse",
    "server_parameters": {"url": "https://mcp.example/sse", "headers": None, "timeout": 1.5, "sse_read_timeout": 60.0},
}
PROMPT = {"type": "promptString", "id": "i", "description": "d", "default": "x", "password": False}
PICK = {
    "type": "pickString",
    "id": "p",
    "description": "d",
    "options": [{"label": "One", "value": "1"}, {"label": "One", "value": "1"}],
    "default": "1",
}
COMMAND = {"type": "command", "id": "c", "description": "d", "command": "pass show x", "args": {"-n": "1"}}
CONFIG = [
    row(wire.GetComputerConfigReq, TO_COMPUTER),
    row(
        wire.GetComputerConfigRet,
        {"servers": {"git": STDIO, "web": STREAMABLE, "old": SSE}, "inputs": [PROMPT, PICK, COMMAND]},
        inputs=None,
    ),
    row(wire.StdioServer, STDIO, **COMMON_DEFAULTS),
    row(wire.StreamableServer, STREAMABLE, **COMMON_DEFAULTS),
    row(wire.SseServer, SSE, **COMMON_DEFAULTS),
]
INPUTS = [
    row(wire.PromptStringInput, PROMPT, "default", "password"),
    row(wire.PickStringInput, PICK, "default"),
    row(wire.PickOption, {"label": "One", "value": "1"}),
    row(wire.CommandInput, COMMAND, "args"),
]

RESOURCE = {
    "uri": "file:///x",
    "name": "x",
    "description": "d",
    "mime_type": "text/plain",
    "size": 3,
    "annotations": {"audience": ["user", "assistant"], "priority": 0.5, "last_modified": "2026-01-01T00:00:00Z"},
    "_meta": {"k": None},
}
RESOURCES = [
    row(wire.GetDeskTopReq, {**TO_COMPUTER, "desktop_size": 3, "window": "window://h/w"}, "desktop_size", "window"),
    row(wire.GetDeskTopRet, {"desktops": ["window://h/w"], "req_id": "r1"}),
    row(wire.GetResourcesReq, {**TO_COMPUTER, "mcp_server": "git", "cursor": "c"}, "cursor"),
    row(wire.GetResourcesRet, {"resources": [RESOURCE], "req_id": "r1", "next_cursor": "c"}, "next_cursor"),
    row(wire.A2CResource, RESOURCE, *(set(RESOURCE) - {"uri"})),
    row(
        wire.Annotations,
        {"audience": ["assistant"], "priority": 1.0, "last_modified": "2026-01-01"},
        "audience",
        "priority",
        "last_modified",
    ),
]

SKILL = {
    "name": "audit",
    "source": "user",
    "path": "/home/u/audit",
    "description": "d",
    "uri": "skill://h/audit",
    "license": "MIT",
    "compatibility": "any",
    "allowed_tools": ["Read"],
    "tags": ["t"],
    "skill_metadata": {"k": 1},
    "version": "1",
}
SKILLS = [
    row(wire.GetSkillsReq, TO_COMPUTER),
    row(wire.A2CSkillRef, SKILL, *(set(SKILL) - {"name", "source", "path", "description"})),
    row(wire.GetSkillsRet, {"skills": [SKILL], "req_id": "r1"}),
    row(wire.GetSkillReq, {**TO_COMPUTER, "name": "audit", "rel_path": "a.md"}, "rel_path"),
    row(
        wire.GetSkillRet,
        {
            "name": "audit",
            "rel_path": "SKILL.md",
            "mime_type": "text/markdown",
            "sha256": SHA,
            "total_size": 3,
            "body": "abc",
            "blob_handle": "h",
            "req_id": "r1",
        },
        "body",
        "blob_handle",
    ),
]

BLOBS = [
    row(
        wire.GetBlobReq,
        {**TO_COMPUTER, "blob_handle": "h", "chunk_offset": 5, "max_chunk_bytes": 9},
        "max_chunk_bytes",
        chunk_offset=None,
    ),
    row(
        wire.GetBlobRet,
        {
            "blob_handle": "h",
            "mime_type": "image/png",
            "sha256": SHA,
            "total_size": 3,
            "chunk_offset": 0,
            "eof": True,
            "blob": "YWJj",
            "req_id": "r1",
        },
    ),
    row(
        wire.PutBlobChunk,
        {
            **TO_COMPUTER,
            "chunk_offset": 0,
            "eof": True,
            "blob": "YWJj",
            "upload_id": "u",
            "total_size": 3,
            "sha256": SHA,
            "name_hint": "x.txt",
        },
        "upload_id",
        "total_size",
        "sha256",
        "name_hint",
    ),
    row(
        wire.PutBlobRet,
        {
            "upload_id": "u",
            "chunk_offset": 0,
            "req_id": "r1",
            "landing_path": "/l/u",
            "total_size": 3,
            "sha256": SHA,
        },
        "landing_path",
        "total_size",
        "sha256",
    ),
]

DOCUMENT = {
    "doc_ref": "d",
    "uri": "dpe://h/d",
    "title": "t",
    "summary": "s",
    "mcp_server": "git",
    "keywords": ["k"],
    "page_count": 2,
    "file_type": "pdf",
    "file_uri": "file:///d.pdf",
    "last_modified": "2026-01-01T00:00:00Z",
}
DOCUMENTS = [
    row(
        wire.ListFinderReq,
        {**TO_COMPUTER, "tags": ["t"], "file_type": "pdf", "offset": 1, "limit": 2},
        "file_type",
        tags=[],
        offset=0,
        limit=20,
    ),
    row(wire.ListFinderRet, {"documents": [DOCUMENT], "total_count": 1, "req_id": "r1"}),
    row(wire.DocumentSummary, DOCUMENT, "file_type", "file_uri", "last_modified", keywords=[], page_count=0),
    row(wire.GetDpeReq, {**TO_COMPUTER, "uri": "dpe://h/d", "timeout": 5.0}, timeout=60.0),
    row(wire.GetDpeRet, {"uri": "https://x/d", "mime_type": "text/html", "size": 1, "req_id": "r1"}),
]

ERRORS = [
    row(
        wire.ErrorPayload,
        {
            "code": 4202,
            "message": "m",
            "details": {"k": 1},
            "server_version": "0.4.0",
            "client_version": "0.3.0",
            "min_supported": "0.4.0",
            "max_supported": "0.4.999",
            "mcp_server": "git",
            "capability": "resources",
            "uri": "dpe://h/d/pages/9",
            "reason": "x",
            "doc_ref": "d",
            "page": 9,
            "page_count": 2,
            "element_id": "e",
        },
        "details",
        "server_version",
        "client_version",
        "min_supported",
        "max_supported",
        "mcp_server",
        "capability",
        "uri",
        "reason",
        "doc_ref",
        "page",
        "page_count",
        "element_id",
    ),
]

STRUCTURES = [*ROOMS, *TOOLS, *CONFIG, *INPUTS, *RESOURCES, *SKILLS, *BLOBS, *DOCUMENTS, *ERRORS]
