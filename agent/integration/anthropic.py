"""Tools, calls and results in the shapes of Anthropic's Messages API. Pure; needs no SDK.

Values go in and come out as plain JSON values; SDK objects are read by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..tool_result import CallToolResult
from .parts import File, Image, Part, Text, note, parts
from .schema import description, parameters
from .toolset import ModelCall, ModelTool

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def tools(listed: Iterable[ModelTool]) -> list[dict[str, Any]]:
    """`tools` of a Messages request."""
    return [
        {
            "name": tool.name,
            "description": description(tool.tool.description, tool.tool.params_schema),
            "input_schema": parameters(tool.tool.params_schema),
        }
        for tool in listed
    ]


def calls(content: Iterable[Any]) -> list[ModelCall]:
    """The calls in the `content` of an assistant message, in their order."""
    found = []
    for block in content:
        if _get(block, "type") == "tool_use":
            arguments = _get(block, "input")
            found.append(
                ModelCall(
                    str(_get(block, "id")),
                    str(_get(block, "name")),
                    arguments if isinstance(arguments, Mapping) else None,
                )
            )
    return found


def message(answers: Iterable[tuple[ModelCall, CallToolResult]]) -> dict[str, Any]:
    """The user message that answers all calls of one assistant message, images and PDF files inside it."""
    return {"role": "user", "content": [_result(call, result) for call, result in answers]}


def _result(call: ModelCall, result: CallToolResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call.id, "content": [_block(part) for part in parts(result)]}
    return block | {"is_error": True} if result.is_error else block


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Image) and part.mime_type in IMAGE_TYPES:
        return {"type": "image", "source": _source(part)}
    if isinstance(part, File) and part.mime_type == "application/pdf":
        return {"type": "document", "source": _source(part)}
    # Empty text blocks are refused.
    return {"type": "text", "text": (part.text or " ") if isinstance(part, Text) else note(part)}


def _source(part: Image | File) -> dict[str, Any]:
    return {"type": "base64", "media_type": part.mime_type, "data": part.data}


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
