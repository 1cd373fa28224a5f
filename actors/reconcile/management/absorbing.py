"""The management half of the ReconcileActor: every operation writes the intent first and then absorbs it (R-CORE-3).

Operations take turns with all others that change the set (R-LIFE-2). People are asked
outside of the turns: nobody waits for a person but the server the question is about.
"""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from ....wire.base import to_json
from ....wire.codec import Attachment
from ....wire.errors import AuthError, ConfigValidationError, PolicyError, SmcpError
from ....wire.messages.management import (
    Answer,
    AnswerApproval,
    AuthorizeServer,
    ChangeSettings,
    DeclareServer,
    GetPendingDifferences,
    ManagementResult,
    PendingDifferences,
    ReloadFiles,
    SettingsView,
    ShowSettings,
)
from ....wire.messages.mcp import LaunchPlan, ServerStatus
from ....wire.messages.projection import ChangeResult, PendingApproval
from ...kernel import Actor, handler
from ..composition import Composition, Picture
from ..config.computer_config import ComputerConfig
from ..config.inputs import Definition
from ..config.json_text import load
from ..config.oauth_entry import may_be_authorized
from ..config.options import RuntimeOptions
from ..config.server_entry import ServerEntry
from ..held import Held
from ..loading import Loaded, differences_on_disk, load_again
from ..running.lanes import Lanes
from ..scopes.places import Places
from ..server_set import SetEntry
from ..values.stores import Stores
from .declaring import declare, read_declared
from .operations import (
    answered,
    changed_settings,
    outcome_of,
    outcome_of_declaring,
    outcome_of_settings,
    shown_settings,
)

logger = logging.getLogger(__name__)

AUTHORIZE_LIMIT = 300.0
"""Seconds a person has to authorize a server."""
ANSWERS: Mapping[object, Answer] = {
    "approve": "approve",
    "yes": "approve",
    "deny": "deny",
    "no": "deny",
    "approve_all": "approve_all",
    "all": "approve_all",
}
"""What the hook `server_approval` may answer; anything else leaves the server pending."""


