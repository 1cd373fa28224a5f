"""What a tool call came to, as an Agent reads it: one spelling, whoever answered (W-CALL-18, W-CALL-20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..wire.results import Failure, error_code, failure_kind, read_result

_READ = ("content", "isError", "structuredContent", "meta")


class CallToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one tool call, failed calls included.

    Attributes:
        content: Content items in MCP's spelling; their own metadata under `_meta`.
        is_error: Whether the call failed.
        structured_content: MCP's `structuredContent`, unchanged.
        meta: Result-level metadata.
        extra: Members this version does not know, unchanged.
        req_id: The id the call was made under; the logs of Server, Computer and MCP server know it by that (F-72).
        unresolved: Why a blob of an item could not be fetched, one line each; that item still holds its handle.
    """

    content: tuple[dict[str, Any], ...] = ()
    is_error: bool = False
    structured_content: Any = None
    meta: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    req_id: str = ""
    unresolved: tuple[str, ...] = ()

    @classmethod
    def read(cls, ack: Mapping[str, Any], req_id: str = "") -> CallToolResult:
        """The result in a peer's acknowledgement; also derives the text an official Computer leaves out (W-CALL-27)."""
        result = read_result(ack)
        return cls(
            content=tuple(item for item in result["content"] if isinstance(item, dict)),
            is_error=result["isError"],
            structured_content=result.get("structuredContent"),
            meta=result.get("meta", {}),
            req_id=req_id,
            extra={name: value for name, value in result.items() if name not in _READ},
        )

    @property
    def text(self) -> str:
        """The text items, one after another."""
        texts = (item.get("text") for item in self.content if item.get("type") == "text")
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def failure(self) -> Failure | None:
        """`cancelled`, `timed_out` or `other` for a failed call, else `None` (W-AGT-5)."""
        return failure_kind(self.to_dict()) if self.is_error else None

    @property
    def error_code(self) -> int | None:
        """The numeric protocol code of a failed call, if it carries one."""
        return error_code({"meta": self.meta})

    @property
    def outcome(self) -> Literal["not_executed", "unknown"] | None:
        """Set when the call ended without the MCP server's answer: whether it can have had an effect (DEC-10)."""
        outcome = self.meta.get("a2c_outcome")
        return outcome if outcome in ("not_executed", "unknown") else None

    def to_dict(self) -> dict[str, Any]:
        """The CallToolResult as JSON values, own metadata under `meta`, that of items under `_meta` (W-CALL-19)."""
        result: dict[str, Any] = {**self.extra, "content": list(self.content), "isError": self.is_error}
        if self.structured_content is not None:
            result["structuredContent"] = self.structured_content
        return result | {"meta": self.meta} if self.meta else result
