"""A server that waits for its worker is nothing to be warned of, nor is a Computer that ends."""

from __future__ import annotations

import logging
import signal

import pytest

from support.peers import Peers
from support.placed import open_placed
from support.stack import light
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_server_whose_worker_has_not_come_says_so_once_and_nothing_is_asked_of_it(
    peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "smcp_runtime"):
        async with open_placed("external", peers, light("one"), volunteers=False) as placed:
            computer = placed.stack.computer

            async def waits() -> bool:
                (status,) = (await computer.diagnostics()).servers
                return status.code == "no_worker"

            await until(waits)
            assert not computer.operations.dead_letters().total
        messages = [record.getMessage() for record in caplog.records]
        assert messages.count("one is waiting for a worker") == 1
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


async def test_a_worker_whose_computer_ends_waits_for_it_and_warns_of_nothing(peers: Peers) -> None:
    async with open_placed("external", peers, light("one")) as placed:
        worker = placed.workers["one"]
        await worker.line("^ready", timeout=20)
        await placed.stack.until_listed("one__echo", timeout=20)
    await worker.line("^no connection to the Computer$", of="errors", timeout=20)
    worker.signal(signal.SIGTERM)
    assert await worker.exit(timeout=20) == 0
    # Which of the two ends first, the server or the bus, is no matter.
    told = [line for line in worker.errors if "no connection to the hub: " in line]
    assert told, worker.errors
    assert all(" INFO " in line for line in told)
    assert not [line for line in worker.errors if "WARNING" in line or "dead letter" in line]
