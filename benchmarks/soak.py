"""Random faults under load, and one table of what became of the calls.

    python benchmarks/soak.py --minutes 30 --seed 1 [--in-flight 50] [--every 2] [--placement inline,process] [--json F]

A Server, a Computer and MCP servers (stdio, SSE, streamable) run as processes of their own, an Agent in this one keeps
calls in flight. Every so many seconds comes one fault of a deck shuffled by the seed: SIGKILL or SIGSTOP of a server,
closed pipes, garbage, slowness, the death of an actor, lost, late or repeated envelopes, a restart or pause of the
Server, a pause of the Computer.The status is 1 when a call was hung or wrong, was executed twice or although its
caller was told that it was not, when a server is not back at the end, when nobody caught an exception, or when memory
or descriptors drifted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from faults.partition import Network, network  # noqa: E402
from faults.volunteers import Volunteers  # noqa: E402

from smcp_runtime import fixtures  # noqa: E402
from smcp_runtime.agent import AsyncAgent, CallToolResult  # noqa: E402
from smcp_runtime.wire.backoff import Backoff  # noqa: E402
from smcp_runtime.wire.errors import SmcpError  # noqa: E402
from support.endpoint import Endpoint  # noqa: E402
from support.load import Load, Tally  # noqa: E402
from support.peers import Peer, Peers  # noqa: E402
from support.waiting import until  # noqa: E402
from support.workers import spawned_by  # noqa: E402

OFFICE, COMPUTER = "soak", "desk"
TOOLS = "echo,garbage,scramble,close_pipe,slow_down"
THINK = 0.2
"""Seconds each server takes for a call: with it calls are in flight rather than a machine busy."""
LIMIT = 4
"""Seconds a call may take."""
MARGIN = 2.0
"""Seconds beyond it that an Agent waits (W-CALL-11)."""
PATIENCE = 60.0
"""Seconds in which a server has to give right answers again, or the soak ends."""
CALM = 30.0
"""Seconds without load or faults after which a server that has not come back counts as stuck."""
JUDGED = ("echo", "garbage")
"""Tools the load calls, each time with a word of its own."""
CONTEXT = 40
"""Lines of a complaint."""
DRIFT = 0.05
ACTORS = ("tools", "socket", "reconcile", "blobs", "desktop", "skills", "finder")


class Gauge:
    """RSS and descriptors of a process, once a second."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid = name, pid
        self.samples: list[tuple[float, int, int]] = []

    def look(self, at: float) -> None:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        self.samples.append((at, pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{self.pid}/fd"))))

    def drift(self, after: float, until: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """RSS and descriptors: medians of the first and the last sixth of what lies after the warm-up."""
        width = (until - after) / 6
        first = [sample for sample in self.samples if after <= sample[0] < after + width]
        last = [sample for sample in self.samples if sample[0] >= until - width]
        if not first or not last:
            return (0.0, 0.0), (0.0, 0.0)
        return (
            (statistics.median(s[1] for s in first), statistics.median(s[1] for s in last)),
            (statistics.median(s[2] for s in first), statistics.median(s[2] for s in last)),
        )


class Stage:
    """Everything that runs."""

    def __init__(self, peers: Peers, arguments: argparse.Namespace, folder: Path) -> None:
        self._peers = peers
        self._arguments = arguments
        self._folder = folder
        self._server_log = folder / "server.log"
        self.not_executed = (folder / "not_executed").open("w+", encoding="utf-8")
        self._server: Peer | None = None
        self._computer: Peer | None = None
        self._orders = asyncio.Lock()
        self._runtime: dict[str, dict[str, str]] = {}
        self.port = 0
        self.server_starts = 0
        self.endpoints: dict[str, Endpoint] = {}
        self.stdio: list[str] = []
        self.network: Network | None = None
        self.volunteers: Volunteers | None = None

    @property
    def external(self) -> list[str]:
        return [name for name, runtime in self._runtime.items() if runtime["placement"] == "external"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def servers(self) -> list[str]:
        return [*self.stdio, *self.endpoints]

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        await self.start_server()
        options = {}
        if "external" in self._arguments.placement:
            self.network = stack.enter_context(network(self._peers))
            self.volunteers = stack.enter_context(Volunteers(self._peers, self.network))
            options = self.volunteers.options
        entries = []
        for placement in self._arguments.placement:
            for transport in ("stdio", "sse", "streamable"):
                entries.append(await self._entry(f"{placement}-{transport}", placement, transport))
        plan = {
            "url": self.url,
            "office": OFFICE,
            "seed": self._arguments.seed,
            "config": {
                "name": COMPUTER,
                "mcp_servers": entries,
                "settings": {"mcpServerRuntime": {"servers": self._runtime}},
            },
            "options": {
                "home": str(self._folder / "home"),
                "state_dir": str(self._folder / "state"),
                "user_config_dir": str(self._folder / "config"),
                "start_wait_s": 20.0,
                "drain_timeout_s": 1.0,
                "health_check": {"interval_secs": 0.5, "timeout_secs": 0.5},
                "reconnect_policy": {"initial_delay_ms": 50, "max_delay_ms": 1000, "max_retries": 0},
                **options,
            },
        }
        if self.volunteers is not None:
            await self.volunteers.start(self.external)
        script = Path(__file__).with_name("stack") / "soak_computer.py"
        self._computer = self._peers.start([sys.executable, script, json.dumps(plan)])
        await self._computer.line("^ready$", timeout=60)

    async def _entry(self, name: str, placement: str, transport: str) -> dict[str, Any]:
        flags = ("--tools", TOOLS, "--delay", str(THINK), "--log", str(self._folder / f"{name}.received"))
        entry: dict[str, Any] = {"name": name, "type": transport, "default_tool_meta": {"auto_apply": True}}
        self._runtime[name] = {"placement": placement}
        if transport == "stdio":
            command, *words = fixtures.light_stdio(*flags)
            self.stdio.append(name)
            return {**entry, "server_parameters": {"command": command, "args": words}}
        if self.network is not None:
            flags = (*flags, "--host", self.network.host)
        endpoint = self.endpoints[name] = Endpoint(self._peers, transport, *flags)  # type: ignore[arg-type]
        await endpoint.start()
        return {**entry, "server_parameters": {"url": endpoint.url}}

    # -- the Server ----------------------------------------------------------------------------

    async def start_server(self) -> None:
        # Its log has a line for each call; kept in this process they would be all that grows here.
        shell = ["/bin/sh", "-c", 'exec "$0" "$@" 2>>"$SERVER_LOG"']
        command = [sys.executable, "-m", "smcp_runtime.cli.main", "server", "--port", str(self.port), "--anonymous"]
        self._server = self._peers.start([*shell, *command], env={**os.environ, "SERVER_LOG": str(self._server_log)})
        ready = await self._server.line(r"^ready url=http://[^:]+:(\d+)", timeout=30)
        self.port = int(ready[1])
        self.server_starts += 1

    async def end_server(self, number: int) -> None:
        assert self._server is not None
        self._server.signal(number)
        await self._server.exit()
        await asyncio.to_thread(self._peers.end, self._server)

    def signal_server(self, number: int) -> None:
        assert self._server is not None
        self._server.signal(number)

    # -- the Computer --------------------------------------------------------------------------

    @property
    def computer_pid(self) -> int:
        assert self._computer is not None
        return self._computer.pid

    async def order(self, do: str, **more: Any) -> dict[str, Any]:
        """What the Computer answers to an order."""
        assert self._computer is not None
        async with self._orders:
            self._computer.lines.clear()
            self._computer.send(json.dumps({"do": do, **more}))
            answer: dict[str, Any] = json.loads((await self._computer.line("^answer (.*)", timeout=PATIENCE))[1])
            return answer

    def complaints(self) -> list[str]:
        """What Computer and Server wrote to stderr of exceptions nobody caught."""
        assert self._computer is not None
        with self._server_log.open(encoding="utf-8", errors="replace") as log:
            return [*complaints_in(self._computer.errors), *complaints_in(log)]

    def received(self) -> Counter[str]:
        """How often each word reached a server."""
        return Counter(word for log in self._folder.glob("*.received") for word in words_in(log))

    def lies(self, received: Counter[str]) -> list[str]:
        """Calls that a server received twice, or received although they were said not to have been executed."""
        self.not_executed.seek(0)
        denied = {line.rstrip("\n") for line in self.not_executed}
        twice = [f"{word} came {count} times" for word, count in received.items() if count > 1]
        return [*twice, *(f"{word} came, and was said not to have been executed" for word in denied & received.keys())]

    async def close(self) -> None:
        """Ends the Computer with its stdin."""
        self.not_executed.close()
        assert self._computer is not None
        self._computer.close_stdin()
        await self._computer.exit(timeout=30)


def words_in(log: Path) -> Iterator[str]:
    """The words of the calls that a server wrote down as they came; a line it died in is passed over."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                message = json.loads(line)
                if message["method"] == "tools/call" and message["params"]["name"] in JUDGED:
                    yield message["params"]["arguments"]["text"]


def complaints_in(lines: Iterable[str]) -> list[str]:
    """Exceptions nobody caught, with what follows them."""
    found: list[list[str]] = []
    for line in lines:
        if found and len(found[-1]) < CONTEXT:
            found[-1].append(line.rstrip())
        elif "Traceback" in line or "never retrieved" in line:
            found.append([line.rstrip()])
    return ["\n".join(complaint) for complaint in found]


class Soak:
    """Load, faults, and what is written down of both."""

    def __init__(self, stage: Stage, agent: AsyncAgent, arguments: argparse.Namespace) -> None:
        self._stage, self._agent, self._arguments = stage, agent, arguments
        self._random = random.Random(arguments.seed)
        self._busy: set[str] = set()
        self._began = time.monotonic()
        self.load = Load(
            self._call,
            stage.servers,
            deadline=LIMIT + MARGIN,
            seed=arguments.seed,
            not_executed=lambda word: print(word, file=stage.not_executed),
        )
        self.recoveries: dict[str, list[float]] = defaultdict(list)
        self.history: deque[str] = deque(maxlen=60)
        self.longest_pause = 0.0
        self.by_hand = 0

    async def _call(self, server: str, word: str) -> CallToolResult:
        tool = "garbage" if self._random.random() < 0.02 else "echo"
        return await self._agent.tool_call(COMPUTER, f"{server}__{tool}", {"text": word}, timeout=LIMIT)

    async def _tool(self, server: str, tool: str, **arguments: Any) -> bool:
        """Has a server misbehave; whether it says that it does."""
        with contextlib.suppress(SmcpError):
            result = await self._agent.tool_call(COMPUTER, f"{server}__{tool}", arguments, timeout=LIMIT)
            return not result.is_error
        return False

    # -- faults: each ends when the fault is over ------------------------------------------------

    async def kill_server(self, server: str) -> None:
        if server in self._stage.endpoints:
            await self._stage.endpoints[server].kill()
            await asyncio.sleep(self._random.uniform(0.0, 0.5))
            await self._stage.endpoints[server].start()
        else:
            await self._signal(server, signal.SIGKILL)

    async def stop_server(self, server: str) -> None:
        pid = await self._signal(server, signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.1, 2.0))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    async def _signal(self, server: str, number: int) -> int:
        pid = (
            self._stage.endpoints[server].pid
            if server in self._stage.endpoints
            else (await self._stage.order("report"))["pids"][server]
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid or 0, number) if pid else None
        return pid or 0

    async def close_pipe(self, server: str) -> None:
        await self._tool(server, "close_pipe")

    async def scramble(self, server: str) -> None:
        await self._tool(server, "scramble")

    async def slow_down(self, server: str) -> None:
        await self._tool(server, "slow_down", seconds=LIMIT + 2)
        await asyncio.sleep(1.0)
        await until(lambda: self._tool(server, "slow_down", seconds=THINK), PATIENCE)

    async def kill_server_actor(self, server: str) -> None:
        await self._stage.order("kill", address=f"mcp/{server}")

    async def kill_worker(self) -> None:
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self._random.choice(spawned_by(self._stage.computer_pid)), signal.SIGKILL)

    async def stop_worker(self) -> None:
        """For less or for more than the hub is patient with it."""
        with contextlib.suppress(ProcessLookupError, IndexError):
            pid = self._random.choice(spawned_by(self._stage.computer_pid))
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self._random.choice((0.5, 2.0, 8.0)))
            os.kill(pid, signal.SIGCONT)

    async def kill_external_worker(self) -> None:
        assert self._stage.volunteers is not None
        await self._stage.volunteers.kill(self._random.choice(self._stage.external))

    async def cut_network(self) -> None:
        """For less or for more than hub and workers are patient with each other."""
        assert self._stage.network is not None
        self._stage.network.cut()
        await asyncio.sleep(self._random.choice((0.5, 2.0, 8.0)))
        self._stage.network.heal()

    async def restart_hub(self) -> None:
        await self._stage.order("kill", address="workers")

    async def kill_actor(self) -> None:
        await self._stage.order("kill", address=self._random.choice(ACTORS))

    async def _envelopes(self, **shares: float) -> None:
        await self._stage.order("envelopes", shares=shares)
        await asyncio.sleep(1.0)
        await self._stage.order("envelopes", shares={})

    async def drop_envelopes(self) -> None:
        await self._envelopes(drop=0.1)

    async def delay_envelopes(self) -> None:
        await self._envelopes(delay=0.3, longest=0.2)

    async def repeat_envelopes(self) -> None:
        await self._envelopes(duplicate=0.3, longest=0.2)

    async def restart_server(self) -> None:
        await self._stage.end_server(self._random.choice((signal.SIGKILL, signal.SIGTERM)))
        await self._stage.start_server()

    async def pause_server(self) -> None:
        self._stage.signal_server(signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.1, 1.0))
        self._stage.signal_server(signal.SIGCONT)

    async def pause_computer(self) -> None:
        os.kill(self._stage.computer_pid, signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.1, 1.0))
        os.kill(self._stage.computer_pid, signal.SIGCONT)

    # -- the run -------------------------------------------------------------------------------

    def deck(self) -> list[tuple[str, Callable[..., Awaitable[None]], bool]]:
        """All faults, by name, and whether each is one of a single server; shuffled."""
        of_one = {
            "SIGKILL of an MCP server": self.kill_server,
            "SIGSTOP, SIGCONT of an MCP server": self.stop_server,
            "closed pipe": self.close_pipe,
            "garbage for an answer": self.scramble,
            "slow server": self.slow_down,
            "death of an mcp/ actor": self.kill_server_actor,
        }
        of_all = {
            "death of another actor": self.kill_actor,
            "envelopes dropped": self.drop_envelopes,
            "envelopes delayed": self.delay_envelopes,
            "envelopes repeated": self.repeat_envelopes,
            "restart of the Server": self.restart_server,
            "SIGSTOP, SIGCONT of the Server": self.pause_server,
            "SIGSTOP, SIGCONT of the Computer": self.pause_computer,
        }
        if any(placement != "inline" for placement in self._arguments.placement):
            of_all["restart of the hub"] = self.restart_hub
        if "process" in self._arguments.placement:
            of_all["SIGKILL of a spawned worker"] = self.kill_worker
            of_all["SIGSTOP, SIGCONT of a spawned worker"] = self.stop_worker
        if self._stage.network is not None:
            of_all["SIGKILL of an external worker"] = self.kill_external_worker
            of_all["partition of the external workers"] = self.cut_network
        cards = [(name, fault, True) for name, fault in of_one.items() for _ in range(2)]
        cards += [(name, fault, False) for name, fault in of_all.items()]
        self._random.shuffle(cards)
        return cards

    async def inject(self, name: str, fault: Callable[..., Awaitable[None]], of_one: bool) -> None:
        """One fault, and the time until every server it may have touched answers rightly again."""
        if of_one:
            free = [server for server in self._stage.servers if server not in self._busy]
            if not free:
                return
            server = self._random.choice(free)
            self._busy.add(server)
            await fault(server)
            touched = [server]
        else:
            if name in self._busy:
                return
            self._busy.add(name)
            await fault()
            touched = self._stage.servers
        over = time.monotonic()
        self.history.append(f"{over - self._began:.1f} {name} of {', '.join(touched) if of_one else 'all'}")
        async with asyncio.timeout(PATIENCE):
            took = await asyncio.gather(*(self.load.recovered(server, over) for server in touched))
        self.recoveries[name].append(max(took))
        self._busy -= {name, touched[0]}

    async def run(self, gauges: Iterable[Gauge]) -> None:
        """Load for the whole time, faults until shortly before its end."""
        began = time.monotonic()
        end = began + self._arguments.minutes * 60
        async with asyncio.TaskGroup() as group:
            group.create_task(self.load.run(self._arguments.in_flight))
            sampling = group.create_task(self._sample(gauges, began))
            operating = group.create_task(self._operate())
            faults = []
            cards: list[Any] = []
            while time.monotonic() + 2 * self._arguments.every < end:
                await asyncio.sleep(self._arguments.every)
                cards = cards or self.deck()
                faults.append(group.create_task(self.inject(*cards.pop())))
            await asyncio.gather(*faults)
            await asyncio.sleep(max(0.0, end - time.monotonic()))
            self.load.stop()
            sampling.cancel()
            operating.cancel()

    async def _operate(self) -> None:
        """Is the operator: a server parked because it died too often is started again by hand."""
        while True:
            await asyncio.sleep(2.0)
            self.by_hand += (await self._stage.order("start_parked"))["started"]

    async def _sample(self, gauges: Iterable[Gauge], began: float) -> None:
        next_look = time.monotonic()
        while True:
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - next_look)
            for gauge in gauges:
                gauge.look(now - began)
            next_look = now + 1.0
            await asyncio.sleep(1.0)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def summary(soak: Soak, stage: Stage, report: dict[str, Any], gauges: list[Gauge], seconds: float) -> dict[str, Any]:
    """Everything the table shows, as plain values."""
    total = Tally()
    for tally in soak.load.tallies.values():
        total.calls += tally.calls
        total.ok += tally.ok
        total.hung += tally.hung
        total.failed += tally.failed
        total.wrong += tally.wrong
        total.slowest = max(total.slowest, tally.slowest)
    restarts = {
        "MCP sessions": int(report["counts"]["smcp_mcp_server_reconnects_total"]),
        "actors": int(report["counts"]["smcp_actor_restarts_total"]),
        "links to the Server": int(report["counts"]["smcp_link_reconnects_total"]),
        "Server": stage.server_starts - 1,
        "parked and started by hand": soak.by_hand,
    }
    warm = min(300.0, seconds / 6)
    drifts = {}
    for gauge in gauges:
        rss, descriptors = gauge.drift(warm, seconds)
        drifts[gauge.name] = {"rss": rss, "descriptors": descriptors}
    received = stage.received()
    every = [value for values in soak.recoveries.values() for value in values]
    return {
        "calls": total.calls,
        "ok": total.ok,
        "failed": dict(total.failed.most_common()),
        "hung": total.hung,
        "wrong": total.wrong,
        "received": received.total(),
        "lies": stage.lies(received),
        "slowest": total.slowest,
        "restarts": restarts,
        "recovery": {"p50": percentile(every, 0.5), "p99": percentile(every, 0.99), "max": max(every, default=0.0)},
        "faults": {
            name: {"times": len(v), "p50": percentile(v, 0.5), "p99": percentile(v, 0.99), "max": max(v)}
            for name, v in sorted(soak.recoveries.items())
        },
        "envelopes": {**report["faults"], "second copies suppressed": report["suppressed"], "too late": report["late"]},
        "drift": drifts,
        "warm_up": warm,
        "longest_pause": soak.longest_pause,
        "complaints": stage.complaints(),
        "unready": [
            *(name for name, phase in report["phases"].items() if phase != "ready"),
            *(() if report["joined"] else [report["state"]]),
        ],
    }


def change(pair: tuple[float, float]) -> float:
    return pair[1] / pair[0] - 1 if pair[0] else 0.0


def show(result: dict[str, Any]) -> None:
    """Prints the table."""
    rows = [
        ("calls", f"{result['calls']:,}"),
        ("ok", f"{result['ok']:,}"),
        ("failed cleanly", f"{sum(result['failed'].values()):,}"),
        ("hung", str(result["hung"])),
        ("wrong", str(len(result["wrong"]))),
        ("executed twice, or against what was said", str(len(result["lies"]))),
        ("restarts", ", ".join(f"{count} {name}" for name, count in result["restarts"].items())),
        ("recovery p50 / p99", f"{result['recovery']['p50']:.2f} s / {result['recovery']['p99']:.2f} s"),
        ("slowest call", f"{result['slowest']:.2f} s"),
    ]
    for name, drift in result["drift"].items():
        (rss0, rss1), (fd0, fd1) = drift["rss"], drift["descriptors"]
        rows.append((f"RSS drift, {name}", f"{change((rss0, rss1)):+.1%} ({rss0 / 1e6:.1f} → {rss1 / 1e6:.1f} MB)"))
        rows.append((f"descriptor drift, {name}", f"{change((fd0, fd1)):+.1%} ({fd0:.0f} → {fd1:.0f})"))
    print("| what | |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    print("\n| fault | times | recovery p50 | p99 | longest |\n|---|---|---|---|---|")
    for name, row in result["faults"].items():
        print(f"| {name} | {row['times']} | {row['p50']:.2f} s | {row['p99']:.2f} s | {row['max']:.2f} s |")
    print(f"\nclean failures: {result['failed']}")
    print(f"envelopes: {result['envelopes']}")
    print(f"longest pause of this process: {result['longest_pause']:.2f} s; warm-up {result['warm_up']:.0f} s")
    for line in [*result["wrong"][:10], *result["lies"][:10], *result["complaints"][:10], *result["unready"]]:
        print(f"! {line}")


async def explain(running: Soak, stage: Stage) -> None:
    """Prints what led to a server that does not come back, and whether it does once it is left alone."""
    print("the last faults, with their seconds: ", *running.history, sep="\n  ")
    for calm in (0.0, CALM):
        await asyncio.sleep(calm)
        report = await stage.order("report")
        for name, phase in report["phases"].items():
            if phase != "ready":
                print(f"{name}, {calm:g} s after the last call: {json.dumps(report['servers'][name])}")
        print(f"actors: {report['actors']}")


async def soak(arguments: argparse.Namespace) -> int:
    seconds = arguments.minutes * 60
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-"))
        peers = stack.enter_context(Peers())
        stage = Stage(peers, arguments, Path(folder))
        await stage.open(stack)
        async with AsyncAgent(
            stage.url, name="planner", office=OFFICE, tool_margin=MARGIN, backoff=Backoff(initial=0.05, longest=0.5)
        ) as agent:
            running = Soak(stage, agent, arguments)
            for server in stage.servers:
                await until(functools.partial(running.load.once, server), PATIENCE)
            gauges = [Gauge("Computer", stage.computer_pid), Gauge("Agent", os.getpid())]
            try:
                await running.run(gauges)
            except ExceptionGroup:
                await explain(running, stage)
                raise
            finally:
                result = summary(running, stage, await stage.order("report"), gauges, seconds)
                show(result)
        await stage.close()
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1))
    drifted = [
        name for name, d in result["drift"].items() for pair in d.values() if not pair[0] or change(pair) > DRIFT
    ]
    judged = drifted if arguments.minutes >= 10 else []
    faults = ("hung", "wrong", "lies", "unready", "complaints")
    return 1 if judged or any(result[name] for name in faults) else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=50)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two faults")
    parser.add_argument("--placement", type=lambda text: text.split(","), default=["inline"])
    parser.add_argument("--json", type=Path)
    logging.getLogger("smcp_runtime").setLevel(logging.ERROR)
    sys.exit(asyncio.run(soak(parser.parse_args())))


if __name__ == "__main__":
    main()
