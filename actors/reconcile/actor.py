"""`reconcile`: owns the server set, starts and ends the actors of its servers, and makes the commits.

Operations decide and commit one after another; what a server takes its time for happens
behind them, in the order of that server alone (DEC-37). Facts only mark what to look at.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import anyio
import msgspec

from ...wire.codec import Attachment
from ...wire.errors import ConfigValidationError, ConflictError, SmcpError
from ...wire.messages.mcp import LaunchPlan, ServerStatusChanged
from ...wire.messages.projection import (
    ChangeResult,
    DegradationsMoved,
    EndStart,
    GetConfig,
    GetLaunchPlan,
    GetProjectionStatus,
    GrantStart,
    HaltServers,
    MountServer,
    ProjectedConfig,
    ProjectionStatus,
    Slice,
    SyncConfig,
    UnmountServer,
)
from ..kernel import handler
from ..kernel.news import say_new
from ..plugins.desk import PluginDesk
from ..plugins.recovery import INSTALL_FIELDS, Recovered
from ..plugins.site import site_of
from ..plugins.threads import in_thread
from .commits.committer import Committer
from .commits.degradations import Degradations, degradation_of_error
from .commits.feeds import feeds
from .composition import Composition, Picture
from .config.computer_config import ComputerConfig, parse_computer_config
from .config.findings import Findings, error_of
from .config.inputs import Definition
from .config.json_text import load
from .config.options import RuntimeOptions, unreachable
from .config.server_entry import ServerEntry, read_entry
from .held import Held
from .loading import Loaded, load_all, places_for, settings_of, with_plugins
from .management.absorbing import may_not_run
from .management.input_desk import InputDesk
from .management.server_desk import ServerDesk
from .pinning.desk import PinDesk
from .rendering.render import Renderer
from .rendering.resolution import Chain
from .running.following import Following
from .running.keeper import ServerKeeper, address_of
from .running.lanes import Lanes
from .running.plan import Plan, plan
from .running.start_gate import StartGate
from .running.start_outcome import StartOutcomes
from .running.start_places import StartPlaces
from .server_set import SetEntry
from .values.chain import chain_of, stores_of

logger = logging.getLogger(__name__)

_GATE_SLACK = 15.0
"""Seconds a start may need beyond its own budget to be given up, before its place is taken back."""


class ReconcileActor(Following, PluginDesk, ServerDesk, InputDesk, PinDesk):
    """Owner of one Computer's server set.

    Args:
        held: What outlives this actor.
        keeper: Starts and ends the actors of servers.
        options: Settled options.
        slices: The slices somebody answers for, beside the configuration.
        chain: Sources of input values, in place of those of the options.
        authorize: Has a server authorized (R-MCP-25); `None` where none can be.
        wall_clock: Unix seconds.
    """

    def __init__(
        self,
        held: Held,
        keeper: ServerKeeper,
        options: RuntimeOptions,
        *,
        slices: Iterable[Slice] = ("tool_list",),
        chain: Chain | None = None,
        authorize: Callable[[LaunchPlan], Awaitable[None]] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._held = held
        self._keeper = keeper
        self._options = options
        self._slices = tuple(slices)
        self._files = places_for(options)
        self._site = site_of(options)
        self._stores = stores_of(options, self._files.state, held.run_values)
        self._renderer = Renderer(options, chain or chain_of(options, self._stores), held.registry)
        self._authorize = authorize
        self._wall_clock = wall_clock
        self._composition = Composition(held, options)
        self._degradations = Degradations(lambda: self.publish(DegradationsMoved()))
        self._turn = anyio.Lock()
        self._asking = set()

    async def started(self) -> None:
        """Builds the set, then lets servers start behind the first commit.

        Raises:
            ConfigValidationError, ConflictError, PolicyError: A flag file is missing or faulty (R-SCOPE-3, R-LIFE-8).
        """
        gate = StartGate(
            self._options.max_concurrent_starts,
            self._options.max_concurrent_per_launcher,
            self._options.server_start_timeout_s + _GATE_SLACK,
        )
        self._places = StartPlaces(gate, self.now)
        served = feeds(
            self._held,
            self._slices,
            policies=lambda: self._composition.picture.policies,
            order=lambda: self._composition.picture.order,
            skill_roots=self._composition.skill_roots,
            plugin_skills=lambda: self._composition.picture.base.skills,
        )
        self._committer = Committer(self._held, self, self._composition.project, served)
        self._lanes = Lanes(
            self._held,
            self._keeper,
            self.ask,
            self.tasks.see_through,
            drain=self._options.drain_timeout_s,
            placement_of=lambda bundle_id: self._composition.picture.policies[bundle_id].placement,
            idle_stop_of=self.idle_stop_of,
            may_rest=self.may_rest,
            is_up=lambda bundle_id: self.reaches(address_of(bundle_id)),
            tell=lambda status: self.publish(
                ServerStatusChanged(msgspec.structs.replace(status, since=self._wall_clock()))
            ),
            could_not=self._could_not,
            ended=self._ended,
        )
        self._outcomes = StartOutcomes(self._lanes.look, self._held.facts.status)
        loaded = self._held.loaded
        if loaded is None:
            loaded = await anyio.to_thread.run_sync(load_all, self._options)
        if not self._held.is_running:
            loaded = await self._recovered(self._held.config, loaded, boot=True)
        elif "skills" in self._slices:
            self.tasks.start_soon(self.ask_for_skills, name="skills")
        await self.take_up_pins()
        self.begin_keeping()
        kept = self._keeper.children()
        self._adopt(self._composition.compose(self._held.config, self._held.mounts, loaded))
        await self.recall_listings()
        self._committer.mark()
        if not self._options.auto_start and not self._held.is_running:
            self._held.stopped.update(self._held.servers)
        self._held.is_running = True
        self.tasks.start_soon(self._committer.run, name="commits")
        self.tasks.start_soon(self._places.run, name="start places")
        self.tasks.start_soon(self._launch, frozenset(kept), name="first starts")

    # -- answers ------------------------------------------------------------------------

    @handler
    def config(self, _: GetConfig) -> ProjectedConfig:
        """The configuration of the last commit."""
        return ProjectedConfig(Attachment(self._held.projection), self._held.commit)

    @handler
    def status(self, _: GetProjectionStatus) -> ProjectionStatus:
        """Everything known without asking anybody."""
        return ProjectionStatus(
            self._held.commit,
            tuple(self._status_of(bundle_id) for bundle_id in self._held.servers),
            self._degradations.snapshot(),
            (
                *self._composition.picture.findings,
                *self._committer.notes,
                *self._held.facts.notes(),
                *self._held.pins.notes,
                *self._strays(),
            ),
            self._committer.filled,
            self._composition.pending,
        )

    @handler(concurrent=256)
    async def launch_plan(self, message: GetLaunchPlan) -> LaunchPlan:
        """One rendering for one start; a restart that was rendered already takes that (R-INPUT-21)."""
        member = self._member(message.bundle_id)
        if not member.may_run:
            raise may_not_run(member)
        prepared = self._lanes.take_prepared(member.bundle_id)
        if prepared is not None:
            return prepared
        entry, life = member.entry, self._lanes.life_of(member.bundle_id)
        try:
            made = await self._render(self._composition.picture, member, is_automatic=not message.interactive)
        except SmcpError as error:
            self._outcomes.rendered(member.bundle_id, error)
            raise
        self._outcomes.rendered(member.bundle_id)
        if not self._lanes.handed_out(member.bundle_id, entry.launch_shape, life):
            self.tasks.start_soon(self._lanes.settle, member.bundle_id, name=f"settle {member.bundle_id}")
        return made

    @handler(concurrent=4096)
    async def grant(self, message: GrantStart) -> None:
        """Waits for a place under the start caps."""
        await self._places.take(message.bundle_id, message.launcher)

    @handler
    def end_start(self, message: EndStart) -> None:
        """Gives a place back."""
        self._places.give_back(message.bundle_id)

    # -- changes ------------------------------------------------------------------------

    @handler(concurrent=64)
    async def sync(self, message: SyncConfig) -> ChangeResult:
        """Replaces the configuration (R-LIFE-15). An invalid one changes nothing."""
        parsed = parse_computer_config(message.config.data)
        faults = unreachable(parsed.config, self._options)
        if faults:
            raise error_of(faults, "computer config")
        async with self._turn:
            return await self._change(parsed.config, self._held.mounts, plugins=await self._plugins_for(parsed.config))

    @handler(concurrent=64)
    async def mount(self, message: MountServer) -> ChangeResult:
        """Adds or replaces one server of this run (R-MCP-9)."""
        findings = Findings("mount")
        entry = read_entry(load(message.server.data, "mount"), "server", findings)
        findings.raise_if_any("mount")
        assert entry is not None
        async with self._turn:
            return await self._change(self._held.config, {**self._held.mounts, entry.bundle_id: entry})

    @handler(concurrent=64)
    async def unmount(self, message: UnmountServer) -> ChangeResult:
        """Takes a mounted server away; what a lower layer declares under its id shows again."""
        async with self._turn:
            mounts = dict(self._held.mounts)
            if mounts.pop(message.bundle_id, None) is None:
                member = self._member(message.bundle_id)
                raise ConflictError(
                    f"{message.bundle_id} is declared by {member.source}, not mounted",
                    code="not_mounted",
                    bundle_id=message.bundle_id,
                )
            return await self._change(self._held.config, mounts)

    @handler(concurrent=4)
    async def halt(self, message: HaltServers) -> None:
        """Ends everything side by side and empties the projection."""
        self._places.close()
        await self._lanes.halt(message.drain)
        self._composition.clear()
        await self._committer.commit()

    # -- the set ------------------------------------------------------------------------

    async def _change(
        self,
        config: ComputerConfig,
        mounts: Mapping[str, ServerEntry],
        loaded: Loaded | None = None,
        *,
        plugins: Recovered | None = None,
        defined: Mapping[str, Definition] | None = None,
    ) -> ChangeResult:
        """Decides, commits, and leaves what takes time to the lanes. Holds the turn.

        Args:
            loaded: What was read from disk just now; `None` leaves it as it is, and nothing of it gives way.
            plugins: What is installed by then, in place of what was.
            defined: Inputs defined for this run by then, in place of those that were.
        """
        known = self._composition.picture.loaded if loaded is None else loaded
        if plugins is not None:
            known = msgspec.structs.replace(known, plugins=plugins)
        picture = self._composition.compose(config, mounts, known, defined)
        if loaded is None:
            self._composition.refuse_newcomers(picture)
        wanted = plan(self._held.servers, picture.servers)
        failed = await self._prepare(wanted, picture)
        for bundle_id in failed:
            picture.servers[bundle_id] = self._held.servers[bundle_id]
        if not self._options.auto_start:
            self._held.stopped.update(wanted.start)
        return await self.tasks.see_through(self._carry_out, picture, wanted, failed)

    async def _carry_out(self, picture: Picture, wanted: Plan, failed: tuple[str, ...]) -> ChangeResult:
        """From here on a set is either adopted and brought about, or neither."""
        for bundle_id in wanted.stop:
            self._degradations.close("server", bundle_id)
        self._adopt(picture)
        await self.recall_listings()
        number = await self._committer.commit()
        restarting = tuple(dict.fromkeys((*wanted.restart, *self._lanes.moved())))
        for bundle_id in (*wanted.stop, *wanted.start, *restarting):
            self.tasks.start_soon(self._lanes.settle, bundle_id, name=f"settle {bundle_id}")
        restart = tuple(bundle_id for bundle_id in restarting if bundle_id not in failed)
        return ChangeResult(number, wanted.start, wanted.stop, restart, wanted.remeta, failed)

    async def _prepare(self, wanted: Plan, picture: Picture) -> tuple[str, ...]:
        """Renders what will be restarted; a server that cannot be rendered keeps running as it is (R-INPUT-21)."""
        failed = []
        for bundle_id in wanted.restart:
            if not self._lanes.is_wanted(bundle_id):
                continue
            member = picture.servers[bundle_id]
            try:
                rendered = await self._render(picture, member, is_automatic=False)
                self._lanes.prepare(rendered, member.entry.launch_shape)
            except SmcpError as error:
                failed.append(bundle_id)
                self._degradations.open(degradation_of_error(bundle_id, error, self._wall_clock()))
        return tuple(failed)

    async def _render(self, picture: Picture, member: SetEntry, *, is_automatic: bool) -> LaunchPlan:
        definitions, policies = picture.definitions_for(member), picture.policies[member.bundle_id]
        return await self._renderer.render(
            member.entry, definitions, policies, is_automatic=is_automatic, plugin_id=picture.base.plugin_of(member)
        )

    async def _plugins_for(self, config: ComputerConfig) -> Recovered | None:
        """What is installed under another configuration; `None` when that says nothing new about it."""
        known = self._composition.picture
        said, says = (settings_of(one, known.loaded).merged for one in (known.config, config))
        if all(said.get(field) == says.get(field) for field in INSTALL_FIELDS):
            return None
        return (await self._recovered(config, known.loaded)).plugins

    async def _recovered(self, config: ComputerConfig, loaded: Loaded, *, boot: bool = False) -> Loaded:
        return await in_thread(self._site, lambda site: with_plugins(site, self._options, config, loaded, boot=boot))

    def _adopt(self, picture: Picture) -> None:
        """Makes a picture current; the next commit shows it, and who has to approve something of it is asked."""
        say_new(logger, picture.findings, self._composition.picture.findings)
        self._composition.adopt(picture)
        self._degradations.lose(picture.losses, self._wall_clock())
        self._committer.mark()
        self._ask_for_approvals()

    def _member(self, bundle_id: str) -> SetEntry:
        member = self._held.servers.get(bundle_id)
        if member is None:
            raise ConfigValidationError(
                f"no server has the bundle_id {bundle_id!r}", code="unknown_server", bundle_id=bundle_id
            )
        return member

    def _strays(self) -> list[str]:
        """Servers that have an actor and no entry: never shown to anybody else, and on their way out (R-MCP-11)."""
        strays = sorted(set(self._keeper.children()) - self._held.servers.keys())
        return [f"{bundle_id}: has no entry in the set and is not shown to Agents" for bundle_id in strays]

    # -- servers ------------------------------------------------------------------------

    async def _launch(self, kept: frozenset[str]) -> None:
        """The first starts, all at once; the caps are at the gate. Actors from before say where they stand."""
        async with anyio.create_task_group() as group:
            for bundle_id in self._held.servers.keys() | kept:
                group.start_soon(self._lanes.settle, bundle_id)
                if bundle_id in kept:
                    group.start_soon(self.ask_again, bundle_id)

    def _could_not(self, bundle_id: str, error: SmcpError) -> None:
        self._outcomes.moved(bundle_id)
        self._degradations.open(degradation_of_error(bundle_id, error, self._wall_clock()))

    def _ended(self, bundle_id: str) -> None:
        self._places.give_back(bundle_id)
        if bundle_id in self._held.servers:
            self._held.facts.ended(bundle_id)
        else:
            self._held.facts.forget(bundle_id)
            self._held.registry.release(bundle_id)
            self._held.stopped.discard(bundle_id)
        self._outcomes.moved(bundle_id)
        self._committer.mark()
