"""Following servers and neighbours by what they say of themselves: facts only mark what the next commit looks at."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ....wire.envelope import Address
from ....wire.errors import ActorLost, BusError, SmcpError
from ....wire.messages.channels import SliceChanged
from ....wire.messages.kernel import ActorDown, ActorParked, ActorUp
from ....wire.messages.mcp import ResourcesListed, ServerStatus, ServerStatusChanged, ToolsListed
from ....wire.messages.skills import GetSkillStatus, SkillNote, SkillsNoted
from ...kernel import observer
from ..commits.committer import Committer
from ..commits.degradations import Degradations
from ..held import Held
from ..lazy.desk import LazyDesk
from .keeper import WAITING, address_of, bundle_id_of, waiting
from .lanes import Lanes
from .start_outcome import StartOutcomes
from .start_places import StartPlaces

logger = logging.getLogger(__name__)

SKILLS = Address("skills")
ASK_LIMIT = 5.0
FAULTY = ("error", "authorization_required")
"""Connections of a server that is started and does not work."""


class Following(LazyDesk):
    """The observing half of the ReconcileActor, which provides everything named here."""

    _held: Held
    _committer: Committer
    _degradations: Degradations
    _lanes: Lanes
    _outcomes: StartOutcomes
    _places: StartPlaces
    _wall_clock: Callable[[], float]

    @observer
    def on_status(self, fact: ServerStatusChanged) -> None:
        """Follows a server on its two axes. What ails one that nobody wants is no concern of anybody."""
        status = fact.status
        bundle_id = status.bundle_id
        if bundle_id not in self._held.servers:
            return
        if status.connection in FAULTY and not self._lanes.is_wanted(bundle_id):
            status = ServerStatus(bundle_id, since=status.since)
        if not self._held.facts.take_status(ServerStatusChanged(status, fact.number)):
            return
        self.listed(bundle_id)
        self._outcomes.moved(bundle_id)
        self._degradations.follow(status, self._wall_clock())
        self._committer.mark()

    @observer
    def on_tools(self, fact: ToolsListed) -> None:
        """Takes a server's tools in."""
        if fact.bundle_id in self._held.servers:
            self._held.facts.take_tools(fact)
            self.listed(fact.bundle_id)
            self._committer.mark()

    @observer
    def on_resources(self, fact: ResourcesListed) -> None:
        """Takes a server's resources in."""
        if fact.bundle_id in self._held.servers:
            self._held.facts.take_resources(fact)
            self._committer.mark()

    @observer
    def on_contents(self, fact: SliceChanged) -> None:
        """The owner of a slice has told of a change itself."""
        self._committer.learned(fact.slice, fact.signature)

    @observer
    def on_skills(self, fact: SkillsNoted) -> None:
        """What is wrong with skills is told by their actor, whenever that changes."""
        self._take_skills(fact.notes)

    @observer
    def on_up(self, fact: ActorUp) -> None:
        """A neighbour that lives again needs its slice, a server's actor its order to start."""
        self._committer.forget(fact.address)
        if fact.address == SKILLS:
            self._take_skills(())  # its new life says what it finds
        bundle_id = bundle_id_of(fact.address)
        if bundle_id is None:
            return
        # What its former life said is over, whether the end of that was heard or not.
        self._held.facts.ended(bundle_id)
        if fact.incarnation > 1:
            self._lanes.reborn(bundle_id)
        self.tasks.start_soon(self._lanes.reassure, bundle_id, name=f"settle {bundle_id}")

    @observer
    def on_down(self, fact: ActorDown) -> None:
        """A dead server actor holds no place and serves no tools."""
        bundle_id = bundle_id_of(fact.address)
        if bundle_id is None:
            return
        if fact.next_try is None:
            # Mostly ended by its own lane, which may have given it a new actor since.
            self.tasks.start_soon(self._lanes.actor_ended, bundle_id, name=f"settle {bundle_id}")
            return
        self._places.give_back(bundle_id)
        self._lanes.actor_died(bundle_id)
        self._lost(bundle_id, "backing_off", fact.reason)

    @observer
    def on_parked(self, fact: ActorParked) -> None:
        """An actor that was given up for now."""
        bundle_id = bundle_id_of(fact.address)
        if bundle_id is not None:
            self._lost(bundle_id, "parked", fact.reason)

    async def ask_for_skills(self) -> None:
        """Learns what was said of skills while this actor was down."""
        try:
            self._take_skills((await self.ask(SKILLS, GetSkillStatus(), timeout=ASK_LIMIT)).notes)
        except SmcpError as error:
            logger.info("the skills do not say how they are: %s", error.code)

    def _take_skills(self, notes: tuple[SkillNote, ...]) -> None:
        told = tuple(f"{note.owner}: {note.place}: {note.text}" for note in notes if note.level != "debug")
        self._committer.noted("skills", told)
        self._degradations.take_skills(notes, self._wall_clock())

    async def ask_again(self, bundle_id: str) -> None:
        """Learns where a server stands whose actor was there before this one, and what became of that actor since."""
        try:
            status = await self._lanes.ask_again(bundle_id)
        except ActorLost as error:
            if error.details.get("executed") == "no":
                self._gone(bundle_id, str(error.details.get("down")))
            return
        except BusError as error:
            logger.info("%s does not say where it stands: %s", bundle_id, error.code)
            return
        # one that is to run and was never told so lives anew, and nobody was here to hear of it
        is_untold = status.activation == "stopped" and self._lanes.is_wanted(bundle_id)
        if is_untold:
            self._held.facts.ended(bundle_id)
            self._lanes.reborn(bundle_id)
        self.on_status(ServerStatusChanged(status))
        if is_untold:
            await self._lanes.settle(bundle_id)

    def _gone(self, bundle_id: str, why: str) -> None:
        """An actor that is not there now, as the bus says why: what was known of it is over."""
        self.on_down(ActorDown(address_of(bundle_id), 0, why, 0.0))
        if why == "parked":
            self.on_parked(ActorParked(address_of(bundle_id), why, None))
        elif why == WAITING:
            self.on_status(ServerStatusChanged(waiting(bundle_id, self._wall_clock())))

    def _lost(self, bundle_id: str, phase: str, reason: str) -> None:
        if bundle_id not in self._held.servers:
            return
        now = self._wall_clock()
        if self._lanes.is_wanted(bundle_id):
            status = self._held.facts.actor_died(bundle_id, phase, f"its actor ended: {reason}", now)
            self._degradations.follow(status, now)
        else:
            self._held.facts.ended(bundle_id)
            self._degradations.close("server", bundle_id)
        self._outcomes.moved(bundle_id)
        self._committer.mark()
