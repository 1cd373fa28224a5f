"""How a start that somebody ordered ended: up, failed with its category, or still on its way."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from smcp_runtime.actors.reconcile.running.start_outcome import StartOutcomes, failure_of
from smcp_runtime.wire.errors import ActorLost, AuthError, MissingInputError, NetworkError, SmcpError, StartupError
from smcp_runtime.wire.messages.mcp import Connection, ServerStatus

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
QUEUED = ServerStatus("srv", "started", "connecting", "queued")
READY = ServerStatus("srv", "started", "connected", "ready")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def failed(category: str | None, code: str | None = None, connection: Connection = "error") -> ServerStatus:
    return ServerStatus("srv", "started", connection, "backing_off", "why", category, code)


class Server:
    """Says one status after another, each time it is looked at; the last one for ever."""

    def __init__(self, *statuses: ServerStatus | SmcpError, heard: ServerStatus | None = None) -> None:
        self._statuses: Iterator[ServerStatus | SmcpError] = iter(statuses)
        self._last: ServerStatus | SmcpError = QUEUED
        self.looks = 0
        self.outcomes = StartOutcomes(self.look, lambda _: heard)

    async def look(self, _: str) -> ServerStatus:
        self.looks += 1
        self._last = next(self._statuses, self._last)
        if isinstance(self._last, SmcpError):
            raise self._last
        return self._last

    async def outcome(self, patience: float = 5.0) -> ServerStatus:
        """The outcome, while something happens to the server as soon as it was looked at."""
        found: ServerStatus | SmcpError
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_moving)
            try:
                found = await self.outcomes.of("srv", patience)
            except SmcpError as error:
                found = error
            group.cancel_scope.cancel()
        if isinstance(found, SmcpError):
            raise found
        return found

    async def _keep_moving(self) -> None:
        while True:
            self.outcomes.moved("srv")
            await anyio.lowlevel.checkpoint()


async def test_a_server_that_is_up_is_told_at_once() -> None:
    server = Server(READY)
    assert await server.outcomes.of("srv", 5.0) == READY
    assert server.looks == 1


async def test_one_that_is_on_its_way_is_looked_at_again_whenever_it_moved() -> None:
    server = Server(QUEUED, ServerStatus("srv", "started", "connecting", "starting"), READY)
    assert await server.outcome() == READY
    assert server.looks == 3


@spec("R-MCP-25")
async def test_patience_ends_with_the_status_of_a_server_on_its_way() -> None:
    assert await Server(QUEUED).outcomes.of("srv", 0.01) == QUEUED


@spec("R-MCP-25")
async def test_a_missing_authorization_is_an_auth_error() -> None:
    with pytest.raises(AuthError) as caught:
        await Server(failed("auth", "4006", "authorization_required")).outcome()
    assert (caught.value.code, caught.value.bundle_id) == ("authorization_required", "srv")


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (failed("network", "unreachable"), NetworkError, "unreachable"),
        (failed("startup", "ended_early"), StartupError, "ended_early"),
        (failed(None), StartupError, "startup"),
        (failed("none of ours", "x"), SmcpError, "x"),
    ],
)
async def test_a_failure_is_an_error_of_its_category(status: ServerStatus, kind: type[SmcpError], code: str) -> None:
    error = failure_of(status)
    assert (type(error), getattr(error, "code", None)) == (kind, code)


async def test_a_rendering_that_failed_is_told_with_everything_it_knows() -> None:
    server = Server(failed("missing_input", "missing_input"))
    server.outcomes.rendered("srv", MissingInputError("no value", input_id="t"))
    with pytest.raises(MissingInputError) as caught:
        await server.outcome()
    assert caught.value.input_id == "t"


async def test_a_rendering_that_succeeded_since_is_not_what_failed() -> None:
    server = Server(failed("missing_input", "missing_input"))
    server.outcomes.rendered("srv", MissingInputError("no value", input_id="t"))
    server.outcomes.rendered("srv")
    with pytest.raises(MissingInputError) as caught:
        await server.outcome()
    assert caught.value.input_id is None


async def test_an_actor_that_was_lost_is_judged_by_what_was_heard_of_it() -> None:
    with pytest.raises(StartupError):
        await Server(ActorLost("gone"), heard=failed("startup", "actor_down")).outcome()


async def test_a_server_that_was_removed_meanwhile_is_stopped() -> None:
    assert await Server(QUEUED, ActorLost("gone")).outcome() == ServerStatus("srv")
