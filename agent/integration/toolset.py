"""The tools of an office as one catalogue for a model: names it can use, and the calls it makes with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from ...wire.errors import SmcpError
from ...wire.tools import SMCPTool
from ..tool_result import CallToolResult
from .names import OPENAI_NAME_MAX, ToolKey, ToolNames


class ModelTool(msgspec.Struct, frozen=True):
    """A tool under the name the model knows it by."""

    name: str
    key: ToolKey
    tool: SMCPTool


class ModelCall(msgspec.Struct, frozen=True):
    """A call a model asked for.

    Attributes:
        id: The provider's id, which its answer must carry.
        name: The tool, by the model's name for it.
        arguments: Parsed arguments; `None` when the model wrote no JSON object.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None


class Caller(Protocol):
    """What runs a tool: an `AsyncAgent`."""

    async def tool_call(
        self, computer: str, tool_name: str, params: Mapping[str, Any] | None = None, *, timeout: int = 60
    ) -> CallToolResult: ...


class Toolset:
    """Tools of an office for a model.

    Make one for a conversation and `update` it when the tools change: names given to the model stay valid.

    Args:
        tools: Pairs of Computer and tool, such as `agent.tools`.
        limit: Longest name the provider takes: 64 for OpenAI, 128 for Anthropic.
    """

    def __init__(self, tools: Iterable[tuple[str, SMCPTool]] = (), *, limit: int = OPENAI_NAME_MAX) -> None:
        self._names = ToolNames(limit)
        self._tools: tuple[ModelTool, ...] = ()
        self.update(tools)

    def update(self, tools: Iterable[tuple[str, SMCPTool]]) -> None:
        """Replaces the catalogue."""
        listed = {ToolKey(computer, tool.name): tool for computer, tool in tools}
        names = self._names.assign(listed)
        self._tools = tuple(
            sorted((ModelTool(names[key], key, tool) for key, tool in listed.items()), key=lambda tool: tool.name)
        )

    @property
    def tools(self) -> tuple[ModelTool, ...]:
        """The catalogue in a stable order, so that a provider's prompt cache holds (F-44)."""
        return self._tools

    def tool(self, name: str) -> ToolKey | None:
        """The tool a model's name stands for, listed or not any more; `None` for a name nobody gave it."""
        return self._names.tool(name)

    async def run(self, agent: Caller, call: ModelCall, *, timeout: int = 60) -> CallToolResult:
        """Runs what the model asked for. Whatever goes wrong comes back as a failed result the model can read."""
        key = self.tool(call.name)
        if key is None:
            return _failed(f"There is no tool {call.name!r}.")
        if call.arguments is None:
            return _failed("The arguments are not a JSON object.")
        try:
            return await agent.tool_call(key.computer, key.tool_name, call.arguments, timeout=timeout)
        except SmcpError as error:
            outcome = error.details.get("a2c_outcome", "not_executed")
            return _failed(f"The call failed: {error.message}.", a2c_outcome=outcome)


def _failed(text: str, **meta: Any) -> CallToolResult:
    meta = meta or {"a2c_outcome": "not_executed"}
    return CallToolResult(content=({"type": "text", "text": text},), is_error=True, meta=meta)
