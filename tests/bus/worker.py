"""A worker process of the bus tests: one scripted receiver behind a node.

    python worker.py node ENDPOINT NAME [paused] [publish]
    python worker.py hub ENDPOINT

Prints `up` when it is greeted (a hub: when it listens). Texts it obeys: `hang`, `pid`, `count`, `texts`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bus.scripted import Scripted
from bus.vocabulary import BusEcho, BusEchoed, BusNote, BusSaid, BusUrgent

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import Pulse, ZmqHub, ZmqNode

PULSE = Pulse(every=0.1, lost_after=0.6)


def obedient(bus: Bus, address: str) -> Scripted:
    """A receiver that does what a text says."""
    receiver = Scripted(bus, address)

    async def obey(message: Any) -> BusEchoed:
        if message.text == "hang":
            await asyncio.sleep(3600)
        answers = {
            "pid": str(os.getpid()),
            "count": str(sum(isinstance(seen, BusNote) for seen in receiver.seen)),
            "texts": " ".join(receiver.texts),
        }
        return BusEchoed(answers.get(message.text, message.text))

    receiver.on.update({BusEcho: obey, BusUrgent: obey})
    bus.attach(receiver.address, receiver)
    return receiver


async def node(endpoint: str, name: str, *flags: str) -> None:
    async with Bus() as bus:
        receiver = obedient(bus, f"w/{name}")
        if "paused" in flags:
            receiver.pause()
            gate = Scripted(bus, f"gate/{name}")

            async def open_gate(_message: Any) -> BusEchoed:
                receiver.resume()
                return BusEchoed("resumed")

            gate.on[BusEcho] = open_gate
            bus.attach(gate.address, gate)
            gating = asyncio.ensure_future(gate.run())
            gating.add_done_callback(lambda task: task.cancelled() or task.exception())
        async with ZmqNode(bus, endpoint, name):
            if "publish" in flags:
                bus.publish(BusSaid(os.getpid()))
            print("up", flush=True)
            await receiver.run()


async def hub(endpoint: str) -> None:
    async with Bus() as bus:
        receiver = obedient(bus, "h")
        async with ZmqHub(bus, endpoint, pulse=PULSE):
            print("up", flush=True)
            await receiver.run()


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    asyncio.run({"node": node, "hub": hub}[kind](*words))
