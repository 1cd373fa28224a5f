"""What model providers are sent: tools, and results of every kind, in their own shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from smcp_runtime.agent import CallToolResult
from smcp_runtime.agent.integration import File, Image, ModelCall, Text, Toolset, anthropic, openai, parts
from smcp_runtime.wire.errors import NetworkError
from smcp_runtime.wire.tools import SMCPTool

CALL = ModelCall("c1", "b__t", {})
PNG = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
PDF = {"type": "resource", "resource": {"uri": "x://1", "mimeType": "application/pdf", "blob": "JVBERg=="}}


def tool(name: str = "b__t", description: str = "does t", **schema: Any) -> tuple[str, SMCPTool]:
    return "pc", SMCPTool(name=name, bundle_id="b", description=description, params_schema=schema)


def result(*content: dict[str, Any], **fields: Any) -> CallToolResult:
    return CallToolResult(content=content, **fields)


# --- tools ---


def test_a_tool_in_each_shape() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tools = Toolset([tool(**schema)]).tools
    function = {"name": "b__t", "description": "does t", "parameters": schema}
    assert openai.chat_tools(tools) == [{"type": "function", "function": function}]
    assert openai.responses_tools(tools) == [{"type": "function", **function, "strict": False}]
    assert anthropic.tools(tools) == [{"name": "b__t", "description": "does t", "input_schema": schema}]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": None}])
def test_a_schema_always_is_an_object_with_properties(schema: dict[str, Any]) -> None:
    (shaped,) = anthropic.tools(Toolset([tool(**schema)]).tools)
    assert shaped["input_schema"] == {"type": "object", "properties": {}}


def test_a_choice_at_the_top_moves_into_the_description() -> None:
    schema = {"$schema": "https://x", "type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}
    (shaped,) = anthropic.tools(Toolset([tool(**schema)]).tools)
    assert shaped["input_schema"] == {"type": "object", "properties": {"a": {}}}
    assert '{"anyOf":[{"required":["a"]}]}' in shaped["description"]


def test_a_description_is_cut_at_what_openai_takes() -> None:
    (shaped,) = openai.responses_tools(Toolset([tool(description="x" * 5000)]).tools)
    assert len(shaped["description"]) == 1024


@pytest.mark.spec("F-44")
def test_the_catalogue_is_the_same_in_whatever_order_tools_arrive() -> None:
    listed = [tool("b__2"), tool("a__1"), tool("b__" + "x" * 100)]
    assert openai.chat_tools(Toolset(listed).tools) == openai.chat_tools(Toolset(reversed(listed)).tools)


# --- calls ---


def test_calls_are_read_from_messages_and_from_sdk_objects() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "b__t", "arguments": '{"a": 1}'}}
    as_object = SimpleNamespace(
        tool_calls=[SimpleNamespace(id="c1", function=SimpleNamespace(name="b__t", arguments='{"a": 1}'))]
    )
    expected = [ModelCall("c1", "b__t", {"a": 1})]
    assert openai.chat_calls({"role": "assistant", "tool_calls": [call]}) == expected
    assert openai.chat_calls(as_object) == expected
    assert openai.chat_calls({"role": "assistant", "content": "done"}) == []
    output = [
        {"type": "reasoning"},
        {"type": "function_call", "call_id": "c1", "name": "b__t", "arguments": '{"a": 1}'},
    ]
    assert openai.responses_calls(output) == expected
    content = [{"type": "text", "text": "…"}, {"type": "tool_use", "id": "c1", "name": "b__t", "input": {"a": 1}}]
    assert anthropic.calls(content) == expected


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"x"'])
def test_arguments_that_are_no_object_are_none(arguments: str) -> None:
    call = {"id": "c1", "function": {"name": "b__t", "arguments": arguments}}
    (read,) = openai.chat_calls({"tool_calls": [call]})
    assert read.arguments is None


def test_no_arguments_at_all_are_an_empty_object() -> None:
    (read,) = openai.chat_calls({"tool_calls": [{"id": "c1", "function": {"name": "b__t", "arguments": ""}}]})
    assert read.arguments == {}


# --- results ---


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (result({"type": "text", "text": "a"}, {"type": "text", "text": "b"}), (Text("a"), Text("b"))),
        (result(PNG), (Image("image/png", "iVBORw=="),)),
        (result(PDF), (File("application/pdf", "JVBERg==", "x://1"),)),
        (result({"type": "resource", "resource": {"uri": "x://1", "text": "t"}}), (Text("t"),)),
        (result(structured_content={"a": 1}), (Text('{"a":1}'),)),
        (result({"type": "text", "text": "a"}, structured_content={"a": 1}), (Text("a"),)),
        (result(), (Text("(no output)"),)),
        (
            result({"type": "resource_link", "uri": "x://1", "name": "n", "mimeType": "m"}),
            (Text("[resource: x://1, n, m]"),),
        ),
    ],
)
def test_every_kind_of_content_becomes_parts(given: CallToolResult, expected: tuple[Any, ...]) -> None:
    assert parts(given) == expected


@pytest.mark.spec("W-CALL-26")
def test_an_image_that_could_not_be_fetched_is_never_shown_empty() -> None:
    missing = {"type": "image", "data": "", "mimeType": "image/png", "_meta": {"a2c_blob_handle": "h"}}
    (part,) = parts(result(missing))
    assert part == Text("[image/png: the content could not be fetched]")


@pytest.mark.spec("W-AGT-5", "W-UP-9")
@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"a2c_cancelled": True}, "cancelled"),
        ({"a2c_timeout": True}, "timed out"),
        ({"error_code": 4006, "auth_hint": {"message": "Authorize X."}}, "Authorize X. Do not call it again"),
        ({"error_code": 4007}, "Do not call it again"),
    ],
)
def test_a_failure_says_how_it_failed(meta: dict[str, Any], words: str) -> None:
    first, *rest = parts(result({"type": "text", "text": "t"}, is_error=True, meta=meta))
    assert isinstance(first, Text)
    assert words in first.text
    assert rest == [Text("t")]


def test_images_follow_the_tool_messages_of_a_chat() -> None:
    answers = [(CALL, result({"type": "text", "text": "a"}, PNG)), (ModelCall("c2", "b__u", {}), result())]
    assert openai.chat_messages(answers) == [
        {"role": "tool", "tool_call_id": "c1", "content": "a\n[image: image/png, 6 bytes]"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images returned by b__t (c1):"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
        },
    ]


def test_results_of_a_response_hold_images_and_files_themselves() -> None:
    plain, rich = openai.responses_items(
        [(CALL, result({"type": "text", "text": "a"})), (CALL, result({"type": "text", "text": "a"}, PNG, PDF))]
    )
    assert plain == {"type": "function_call_output", "call_id": "c1", "output": "a"}
    assert rich["output"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        {"type": "input_file", "filename": "result.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    ]


def test_results_of_a_messages_request_hold_images_documents_and_the_failure() -> None:
    bitmap = {"type": "image", "data": "Qk0=", "mimeType": "image/bmp"}
    failed = result({"type": "text", "text": ""}, is_error=True)
    message = anthropic.message([(CALL, result(PNG, PDF, bitmap)), (CALL, failed)])
    assert message["role"] == "user"
    first, second = message["content"]
    assert first == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
            {"type": "text", "text": "[image: image/bmp, 3 bytes]"},
        ],
    }
    assert second["is_error"] is True
    assert second["content"] == [{"type": "text", "text": " "}]


# --- running ---


class Recorder:
    """An Agent that notes what it was asked, and fails on demand."""

    def __init__(self, error: NetworkError | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._error = error

    async def tool_call(
        self, computer: str, tool_name: str, params: Any = None, *, timeout: int = 60
    ) -> CallToolResult:
        self.asked.append((computer, tool_name, params, timeout))
        if self._error:
            raise self._error
        return result({"type": "text", "text": "done"})


@pytest.mark.anyio
@pytest.mark.spec("W-EXP-7", "W-AGT-7")
async def test_a_short_name_is_reversed_before_the_call() -> None:
    long = "b__" + "x" * 100
    tools, agent = Toolset([tool(long)]), Recorder()
    (listed,) = tools.tools
    assert len(listed.name) == 64
    await tools.run(agent, ModelCall("c1", listed.name, {"a": 1}), timeout=5)
    assert agent.asked == [("pc", long, {"a": 1}, 5)]


@pytest.mark.anyio
async def test_a_name_stays_valid_after_its_tool_has_gone() -> None:
    tools, agent = Toolset([tool()]), Recorder()
    tools.update([])
    assert tools.tools == ()
    await tools.run(agent, CALL)
    assert agent.asked == [("pc", "b__t", {}, 60)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("call", "words"),
    [(ModelCall("c1", "invented", {}), "no tool 'invented'"), (ModelCall("c1", "b__t", None), "not a JSON object")],
)
async def test_a_call_that_makes_no_sense_is_answered_without_reaching_a_computer(call: ModelCall, words: str) -> None:
    agent = Recorder()
    answer = await Toolset([tool()]).run(agent, call)
    assert (answer.is_error, answer.outcome) == (True, "not_executed")
    assert words in answer.text
    assert agent.asked == []


@pytest.mark.anyio
async def test_an_error_on_the_way_is_an_answer_too() -> None:
    agent = Recorder(NetworkError("no connection", details={"a2c_outcome": "unknown", "host": "10.0.0.1"}))
    answer = await Toolset([tool()]).run(agent, CALL)
    assert (answer.is_error, answer.outcome) == (True, "unknown")
    assert "10.0.0.1" not in answer.text
