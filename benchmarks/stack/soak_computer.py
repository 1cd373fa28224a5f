"""The Computer of a soak, in a process of its own: does what a line on stdin orders, answers with a line on stdout.

    python soak_computer.py PLAN

PLAN is JSON: `url` and `office` of the Server, `seed`, `config` of the Computer, `options` of the run. Each order is a
JSON object with `do`; the answer is one too. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from typing import Any

import msgspec

from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.bus.faults import NONE, Faults, FaultyBus, Shares
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Envelope
from smcp_runtime.wire.errors import SmcpError

CALLS = frozenset({"RunTool", "CallTool"})
"""Messages that may be lost. Any may be late or come twice; but nothing the transports do loses a single message of a
start or a commit, and those wait for theirs longer than a soak has patience."""


class Ordered:
    """A running Computer and the faults of its bus."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.faults = Faults(plan["seed"])
        options = RuntimeOptions(reconnect_backoff=Backoff(initial=0.05, longest=0.5), **plan["options"])
        self.computer = Computer.from_config(plan["config"], options)
        self.computer.make_bus = lambda meter: FaultyBus(self.faults, meter)

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order."""
        if order["do"] == "kill":
            return {"killed": self.computer.operations.kill(order["address"])}
        if order["do"] == "start_parked":
            return {"started": await self.start_parked()}
        if order["do"] == "envelopes":
            shares = Shares(**order["shares"])
            self.faults.chosen = is_call if shares.drop else anything
            self.faults.shares = shares if order["shares"] else NONE
            return {}
        return await self.report()

    async def start_parked(self) -> int:
        """Does what an operator would: starts by hand whose restarts came too fast for their own good (DEC-35)."""
        started = 0
        for actor in (await self.computer.diagnostics()).actors:
            if actor.state == "parked" and actor.address.startswith("mcp/"):
                with contextlib.suppress(SmcpError):
                    await self.computer.control(actor.address.removeprefix("mcp/"), "start")
                    started += 1
        return started

    async def report(self) -> dict[str, Any]:
        """What a soak wants to know of it."""
        seen = await self.computer.diagnostics()
        samples = await self.computer.operations.samples()
        counted = ("smcp_actor_restarts_total", "smcp_mcp_server_reconnects_total", "smcp_link_reconnects_total")
        return {
            "state": f"{seen.state}, link {seen.link.phase}, {seen.link_failure or 'no failure'}",
            "joined": seen.phase == "joined_office",
            "pids": {server.bundle_id: server.pid for server in seen.servers},
            "phases": {server.bundle_id: server.phase for server in seen.servers},
            "servers": {server.bundle_id: msgspec.to_builtins(server) for server in seen.servers},
            "actors": {actor.address: actor.state for actor in seen.actors},
            "counts": {name: sum(s["value"] for s in samples if s["name"] == name) for name in counted},
            "faults": {" ".join(key): count for key, count in sorted(self.faults.done.items())},
            "suppressed": self.faults.suppressed,
            "late": self.faults.late,
        }


def anything(_: Envelope) -> bool:
    """Every message may be late, or come twice."""
    return True


def is_call(envelope: Envelope) -> bool:
    """Whether a message may be lost."""
    return envelope.subject in CALLS


async def main() -> None:
    """Runs until stdin ends."""
    plan = json.loads(sys.argv[1])
    ordered = Ordered(plan)
    async with ordered.computer as computer:
        await computer.connect(plan["url"], office=plan["office"])
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        print("ready", flush=True)
        while line := await reader.readline():
            print("answer " + json.dumps(await ordered.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    # A line for every call that fails would be all that its parent has to do.
    logging.getLogger("smcp_runtime").setLevel(logging.ERROR)
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
