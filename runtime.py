"""A Computer: configuration in, actors wired, lifecycle out.

    async with Computer.from_config(config) as computer:
        await computer.connect("https://smcp.example", office="lab")
        ...

The composition root: it decides nothing that a core or an actor could decide. Operations
take turns, their legality is the table of `wire.lifecycle`, and what must survive the
death of an actor (configuration, mounted servers, wishes) is kept here.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import anyio

from .actors.computer.channels import SKILLS
from .actors.computer.conduct import CHANGE_LIMIT, seen_through
from .actors.computer.crew import RECONCILE, SOCKET, STATUS_LIMIT, Crew
from .actors.computer.documents import Documents
from .actors.computer.manage import Manage, given, partial_failure
from .actors.computer.veto import refuse_vetoed
from .actors.reconcile.config import directories
from .actors.reconcile.config.computer_config import (
    ComputerConfig,
    Connection,
    ParsedConfig,
    canonical,
    parse_computer_config,
)
from .actors.reconcile.config.options import RuntimeOptions, settle
from .actors.reconcile.held import Held
from .actors.socket.credentials import Credentials
from .wire.errors import ConfigValidationError, Finding, ShutdownError
from .wire.messages.mcp import ServerStatus
from .wire.messages.projection import ChangeResult, ControlServer, MountServer, SyncConfig, UnmountServer
from .wire.messages.skills import GetSkillStatus, SkillStatus
from .wire.messages.socket import Connect, Join, Leave, LinkTarget

__all__ = ["Computer", "ComputerConfig", "RuntimeOptions"]

R = TypeVar("R")

JOIN_LIMIT = 35.0
"""Seconds for a join; its acknowledgement is waited for 30 s (R-LIFE-12)."""

logger = logging.getLogger(__name__)


class Computer(Documents):
    """One Computer. Its methods are for the event loop it was started in (asyncio).

    Make it with `from_config`; as a context manager it starts, and shuts down at the end.
    """

    def __init__(self, config: ParsedConfig, options: RuntimeOptions, warnings: Sequence[Finding] = ()) -> None:
        super().__init__(config, warnings, options.management_authorization)
        self._options = options
        self._link_numbers = itertools.count(1)
        self._auth: Mapping[str, Any] | None = None
        self.register_resolver(options.document_resolver)
        self._in_force = True
        self._run_values: dict[str, Any] = {}
        self._tokens: dict[str, str] = {}
        self.manage = Manage(self._manage)

    @classmethod
    def from_config(
        cls, config: ComputerConfig | Mapping[str, Any] | str | bytes, options: RuntimeOptions | None = None
    ) -> Computer:
        """A Computer that has done nothing yet: no file, process, connection or task (R-CFG-1).

        Raises:
            ConfigValidationError, ConflictError, PolicyError: One error with all findings (R-CFG-2).
        """
        parsed = parse_computer_config(config)
        settled, warnings = settle(options or RuntimeOptions(), parsed.config)
        for warning in warnings:
            logger.warning("option %s %s", warning.field, warning.reason)
        return cls(parsed, settled, warnings)

    async def __aenter__(self) -> Computer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.shutdown(force=error is not None)

    # -- operations -------------------------------------------------------------------------

    async def start(self) -> None:
        """Brings the local runtime up: actors, then servers, for which it waits a moment only (R-LIFE-6, DEC-37).

        Raises:
            ConflictError: It is shut down (`lifecycle`), or a stop cut in (`interrupted`).
            SmcpError: Explicit inputs are invalid or home is unusable; everything opened is released (R-LIFE-8).
        """
        async with self._operation("start", interruptible=True):
            if self._admit("start") == "no_op":
                return
            self._bulletin.during("starting")
            try:
                await self._open()
            except BaseException as error:
                with anyio.CancelScope(shield=True):
                    await self._release()
                failed = isinstance(error, Exception)
                self._bulletin.settle("error" if failed else "stopped", code=getattr(error, "code", None))
                raise
            self._bulletin.settle("started")
            self._degradations_moved()
        connection = self.config.connection
        if connection is not None and connection.auto_connect:
            await self.connect()

    async def connect(
        self, url: str | None = None, *, office: str | None = None, auth: Mapping[str, Any] | None = None
    ) -> None:
        """Connects, and joins an office if one is named here or in the configuration.

        Args:
            url, office, auth: In place of those of `connection`; `auth` also in place of the provider's.
        Raises:
            ConfigValidationError: There is no URL, or one that is unusable.
            ProtocolVersionError, AuthError, NetworkError: R-LIFE-12.
            ConflictError, PolicyError: The join was refused (`join_failed`); the connection stays.
        """
        async with self._operation("connect", interruptible=True):
            self._admit("connect")
            target = self._target(url)
            same = self._bulletin.standing.wish.target in (None, target)
            if self._admit("connect", same_target=same) == "no_op":
                return
            self._auth = auth
            self._bulletin.standing.connecting(target)
            self._bulletin.refresh()
            try:
                # The credentials and the handshake end by themselves within that time each.
                limit = self._options.connect_timeout_s * 2 + 1.0
                self._bulletin.standing.reported(await self._ask(SOCKET, Connect(target), limit))
            except BaseException as error:
                self._bulletin.standing.refused()
                self._bulletin.refresh(code=getattr(error, "code", None))
                raise
            self._bulletin.refresh()
            wanted = office or (self.config.connection.office_id if self.config.connection else None)
            if wanted is not None:
                await self._join(wanted)

    async def join(self, office: str) -> None:
        """Joins an office, leaving the present one first.

        Raises:
            ConflictError, PolicyError, NetworkError: R-LIFE-12; it stays connected.
        """
        async with self._operation("join"):
            verdict = self._admit("join", same_office=office == self.office)
            if verdict == "switch":
                await self._leave()
            if verdict != "no_op":
                await self._join(office)

    @seen_through
    async def leave(self) -> None:
        """Drains, then leaves the office (DEC-26), also when nobody waits for it any more.

        In no office there is nothing to do.
        """
        async with self._operation("leave"):
            if self._admit("leave", wished=self._bulletin.standing.wish.office is not None) == "go":
                await self._leave()

    @seen_through
    async def disconnect(self) -> None:
        """Drains, leaves and ends the connection; servers go on running (R-LIFE-14).

        Whoever stops waiting for it calls nothing back; what is asked for next has its turn afterwards.
        """
        async with self._operation("disconnect"):
            if self._admit("disconnect") == "go":
                await self._hang_up(self._options.drain_timeout_s)
                self._carry_on()

    async def sync_config(self, config: ComputerConfig | Mapping[str, Any] | str | bytes) -> ChangeResult:
        """Replaces the held configuration and applies the difference (R-LIFE-15, R-LIFE-18).

        Raises:
            ConfigValidationError, ConflictError, PolicyError: It is invalid; nothing changed.
            PartialFailureError: Some items failed; the state is `degraded`.
        """
        parsed = parse_computer_config(config)
        new = parsed.config
        message = SyncConfig(given(canonical(new), "config"))
        async with self._operation("sync_config", interruptible=True):
            await refuse_vetoed(self._veto, message)
            verdict = self._admit("sync_config")
            if new == self.config and self._in_force:
                return ChangeResult(self._crew.overview.status.commit if self._crew is not None else 0)
            if verdict == "replace":
                self._hold(parsed)
                self._bulletin.settle("stopped" if self.phase == "error" else self.phase)
                return ChangeResult(0)
            if new.name != self.config.name:
                raise ConfigValidationError("a running Computer keeps its name", field="name", code="name_changed")
            self._bulletin.during("syncing")
            self._may_hold(parsed)
            # How far one without a result came nobody knows; the next one goes through, also an equal one.
            self._in_force = False
            try:
                result = await self._ask(RECONCILE, message, CHANGE_LIMIT)
                self._given, self._in_force = (parsed,), not result.failed
            finally:
                self._carry_on()
            if result.failed:
                raise partial_failure(result)
            return result

    async def mount(self, server: Mapping[str, Any]) -> ChangeResult:
        """Adds or replaces one server until the Computer stops (R-CORE-9)."""
        return await self._manage(MountServer(given(server, "server")))

    async def unmount(self, bundle_id: str) -> ChangeResult:
        """Removes a mounted server."""
        return await self._manage(UnmountServer(bundle_id))

    async def control(self, bundle_id: str, action: Literal["start", "stop", "restart"]) -> ServerStatus:
        """Starts, stops or restarts one server of the set.

        Raises:
            ConfigValidationError: There is none of this bundle_id (`unknown_server`).
        """
        return await self._manage(ControlServer(bundle_id, action))

    @property
    def home(self) -> Path:
        """Its data root (R-FILE-1)."""
        return directories.resolve(self._options).home

    @property
    def project(self) -> Path:
        """Where the files of its project and local scopes are (03 §3.2)."""
        return Path(os.path.realpath(self._options.project_root or "."))

    async def skills(self) -> SkillStatus:
        """All registered skills, orphans included, with what is wrong with them."""
        return await self._ask(SKILLS, GetSkillStatus(), STATUS_LIMIT)

    @seen_through
    async def stop(self) -> None:
        """Ends all service activity; the intent stays, and it can start again (R-LIFE-19).

        As with `disconnect`, it happens also when nobody waits for it any more.
        """
        self._same_loop()
        with self._turns.cut_in():
            async with self._operation("stop"):
                if self._admit("stop") == "no_op":
                    return
                try:
                    await self._wind_down(self._options.drain_timeout_s)
                finally:
                    self._bulletin.settle("stopped")

    @seen_through
    async def shutdown(self, *, force: bool = False) -> None:
        """Stops for good (R-LIFE-20), also when nobody waits for it any more. A second caller waits for the first.

        Args:
            force: Answers calls in flight at once instead of draining.
        Raises:
            ShutdownError: Something could not be cleaned up; everything was attempted, and it is shut down.
        """
        self._same_loop()
        with self._turns.cut_in():
            async with self._operation("shutdown"):
                if self._admit("shutdown") == "no_op":
                    return
                try:
                    await self._wind_down(0.0 if force else self._options.drain_timeout_s)
                finally:
                    self._bulletin.settle("shutdown")
                    self._bulletin.close()

    # -- inside: operations ---------------------------------------------------------------

    async def _join(self, office: str) -> None:
        self._bulletin.standing.reported(await self._ask(SOCKET, Join(office), JOIN_LIMIT))
        self._bulletin.refresh()

    async def _leave(self) -> None:
        grace = self._options.drain_timeout_s
        try:
            await self._ask(SOCKET, Leave(grace), grace + JOIN_LIMIT)
        finally:
            self._bulletin.standing.left()
            self._bulletin.refresh()

    async def _hang_up(self, grace: float) -> None:
        self._bulletin.during("disconnecting")
        if self._crew is not None:
            await self._crew.hang_up(grace)
        self._bulletin.standing.ended()

    def _carry_on(self) -> None:
        """Back to what it did before an operation, unless its actors are gone meanwhile."""
        if self._crew is not None:
            self._bulletin.settle("started")

    async def _wind_down(self, grace: float) -> None:
        """Everything of R-LIFE-19, in its order, each step bounded."""
        if self._bulletin.standing.wish.target is not None:
            await self._hang_up(grace)
        self._bulletin.during("stopping")
        crew, self._crew = self._crew, None
        if crew is not None and (errors := [*await crew.halt(grace), *await crew.dismiss()]):
            raise ShutdownError(f"not everything ended as it should: {', '.join(errors)}", causes=errors)

    # -- inside: what runs ------------------------------------------------------------------

    async def _open(self) -> None:
        """The crew of a started Computer; what was opened of one that fails is released by the caller."""
        self._loop = asyncio.get_running_loop()
        self._held = Held(self.config, run_values=self._run_values, tokens=self._tokens)
        self._in_force = True
        self._crew = crew = await Crew.muster(
            self._held,
            self._options,
            operations=self.operations,
            credentials=Credentials(self._auth_now, lambda: self._held.secrets, self._headers_now),
            wish=lambda: self._bulletin.standing.wish,
            resolver=lambda: self._resolver,
            link_numbers=self._link_numbers,
            on_change=self._degradations_moved,
            on_link=self._bulletin.link_moved,
            on_actor=self._actor_died,
            make_bus=self.make_bus,
        )
        crew.house.on_collapse(lambda failure: self._collapsed(crew, failure))
        if self._options.auto_start:
            await crew.overview.launched(self._options.start_wait_s)

    async def _release(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            await crew.dismiss()

    def _auth_now(self) -> Any:
        """The credentials of this handshake, or something to await for them."""
        if self._auth is not None:
            return self._auth
        provider = self._options.auth_payload_provider
        if provider is not None:
            return provider() if callable(provider) else provider
        return self.config.connection.auth if self.config.connection is not None else None

    def _headers_now(self) -> Mapping[str, str]:
        return self.config.connection.headers if self.config.connection is not None else {}

    def _target(self, url: str | None) -> LinkTarget:
        connection = self.config.connection or Connection()
        wanted = url or connection.url
        if wanted is None:
            raise ConfigValidationError("there is no Server to connect to", field="connection.url", code="no_url")
        return LinkTarget(wanted, connection.namespace, connection.socketio_path, connection.headers)

    # -- inside: what is heard ----------------------------------------------------------------

    def _actor_died(self, address: str, returns: bool) -> None:
        if address == SOCKET:
            self._bulletin.link_lost(returns=returns)

    def _degradations_moved(self) -> None:
        if self._crew is not None:
            self._bulletin.degrade(degraded=bool(self._crew.overview.degradations))

    def _collapsed(self, crew: Crew, failure: BaseException | None) -> None:
        """Bus or supervisor are gone though nobody asked: an invariant of ours is broken."""
        if crew is not self._crew:
            return  # one that was given up already; what runs now does not need it
        logger.error("the actors of %s are gone: %s", self.name, type(failure).__name__)
        self._crew = None
        self._bulletin.settle("error", code="collapsed")
