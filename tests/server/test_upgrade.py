"""From polling to a WebSocket: what is sent meanwhile, and what becomes of a WebSocket that does not get there."""

from __future__ import annotations

import aiohttp
import anyio
import pytest

from smcp_runtime.server import engine_parts
from smcp_runtime.server.limits import Limits
from support.raw_socket import ended, member, probing, raw_peer
from support.servers import Serving, open_options, serving

pytestmark = [pytest.mark.anyio]


async def test_what_is_sent_while_a_peer_upgrades_reaches_it(server: Serving) -> None:
    async with member(server.url, "computer", "pc") as pc, raw_peer(server.url, transport="polling") as ag:
        # Joined over polling, with a poll waiting; the other member speaks while the upgrade is under way.
        await ag.connect()
        assert await ag.join("agent", "ag") == [True, None]
        for n in range(5):
            await pc.start("server:update_skills", {"computer": "pc", "n": n})
        await ag.upgrade()
        for n in range(5):
            await pc.start("server:update_skills", {"computer": "pc", "n": n})
        for _ in range(10):
            assert await ag.next() == '2/smcp,["notify:update_skills",{"computer":"pc"}]'
        await ag.settle()


async def test_a_failed_upgrade_leaves_the_polling_connection_as_it_was(server: Serving) -> None:
    async with member(server.url, "agent", "ag", transport="polling") as ag, aiohttp.ClientSession() as http:
        address = f"{server.url}/socket.io/?EIO=4&transport=websocket&a2c_version=0.4.0&sid={ag.open_packet['sid']}"
        for probe in (["2nonsense"], ["2probe", "4x"]):
            async with http.ws_connect(address) as ws:
                for packet in probe:
                    await ws.send_str(packet)
                with anyio.fail_after(5):
                    while not ws.closed:
                        await ws.receive()
        await ag.settle()


@pytest.mark.spec("W-SRV-5")
async def test_a_websocket_that_never_probes_ends_with_its_session(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_parts, "PROBE_TIMEOUT", 600.0)
    options = open_options(limits=Limits(namespace_timeout=0.2))
    async with (
        serving(kind, options) as server,
        raw_peer(server.url, transport="polling") as idle,
        probing(idle) as ws,
    ):
        await ended(ws)


@pytest.mark.spec("W-SRV-5")
@pytest.mark.parametrize("said", [[], ["2probe"]])
async def test_an_upgrade_that_is_not_completed_ends_and_polling_goes_on(
    kind: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_parts, "PROBE_TIMEOUT", 0.2)
    async with serving(kind) as server, member(server.url, "agent", "ag", transport="polling") as ag:
        async with probing(ag) as ws:
            for packet in said:
                await ws.send_str(packet)
            await ended(ws)
        (socket,) = server.shell.engine.sockets.values()  # type: ignore[attr-defined]
        with anyio.fail_after(5):
            while socket.upgrading:  # polls are not held as long
                await ag.settle()


@pytest.mark.spec("W-SRV-5")
async def test_a_connection_upgrades_over_one_websocket_at_a_time(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_parts, "PROBE_TIMEOUT", 600.0)
    async with member(server.url, "agent", "ag", transport="polling") as ag, probing(ag) as first:
        await first.send_str("2probe")
        assert (await first.receive()).data == "3probe"
        async with probing(ag) as second:
            await ended(second)
        assert not first.closed


async def test_a_second_upgrade_or_a_late_poll_does_no_harm(server: Serving) -> None:
    async with member(server.url, "agent", "ag") as ag, aiohttp.ClientSession() as http:
        sid = ag.open_packet["sid"]
        address = f"{server.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0&sid={sid}"
        for method in ("GET", "POST"):
            async with http.request(method, address, data=b"3" if method == "POST" else None) as response:
                assert response.status == 400
        await ag.settle()
