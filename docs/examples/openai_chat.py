"""A model of OpenAI's Chat Completions API uses the tools of an office. Runs without a key: the model is a stub.

With the real thing, ``model`` is ``AsyncOpenAI().chat.completions`` and its answer ``completion.choices[0].message``.
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

    async def create(self, *, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": f"The sum is {messages[-1]['content']}."}
        name = next(tool["function"]["name"] for tool in tools if tool["function"]["name"].endswith("add"))
        function = {"name": name, "arguments": json.dumps({"a": 19, "b": 23})}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }


async def converse(agent: AsyncAgent, model: StubModel, question: str) -> str:
    """The model's final answer."""
    toolset = Toolset(limit=OPENAI_NAME_MAX)
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        toolset.update(agent.tools)  # tools may come and go between two turns
        message = await model.create(messages=messages, tools=openai.chat_tools(toolset.tools))
        messages.append(message)
        calls = openai.chat_calls(message)
        if not calls:
            return str(message["content"])
        results = await asyncio.gather(*(toolset.run(agent, call) for call in calls))
        messages.extend(openai.chat_messages(zip(calls, results, strict=True)))


async def main() -> None:
    async with office() as agent:
        print(await converse(agent, StubModel(), "What is 19 plus 23?"))


if __name__ == "__main__":
    asyncio.run(main())
