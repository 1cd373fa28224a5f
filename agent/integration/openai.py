"""Tools, calls and results in the shapes of OpenAI's Chat Completions and Responses APIs. Pure; needs no SDK.

Values go in and come out as plain JSON values; SDK objects are read by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...wire.base import parse_json
from ...wire.errors import InvalidPayload
from ..tool_result import CallToolResult
from .parts import File, Image, Part, Text, note, parts, text_of
from .schema import description, parameters
from .toolset import ModelCall, ModelTool

DESCRIPTION_MAX = 1024


def chat_tools(tools: Iterable[ModelTool]) -> list[dict[str, Any]]:
    """`tools` of a Chat Completions request."""
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def responses_tools(tools: Iterable[ModelTool]) -> list[dict[str, Any]]:
    """`tools` of a Responses request. Not strict: MCP schemas use more of JSON schema than strict mode allows."""
    return [{"type": "function", **_function(tool), "strict": False} for tool in tools]


def chat_calls(message: Any) -> list[ModelCall]:
    """The calls in an assistant message, in their order."""
    calls = []
    for call in _get(message, "tool_calls") or ():
        function = _get(call, "function")
        if function is not None:
            calls.append(_call(_get(call, "id"), _get(function, "name"), _get(function, "arguments")))
    return calls


def responses_calls(output: Iterable[Any]) -> list[ModelCall]:
    """The calls in the `output` of a response, in their order."""
    return [
        _call(_get(item, "call_id"), _get(item, "name"), _get(item, "arguments"))
        for item in output
        if _get(item, "type") == "function_call"
    ]


def chat_messages(answers: Iterable[tuple[ModelCall, CallToolResult]]) -> list[dict[str, Any]]:
    """The messages that answer all calls of one assistant message.

    Tool messages hold text only, and all of them must follow the assistant message at once; images come after
    them in one user message.
    """
    messages: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for call, result in answers:
        found = parts(result)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text_of(found)})
        images = [part for part in found if isinstance(part, Image)]
        if images:
            shown.append({"type": "text", "text": f"Images returned by {call.name} ({call.id}):"})
            shown.extend({"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images)
    return [*messages, {"role": "user", "content": shown}] if shown else messages


def responses_items(answers: Iterable[tuple[ModelCall, CallToolResult]]) -> list[dict[str, Any]]:
    """The `input` items that answer calls of a response; images and PDF files inside them."""
    items = []
    for call, result in answers:
        found = parts(result)
        plain = all(isinstance(part, Text) for part in found)
        output: Any = text_of(found) if plain else [_input(part) for part in found]
        items.append({"type": "function_call_output", "call_id": call.id, "output": output})
    return items


def _function(tool: ModelTool) -> dict[str, Any]:
    schema = tool.tool.params_schema
    return {
        "name": tool.name,
        "description": description(tool.tool.description, schema, DESCRIPTION_MAX),
        "parameters": parameters(schema),
    }


def _call(identifier: Any, name: Any, arguments: Any) -> ModelCall:
    return ModelCall(str(identifier), str(name), _parsed(arguments))


def _parsed(arguments: Any) -> Mapping[str, Any] | None:
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments.encode()) if arguments.strip() else {}
        except InvalidPayload:
            return None
    return arguments if isinstance(arguments, Mapping) else None


def _input(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": _data_url(part)}
    if isinstance(part, File) and part.mime_type == "application/pdf":
        return {"type": "input_file", "filename": "result.pdf", "file_data": _data_url(part)}
    return {"type": "input_text", "text": part.text if isinstance(part, Text) else note(part)}


def _data_url(part: Image | File) -> str:
    return f"data:{part.mime_type};base64,{part.data}"


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
