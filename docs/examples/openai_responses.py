"""A model of OpenAI's Responses API uses the tools of an office. Runs without a key: the model is a stub.

With the real thing, ``model`` is ``AsyncOpenAI().responses`` and its answer is ``response.output``.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from office import office

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.agent.integration import OPENAI_NAME_MAX, Toolset, openai


class StubModel:
    """Asks for one addition, then reads the answer out."""

    async def create(self, *, input: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if input[-1].get("type") == "function_call_output":
            text = f"The sum is {input[-1]['output']}."
            return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
        name = next(tool["name"] for tool in tools if tool["name"].endswith("add"))
        arguments = json.dumps({"a": 19, "b": 23})
        return [{"type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments}]


async def converse(agent: AsyncAgent, model: StubModel, question: str) -> str:
    """The model's final answer."""
    toolset = Toolset(limit=OPENAI_NAME_MAX)
    items: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        toolset.update(agent.tools)  # tools may come and go between two turns
        output = await model.create(input=items, tools=openai.responses_tools(toolset.tools))
        items.extend(output)
        calls = openai.responses_calls(output)
        if not calls:
            return str(output[-1]["content"][0]["text"])
        results = await asyncio.gather(*(toolset.run(agent, call) for call in calls))
        items.extend(openai.responses_items(zip(calls, results, strict=True)))


async def main() -> None:
    async with office() as agent:
        print(await converse(agent, StubModel(), "What is 19 plus 23?"))


if __name__ == "__main__":
    asyncio.run(main())
