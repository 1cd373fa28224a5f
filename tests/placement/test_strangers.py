"""External workers over TCP: only known keys of this release come in, and one at a time serves a server."""

from __future__ import annotations

import logging
import shutil
import signal
from pathlib import Path

import pytest

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import ZmqNode, generate, load_node
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import NodeRefused, PolicyError
from smcp_runtime.wire.messages.placement import TakeSeat
from smcp_runtime.wire.messages.projection import GetLaunchPlan
from support.peers import Peers
from support.placed import worker
from support.stack import config, light, open_stack, options
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
RECONCILE, WORKERS = Address("reconcile"), Address("workers")


def keys_for(root: Path, *names: str) -> tuple[Path, dict[str, Path]]:
    """The hub's directory, which allows these, and one directory for each of them."""
    hub = root / "hub"
    generate(hub, "hub")
    theirs = {}
    for name in names:
        theirs[name] = root / name
        generate(theirs[name], name)
        shutil.copy(theirs[name] / f"{name}.public", hub)
        shutil.copy(hub / "hub.public", theirs[name])
    return hub, theirs


async def test_strangers_get_nothing_and_are_logged_and_known_workers_get_their_own_server_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub, theirs = keys_for(tmp_path, "one", "other")
    unknown = tmp_path / "unknown"
    generate(unknown, "one")
    shutil.copy(hub / "hub.public", unknown)
    runtime = options(placement="external", bus="tcp://127.0.0.1:*", bus_keys=str(hub), start_wait_s=0.0)
    async with open_stack(config(light("one"), light("two")), runtime=runtime) as stack:
        workers = stack.computer.operations.workers
        endpoint = workers.site.hub.endpoint  # type: ignore[union-attr]
        with caplog.at_level(logging.WARNING):
            async with Bus() as bus:
                with pytest.raises(NodeRefused) as wrong_key:
                    async with ZmqNode(bus, endpoint, "one", keys=load_node(unknown, "one")):
                        pass
                assert wrong_key.value.code == "key"
            async with Bus() as bus:
                with pytest.raises(NodeRefused) as wrong_release:
                    async with ZmqNode(bus, endpoint, "one", keys=load_node(theirs["one"], "one"), schema="feedfeed"):
                        pass
                assert wrong_release.value.code == "schema"
        assert "has a key that is not allowed" in caplog.text
        assert "run one release on both" in caplog.text

        async with Bus() as bus, ZmqNode(bus, endpoint, "other", keys=load_node(theirs["other"], "other")):
            with pytest.raises(PolicyError):
                await bus.ask(WORKERS, TakeSeat("one", "other"), timeout=5)
            for bundle_id in ("one", "two"):
                with pytest.raises(PolicyError):
                    await bus.ask(RECONCILE, GetLaunchPlan(bundle_id), timeout=5)
        async with Bus() as bus, ZmqNode(bus, endpoint, "one", keys=load_node(theirs["one"], "one")):
            assert (await bus.ask(WORKERS, TakeSeat("one", "one"), timeout=5)).given
            assert (await bus.ask(RECONCILE, GetLaunchPlan("one"), timeout=5)).bundle_id == "one"
            with pytest.raises(PolicyError):
                await bus.ask(RECONCILE, GetLaunchPlan("two"), timeout=5)
        assert {status.code for status in (await stack.computer.diagnostics()).servers} == {"no_worker"}


async def test_a_second_worker_stands_by_and_takes_over_when_the_first_is_gone(tmp_path: Path, peers: Peers) -> None:
    hub, theirs = keys_for(tmp_path, "one", "one.spare")
    runtime = options(placement="external", bus="tcp://127.0.0.1:*", bus_keys=str(hub), start_wait_s=0.0)
    async with open_stack(config(light("one")), runtime=runtime) as stack:
        endpoint = stack.computer.operations.workers.site.hub.endpoint  # type: ignore[union-attr]
        first = worker(peers, endpoint, "one", "--keys", str(theirs["one"]))
        await first.line(r"^ready", timeout=20)
        spare = worker(peers, endpoint, "one", "--keys", str(theirs["one.spare"]), "--name", "one.spare")
        await spare.line("another worker hosts it; this one stands by", of="errors", timeout=20)
        await stack.until_listed("one__echo")
        first.signal(signal.SIGKILL)
        await spare.line(r"^ready", timeout=10)
        await until(lambda: _answers(stack))

        unknown = tmp_path / "unknown"
        generate(unknown, "one")
        shutil.copy(hub / "hub.public", unknown)
        stranger = worker(peers, endpoint, "one", "--keys", str(unknown))
        assert await stranger.exit(timeout=20) == 2
        assert any("refuses the key of this node" in line for line in stranger.errors)
        assert any("retry_hint: give the hub the .public file of this node" in line for line in stranger.errors)


async def _answers(stack: object) -> bool:
    return not (await stack.call("one__echo", text="x")).is_error  # type: ignore[attr-defined]
