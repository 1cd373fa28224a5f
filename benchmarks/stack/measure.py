"""What both Agents measure, over two callables; standard library only, since it runs in either environment."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

Call = Callable[[int], Awaitable[Any]]


async def figures(call: Call, get_tools: Callable[[], Awaitable[int]], plan: dict[str, int]) -> dict[str, float]:
    """Latency one after another, rate with many in flight, time of a tool list; seconds and calls a second.

    Also when the first call was answered, in Unix seconds.
    """
    await call(0)
    first_answer = time.time()
    for number in range(plan["warm_up"]):
        await call(number)
    waits = sorted([await _timed(call(number)) for number in range(plan["latency_calls"])])
    cpu, began = os.times(), time.perf_counter()
    await _in_flight(call, plan["rate_calls"], plan["in_flight"])
    took = time.perf_counter() - began
    used = os.times()
    result = {
        "first_answer": first_answer,
        "p50": waits[len(waits) // 2],
        "p99": waits[int(len(waits) * 0.99)],
        "rate": plan["rate_calls"] / took,
        "agent_cpu": (used.user + used.system - cpu.user - cpu.system) / plan["rate_calls"],
    }
    if plan["tool_lists"]:
        lists = sorted([await _timed(get_tools()) for _ in range(plan["tool_lists"])])
        result["get_tools"] = lists[len(lists) // 2]
    return result


async def _timed(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def _in_flight(call: Call, calls: int, width: int) -> None:
    numbers = iter(range(calls))

    async def lane() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(lane() for _ in range(width)))
