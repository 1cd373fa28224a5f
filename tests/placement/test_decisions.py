"""Who gets a seat, what a worker may say, what it is given at its start, and what its numbers add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from smcp_runtime.actors.kernel import handler_table
from smcp_runtime.actors.mcp.actor import McpSupervisor
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.actors.placement import papers as paperwork
from smcp_runtime.actors.placement.customs import WorkerCustoms
from smcp_runtime.actors.placement.papers import Papers
from smcp_runtime.actors.placement.process import worker_environment
from smcp_runtime.actors.placement.report import Sum, rows_of
from smcp_runtime.actors.placement.roster import Arrival, Roster
from smcp_runtime.actors.placement.site import BusPlace, Site
from smcp_runtime.actors.placement.terms import Terms
from smcp_runtime.bus import Answer, Tally
from smcp_runtime.bus.zeromq import generate
from smcp_runtime.wire.codec import Attachment, encode
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError
from smcp_runtime.wire.message import Fact, Message
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.mcp import CallTool, ServerStatus, ServerStatusChanged, ToolsListed
from smcp_runtime.wire.messages.placement import GetGrant, KeepGrant, Serve, TakeSeat, WorkerReport, WorkRow
from smcp_runtime.wire.messages.projection import EndStart, GetLaunchPlan, GrantStart, SyncConfig
from smcp_runtime.wire.messages.tools import CallQueued

HERE = Arrival(1, "host")


class TestRoster:
    def test_the_first_external_worker_gets_the_seat_and_the_second_stands_by_until_that_has_gone(self) -> None:
        roster = Roster()
        place = roster.open("files", None)
        assert roster.take("files", "files.a")
        assert not roster.take("files", "files.b")
        assert roster.take("files", "files.a")  # it has it already
        roster.left("files.a", "left")
        assert place.lost is None  # nothing lived there yet
        assert roster.take("files", "files.b")
        roster.arrived("files", "files.b", HERE)
        roster.left("files.b", "silent for 5 s")
        assert place.lost == "silent for 5 s"

    def test_a_worker_that_asks_for_the_seat_it_has_lived_in_lost_its_actor_and_waits_for_the_next_life(self) -> None:
        roster = Roster()
        place = roster.open("files", None)
        assert roster.take("files", "files.a")
        roster.arrived("files", "files.a", HERE)
        assert not roster.take("files", "files.a")
        assert place.lost == "its actor went down there"
        roster.close(place)
        roster.open("files", None)
        assert roster.take("files", "files.a")

    def test_a_seat_is_only_for_workers_named_after_its_server(self) -> None:
        roster = Roster()
        roster.open("files", None)
        for node in ("other", "files-2", "filesystem", "own/files"):
            with pytest.raises(PolicyError):
                roster.take("files", node)

    def test_the_seat_of_a_spawned_worker_is_nobody_elses(self) -> None:
        roster = Roster()
        roster.open("files", "own/files")
        with pytest.raises(ConfigValidationError):
            roster.take("files", "files")
        with pytest.raises(ConflictError):
            roster.arrived("files", "files", HERE)
        roster.arrived("files", "own/files", HERE)
        assert roster.bundle_of("own/files") == "files"

    def test_a_worker_that_comes_late_or_for_an_unknown_server_is_told(self) -> None:
        roster = Roster()
        with pytest.raises(ConfigValidationError):
            roster.take("files", "files")
        place = roster.open("files", None)
        roster.take("files", "files")
        roster.close(place)
        with pytest.raises(ConflictError):
            roster.arrived("files", "files", HERE)
        assert roster.bundle_of("files") is None


def allows(customs: WorkerCustoms, node: str, target: str, message: Message) -> bool:
    body, attachments = encode(message)
    return customs.may_send(node, target, message.subject(), body, attachments)


def tells(customs: WorkerCustoms, node: str, message: Message) -> bool:
    body, attachments = encode(message)
    return customs.may_publish(node, message.subject(), body, attachments)


class TestCustoms:
    @pytest.fixture
    def customs(self) -> WorkerCustoms:
        return WorkerCustoms({"w": "files", "idle": None}.get)  # type: ignore[arg-type]

    OWN = (
        ("reconcile", GetLaunchPlan("files")),
        ("reconcile", GrantStart("files", "")),
        ("reconcile", EndStart("files")),
        ("workers", GetGrant("files", "oauth/files/0123456789abcdef")),
        ("workers", KeepGrant("files", "oauth/files/0123456789abcdef", None)),
        ("tools", CallQueued("files", "r", waiting=True)),
        ("workers", TakeSeat("files", "w")),
        ("workers", Serve("files", "w")),
    )
    FOREIGN = (
        ("reconcile", GetLaunchPlan("mail")),
        ("reconcile", GrantStart("mail", "")),
        ("workers", GetGrant("mail", "oauth/mail/0123456789abcdef")),
        ("workers", GetGrant("files", "oauth/mail/0123456789abcdef")),
        ("workers", KeepGrant("files", "input/files/password", None)),
        ("tools", CallQueued("mail", "r", waiting=True)),
        ("workers", TakeSeat("files", "another")),
        ("workers", Serve("files", "another")),
        ("mcp/mail", CallTool("read", Attachment(b"{}"), 5.0)),
        ("reconcile", SyncConfig(Attachment(b"{}"))),
        ("tools", GetLaunchPlan("files")),
    )

    @pytest.mark.parametrize(("target", "message"), OWN)
    def test_a_worker_asks_what_its_own_server_is_about(
        self, customs: WorkerCustoms, target: str, message: Message
    ) -> None:
        assert allows(customs, "w", target, message)

    @pytest.mark.parametrize(("target", "message"), FOREIGN)
    def test_a_worker_asks_nothing_else(self, customs: WorkerCustoms, target: str, message: Message) -> None:
        assert not allows(customs, "w", target, message)

    def test_a_worker_without_a_seat_may_only_ask_for_one(self, customs: WorkerCustoms) -> None:
        asked = [allows(customs, "idle", target, message) for target, message in self.OWN]
        assert not any(asked)
        assert allows(customs, "idle", "workers", TakeSeat("files", "idle"))
        assert not customs.may_claim("idle", "mcp/files")

    def test_a_worker_tells_of_its_own_server_only(self, customs: WorkerCustoms) -> None:
        assert tells(customs, "w", ServerStatusChanged(ServerStatus("files")))
        assert tells(customs, "w", ToolsListed("files", 1, Attachment(b"[]")))
        assert not tells(customs, "w", ServerStatusChanged(ServerStatus("mail")))
        assert not tells(customs, "w", ToolsListed("mail", 1, Attachment(b"[]")))
        assert not tells(customs, "w", ActorUp("mcp/files", 2))

    def test_a_worker_has_its_own_addresses_only_and_hears_of_no_others(self, customs: WorkerCustoms) -> None:
        claims = ("mcp/files", "worker/files", "mcp/mail", "tools", "reconcile")
        assert [customs.may_claim("w", address) for address in claims] == [True, True, False, False, False]
        assert customs.may_observe("w", "ToolsRead")
        assert customs.may_observe("w", "ResourcesRead")
        assert not customs.may_observe("w", "ServerStatusChanged")

    def test_a_worker_hears_what_its_actor_observes(self, customs: WorkerCustoms) -> None:
        observed = [name for name, spec in handler_table(McpSupervisor).items() if issubclass(spec.message, Fact)]
        assert observed
        assert all(customs.may_observe("w", subject) for subject in observed)

    @pytest.mark.parametrize("body", [b"", b"\x91", b"\xff" * 40, b"\x93\xa0\x01\x02"])
    def test_what_cannot_be_read_is_not_let_through(self, customs: WorkerCustoms, body: bytes) -> None:
        assert not customs.may_send("w", "reconcile", "GetLaunchPlan", body, ())
        assert not customs.may_publish("w", "ToolsListed", body, ())
        assert not customs.may_send("w", "reconcile", "NoSuchMessage", body, ())


def site(keys: Path | None, root: Path) -> Site:
    return Site(BusPlace("tcp://127.0.0.1:*", keys), ProcessRecords(root / "records"), root / "logs", stop_within=1.0)


class TestSite:
    def test_external_workers_come_with_the_keys_of_a_directory_but_not_with_that_of_the_hub(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "keys"
        hub, worker = generate(folder, "hub"), generate(folder, "files")
        made = site(folder, tmp_path)
        assert made.keys == hub
        assert made.name_of(worker.public) == "files"
        assert made.name_of(hub.public) is None
        assert made.name_of(generate(tmp_path / "elsewhere", "files").public) is None

    def test_a_directory_without_the_hubs_keys_says_how_to_make_them(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigValidationError, match="smcp bus keygen hub"):
            site(tmp_path, tmp_path)


def test_papers_are_read_as_they_were_written() -> None:
    written = Papers(1, Terms("files", "own/files", "/records", "/logs"), "INFO")
    data = paperwork.write(written)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert paperwork.read(data[4:]) == written


@pytest.mark.spec("R-SEC-12")
def test_a_worker_gets_nothing_of_our_environment_that_could_be_a_secret() -> None:
    ours = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "/x", "https_proxy": "http://p", "TZ": "UTC"}
    theirs = {"A2C_SMCP_TOKEN": "s", "AUTH": "s", "OPS_TOKEN": "s", "AWS_SECRET_ACCESS_KEY": "s"}
    assert worker_environment({**ours, **theirs}) == ours


def reported(count: int, total: float, failed: int = 0) -> WorkerReport:
    counts = (0,) * 17 + (count,)
    return WorkerReport(1, "host", rows=(WorkRow("CallTool", counts, total, failed, 0),))


def shown(work: Sum) -> Sequence[tuple[str, int, float, int]]:
    return [(message, row.count, row.total, row.failed) for message, row in work.rows().items()]


def test_numbers_of_workers_one_after_another_add_up_and_are_not_counted_twice() -> None:
    work = Sum()
    work.take(reported(2, 0.2))
    work.take(reported(3, 0.3, failed=1))
    assert shown(work) == [("CallTool", 3, 0.3, 1)]
    work.over()
    assert shown(work) == [("CallTool", 3, 0.3, 1)]
    assert work.latest.pid == 0
    work.take(reported(1, 0.5))
    assert shown(work) == [("CallTool", 4, 0.8, 1)]


def test_a_report_holds_the_work_of_the_hosted_actor_alone() -> None:
    tally = Tally()
    for actor in ("mcp/files", "worker/files"):
        envelope = Envelope("ask", "CallTool", Address(actor), id=1)
        tally.handled(Address(actor), envelope, 1.0, 1.0001, Answer(b""))
    (row,) = rows_of(tally, "mcp/files")
    assert (row.message, row.counts[0], sum(row.counts)) == ("CallTool", 1, 1)
