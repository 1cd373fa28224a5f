"""A model of Anthropic's Messages API uses the tools of an office. Runs without a key: the model is a stub.

With the real thing, ``model`` is ``AsyncAnthropic().messages`` and its answer is ``message.content``.
"""

from __future__ import annotations

import asyncio
from typing import Any

from office import office

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.agent.integration import ANTHROPIC_NAME_MAX, Toolset, anthropic


class StubModel:
    """Asks for one addition, then reads the answer out."""

    async def create(self, *, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        content = messages[-1]["content"]
        if isinstance(content, list) and content[0]["type"] == "tool_result":
            return [{"type": "text", "text": f"The sum is {content[0]['content'][0]['text']}."}]
        name = next(tool["name"] for tool in tools if tool["name"].endswith("add"))
        return [{"type": "tool_use", "id": "toolu_1", "name": name, "input": {"a": 19, "b": 23}}]


async def converse(agent: AsyncAgent, model: StubModel, question: str) -> str:
    """The model's final answer."""
    toolset = Toolset(limit=ANTHROPIC_NAME_MAX)
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        toolset.update(agent.tools)  # tools may come and go between two turns
        content = await model.create(messages=messages, tools=anthropic.tools(toolset.tools))
        messages.append({"role": "assistant", "content": content})
        calls = anthropic.calls(content)
        if not calls:
            return str(content[-1]["text"])
        results = await asyncio.gather(*(toolset.run(agent, call) for call in calls))
        messages.append(anthropic.message(zip(calls, results, strict=True)))


async def main() -> None:
    async with office() as agent:
        print(await converse(agent, StubModel(), "What is 19 plus 23?"))


if __name__ == "__main__":
    asyncio.run(main())
