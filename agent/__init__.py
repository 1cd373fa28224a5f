"""The Agent clients: `AsyncAgent`, and `Agent` with the same surface for code without an event loop."""

from .client import AsyncAgent
from .notices import Notice, Notices
from .sync import Agent
from .tool_cache import ToolCache
from .tool_result import CallToolResult

__all__ = ["Agent", "AsyncAgent", "CallToolResult", "Notice", "Notices", "ToolCache"]