class Management(Actor, ABC):
    """Provided by the ReconcileActor: everything named here."""

    _held: Held
    _options: RuntimeOptions
    _files: Places
    _stores: Stores
    _composition: Composition
    _turn: anyio.Lock
    _lanes: Lanes
    _authorize: Callable[[LaunchPlan], Awaitable[None]] | None
    _asking: set[tuple[str, str]]

    @abstractmethod
    async def _change(
        self,
        config: ComputerConfig,
        mounts: Mapping[str, ServerEntry],
        loaded: Loaded | None = None,
        *,
        defined: Mapping[str, Definition] | None = None,
    ) -> ChangeResult: ...

    @abstractmethod
    def _member(self, bundle_id: str) -> SetEntry: ...

    @abstractmethod
    async def _render(self, picture: Picture, member: SetEntry, *, is_automatic: bool) -> LaunchPlan: ...

    # -- approvals ------------------------------------------------------------------------

    @handler(concurrent=16)
    async def answer_approval(self, message: AnswerApproval) -> ManagementResult:
        """Writes an answer to local settings and lets it count at once (R-GATE-12, R-GATE-15)."""
        async with self._turn:
            return await self._answer(message)

    async def _answer(self, message: AnswerApproval) -> ManagementResult:
        """Holds the turn."""
        member = None if message.answer == "approve_all" else self._member(message.bundle_id)
        rules = self._composition.picture.rules
        changed = await anyio.to_thread.run_sync(answered, message, member, rules, self._files)
        await self._absorb()
        if member is None:
            return ManagementResult(changed, written_scope="local")
        after = self._member(member.bundle_id)
        return outcome_of(changed, after, message.answer, self._composition.picture.settings)

    def _ask_for_approvals(self) -> None:
        """Asks the application about servers it was not asked about yet; each server as it is, once."""
        known = self._asking | self._held.asked.items()
        fresh = [one for one in self._composition.pending if (one.bundle_id, one.fingerprint) not in known]
        if not fresh:
            return
        if self._options.server_approval is None:
            for request in fresh:
                self._held.asked[request.bundle_id] = request.fingerprint
                logger.warning("%s of %s waits for an approval and is not started", request.bundle_id, request.source)
        else:
            self._asking.update((request.bundle_id, request.fingerprint) for request in fresh)
            self.tasks.start_soon(self._ask_application, fresh, name="approvals")

    async def _ask_application(self, requests: list[PendingApproval]) -> None:
        """One question after the other; an answer to all ends the asking."""
        for request in requests:
            if request in self._composition.pending:
                await self._ask_about(request)
                # Not before: a question that dies with this actor has to be asked again.
                self._held.asked[request.bundle_id] = request.fingerprint
            self._asking.discard((request.bundle_id, request.fingerprint))

    async def _ask_about(self, request: PendingApproval) -> None:
        answer = await self._answer_of_application(request)
        if answer is None:
            return
        try:
            async with self._turn:
                await self._answer(AnswerApproval(answer, request.bundle_id, request.fingerprint))
        except SmcpError as error:
            logger.warning("the answer for %s could not be kept: %s", request.bundle_id, error.code)

    async def _answer_of_application(self, request: PendingApproval) -> Answer | None:
        assert self._options.server_approval is not None
        try:
            answer: Any = self._options.server_approval(request)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:
            # The host's code; an answer that cannot be had leaves the server where it is.
            logger.warning("nobody could be asked about %s: %s", request.bundle_id, type(error).__name__)
            return None
        return ANSWERS.get(answer) if isinstance(answer, str) else None

    @handler(concurrent=8)
    async def authorize_server(self, message: AuthorizeServer) -> ServerStatus:
        """Outside of the turns: a person takes a while, and only this server waits."""
        member = self._member(message.bundle_id)
        if not member.may_run:
            raise may_not_run(member)
        if self._authorize is None or not may_be_authorized(member.entry.type, member.entry.parameters):
            raise ConfigValidationError(
                f"{member.bundle_id} is no server that can be authorized",
                code="no_authorization",
                bundle_id=member.bundle_id,
            )
        plan = await self._render(self._composition.picture, member, is_automatic=False)
        with anyio.move_on_after(AUTHORIZE_LIMIT):
            await self._authorize(plan)
            return await self._lanes.restart(member.bundle_id)
        raise AuthError(f"nobody authorized {member.bundle_id} in time", code="not_granted", bundle_id=member.bundle_id)

    # -- settings and files -----------------------------------------------------------------

    @handler
    def show_settings(self, message: ShowSettings) -> SettingsView:
        """The settings as they count, of one scope or of all."""
        values, source = shown_settings(self._composition.picture.settings, message.scope)
        ambient = self._composition.picture.loaded.ambient
        revision = ambient.revisions.get(source) if source is not None else None
        return SettingsView(Attachment(to_json(values)), source, revision, self._composition.picture.findings)

    @handler(concurrent=16)
    async def change_settings(self, message: ChangeSettings) -> ManagementResult:
        """Writes settings of a scope, then absorbs them."""
        patch = load(message.patch.data, "patch")
        path, before = self._files.settings(message.scope), self._composition.picture.settings
        async with self._turn:
            changed, warnings = await anyio.to_thread.run_sync(
                changed_settings, path, message.scope, patch, before, message.expected_revision
            )
            await self._absorb()
        return outcome_of_settings(changed, warnings, patch, message.scope, self._composition.picture.settings)

    @handler(concurrent=16)
    async def declare_server(self, message: DeclareServer) -> ManagementResult:
        """Writes a declaration and mounts it."""
        raw = load(message.server.data, "server")
        entry = read_declared(raw)
        bundle_id = entry.bundle_id
        async with self._turn:
            self._composition.picture.refuse_claims(servers=(entry,))
            winner = self._held.servers.get(bundle_id)
            changed, scope = await anyio.to_thread.run_sync(
                declare, raw, message.scope, self._files, winner, message.expected_revision
            )
            await self._absorb()
            after = self._member(bundle_id)
        return outcome_of_declaring(changed, scope, after)

    @handler(concurrent=16)
    async def reload(self, _: ReloadFiles) -> ManagementResult:
        """Reads all files again; what is broken now counts as it was (F-66)."""
        async with self._turn:
            before = self._composition.picture.loaded
            await self._absorb()
            after = self._composition.picture
            return ManagementResult(before != after.loaded, diagnostics=after.findings)

    @handler(concurrent=16)
    async def pending_differences(self, _: GetPendingDifferences) -> PendingDifferences:
        """What happened on disk since."""
        loaded = self._composition.picture.loaded
        again = await anyio.to_thread.run_sync(load_again, self._options, loaded)
        return PendingDifferences(differences_on_disk(loaded, again))

    async def _absorb(self) -> ChangeResult:
        """Makes the set out of what is on disk now. Holds the turn."""
        known = self._composition.picture
        loaded = await anyio.to_thread.run_sync(load_again, self._options, known.loaded)
        return await self._change(known.config, known.mounts, loaded)


def may_not_run(member: SetEntry) -> PolicyError:
    """Why a member of the set may have no client."""
    why = member.reason or "it is disabled"
    return PolicyError(f"{member.bundle_id} may not run: {why}", code="not_enabled", bundle_id=member.bundle_id)
