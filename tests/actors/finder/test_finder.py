"""The document channel: catalogue, query, resolver, and the order of checks (section E of the channels page)."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from smcp_runtime.actors.finder import Block, FinderActor, FinderSettings, Hint
from smcp_runtime.actors.finder.catalogue import build_catalogue
from smcp_runtime.actors.finder.query import Page, query
from smcp_runtime.actors.finder.reference import ReferenceResolver
from smcp_runtime.actors.finder.resolver import ResolutionFailed, blocks_of, resolve
from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import NetworkError, PeerError
from smcp_runtime.wire.messages.blobs import BlobTicket, KeepFile, KeptFile, SpoolBytes
from smcp_runtime.wire.messages.channels import ResourceSlice, ResourcesRead, SliceChanged
from smcp_runtime.wire.messages.finder import (
    ApplyFinder,
    CompleteDocument,
    ListDocuments,
    OpenDocument,
    ReadDocument,
    ResolvedDocument,
)
from smcp_runtime.wire.messages.mcp import (
    CompleteArgument,
    Completions,
    ReadResource,
    Relisted,
    RelistResources,
    ResourceContents,
    ResourceUpdated,
    Watched,
    WatchResources,
)
from smcp_runtime.wire.messages.tools import CallFinished, CallRecord
from smcp_runtime.wire.resources import list_digest
from smcp_runtime.wire.server_order import server_order

FINDER = Address("finder")
SECRET = "hunter2 in /home/someone"


def doc(uri: str, **more: Any) -> dict[str, Any]:
    meta = {"page_count": 3, **more.pop("meta", {})}
    return {"uri": uri, "name": more.pop("name", "A title"), "_meta": meta, **more}


def listed(bundle_id: str, *resources: Any, **state: Any) -> ResourceSlice:
    settings: dict[str, Any] = {"declared": True, "subscribe": True, "connected": True, "session": 1, **state}
    return ResourceSlice(bundle_id, "one name (display)", Attachment(msgspec.json.encode(resources)), **settings)


class TestCatalogue:
    @pytest.mark.spec("C-DOC-5")
    def test_a_summary_is_made_of_the_resource(self) -> None:
        resource = doc(
            "dpe://h/r%2F1",
            description="about",
            meta={"keywords": ["a", "b"], "file_type": "pdf", "page_count": 7, "file_uri": "file:///x"},
            annotations={"lastModified": "2026-01-02T03:04:05Z"},
        )
        (found,) = build_catalogue([listed("s", resource)]).documents
        assert json.loads(msgspec.json.encode(found.summary)) == {
            "doc_ref": "r/1", "uri": "dpe://h/r%2F1", "title": "A title", "summary": "about", "keywords": ["a", "b"],
            "page_count": 7, "mcp_server": "s", "file_type": "pdf", "file_uri": "file:///x",
            "last_modified": "2026-01-02T03:04:05Z",
        }  # fmt: skip

    @pytest.mark.spec("C-DOC-5")
    @pytest.mark.parametrize("pages", [-1, True, "3", 2.5, None])
    def test_a_bad_page_count_is_zero_with_a_note(self, pages: Any) -> None:
        catalogue = build_catalogue([listed("s", doc("dpe://h/r", meta={"page_count": pages}))])
        assert catalogue.documents[0].summary.page_count == 0
        assert len(catalogue.notes) == 1

    @pytest.mark.spec("C-DOC-5")
    def test_other_bad_members_fall_back(self) -> None:
        resource = doc(
            "dpe://h/r",
            name=None,
            description=5,
            meta={"keywords": ["a", 1], "file_type": 2},
            annotations={"lastModified": "soon"},
        )
        catalogue = build_catalogue([listed("s", resource)])
        assert json.loads(msgspec.json.encode(catalogue.documents[0].summary)) == {
            "doc_ref": "r", "uri": "dpe://h/r", "title": "r", "summary": "", "keywords": ["a"], "page_count": 3,
            "mcp_server": "s",
        }  # fmt: skip
        assert len(catalogue.notes) == 2

    @pytest.mark.spec("C-DOC-6", "C-DOC-7", "C-GEN-9")
    def test_only_valid_level_one_uris_of_participating_servers_are_entries(self) -> None:
        rubbish = [
            None,
            {},
            {"uri": 1},
            doc("window://h/r"),
            doc("dpe://h/r?x"),
            doc("dpe://h/r/pages/1"),
            doc("dpe://h"),
        ]
        catalogue = build_catalogue([
            listed("s", *rubbish, doc("dpe://h/r"), doc("dpe://h/r", name="again")),
            listed("t", doc("dpe://t/r"), subscribe=False),
            listed("u", doc("dpe://u/r"), connected=False),
        ])  # fmt: skip
        assert [(d.summary.uri, d.summary.title) for d in catalogue.documents] == [("dpe://h/r", "A title")]
        assert len(catalogue.notes) == 2

    @pytest.mark.spec("C-DOC-7", "C-GEN-10")
    def test_a_uri_no_answer_could_hold_costs_its_document_alone(self) -> None:
        catalogue = build_catalogue([listed("s", doc("dpe://h/" + "r" * 9_000), doc("dpe://h/r"))])
        assert [d.summary.uri for d in catalogue.documents] == ["dpe://h/r"]
        assert catalogue.notes == ("s: a document is skipped: its uri has 9008 characters",)

    @pytest.mark.spec("C-DOC-8", "C-SEC-42")
    def test_a_host_belongs_to_the_server_registered_first_and_the_other_is_left_out_whole(self) -> None:
        first, second = listed("z", doc("dpe://Host/r")), listed("a", doc("dpe://hOST/q"), doc("dpe://own/q"))
        catalogue = build_catalogue([first, second])
        assert [d.summary.mcp_server for d in catalogue.documents] == ["z"]
        assert "a" in catalogue.notes[0]
        assert "z" in catalogue.notes[0]
        assert [d.summary.mcp_server for d in build_catalogue([second]).documents] == ["a", "a"]


def ask(documents: Sequence[Any], servers: Sequence[str] = ("s", "t"), **wish: Any) -> tuple[list[str], int]:
    settings: dict[str, Any] = {"limit": 20, "budget": 10**6, **wish}
    page: Page = query(documents, servers, **settings)
    return [found["doc_ref"] for found in json.loads(page.documents)], page.total_count


class TestQuery:
    def library(self) -> Sequence[Any]:
        return build_catalogue([
            listed(
                "s",
                doc("dpe://s/old", annotations={"lastModified": "2020-01-01T00:00:00"}),
                doc("dpe://s/undated", name="Zürich REPORT"),
                doc("dpe://s/new", meta={"file_type": "pdf"}, annotations={"lastModified": "2026-01-01T00:00+09:00"}),
                doc("dpe://s/also-undated", description="a report"),
            ),
            listed("t", doc("dpe://t/other", meta={"keywords": ["Report"], "file_type": "PDF"})),
        ]).documents  # fmt: skip

    @pytest.mark.spec("C-DOC-14", "C-DOC-10")
    def test_newest_first_then_undated_by_uri_server_by_server(self) -> None:
        assert ask(self.library())[0] == ["new", "old", "also-undated", "undated", "other"]
        assert ask(self.library(), ("t", "s"))[0][0] == "other"

    @pytest.mark.spec("C-DOC-11", "C-DOC-13")
    def test_a_tag_matches_title_summary_or_keyword_as_a_substring_in_any_case(self) -> None:
        assert ask(self.library(), tags=["rePort", ""]) == (["also-undated", "undated", "other"], 3)
        assert ask(self.library(), tags=["zürich"]) == (["undated"], 1)
        assert ask(self.library(), tags=[""])[1] == 5

    @pytest.mark.spec("C-DOC-12")
    def test_file_type_is_exact(self) -> None:
        assert ask(self.library(), file_type="pdf") == (["new"], 1)

    @pytest.mark.spec("C-DOC-15", "C-DOC-9")
    def test_offset_and_limit_page_through(self) -> None:
        assert ask(self.library(), offset=1, limit=2) == (["old", "also-undated"], 5)
        assert ask(self.library(), limit=0) == ([], 5)
        assert ask(self.library(), offset=9) == ([], 5)

    @pytest.mark.spec("C-DOC-16")
    def test_a_page_stays_within_its_budget(self) -> None:
        size = len(query(self.library(), ("s", "t"), limit=2, budget=10**6).documents)
        assert len(ask(self.library(), budget=size + 5)[0]) == 2

    @pytest.mark.spec("C-DOC-16", "C-GEN-10", "C-SEC-3")
    def test_a_document_that_fills_an_answer_by_itself_is_shortened_and_hides_nothing(self) -> None:
        huge = doc("dpe://s/a", description="y" * 2_000_000, meta={"keywords": ["k" * 2_000_000]})
        library = build_catalogue([listed("s", huge, doc("dpe://s/b"))]).documents
        page = query(library, ("s",), limit=20, budget=100_000)
        entries = json.loads(page.documents)
        assert [(entry["doc_ref"], len(entry["summary"])) for entry in entries] == [("a", 1_024), ("b", 0)]
        assert (page.total_count, page.shortened) == (2, ("s",))
        assert len(page.documents) <= 100_000


class TestResolver:
    BLOCKS = (Block("dpe://h/r", "text/plain", text="é"),)
    HINT = Hint("s", "text/plain")

    @pytest.mark.anyio
    @pytest.mark.spec("C-DOC-17")
    async def test_plain_functions_coroutines_and_objects_are_all_resolvers(self) -> None:
        answer = ResolvedDocument("https://x/y", "text/plain", 2)

        def plain(uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
            assert (blocks[0].content, hint.mcp_server) == ("é".encode(), "s")
            return answer

        async def waits(uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
            return answer

        def returns_a_coroutine(*words: Any) -> Any:
            return waits(*words)

        class Thing:
            async def __call__(self, uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
                return answer

        for resolver in (plain, waits, Thing(), returns_a_coroutine):
            assert await resolve(resolver, "dpe://h/r", self.BLOCKS, self.HINT) == answer

    @pytest.mark.anyio
    @pytest.mark.spec("C-DOC-17")
    async def test_a_plain_function_that_blocks_does_not_block_the_computer(self) -> None:
        others_went_on = threading.Event()

        def blocks(*_: object) -> ResolvedDocument:
            assert others_went_on.wait(5)
            return ResolvedDocument("https://x/y", "t", 1)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resolve, blocks, "dpe://h/r", self.BLOCKS, self.HINT)
            await anyio.lowlevel.checkpoint()
            others_went_on.set()

    @pytest.mark.anyio
    @pytest.mark.spec("C-DOC-23", "C-SEC-40")
    @pytest.mark.parametrize(
        ("uri", "mime", "size", "reason"),
        [
            ("data:text/plain,x", "t", 1, "resolver returned an invalid URI"),
            ("DPE://h/r", "t", 1, "resolver returned an invalid URI"),
            ("", "t", 1, "resolver returned an invalid URI"),
            ("/relative", "t", 1, "resolver returned an invalid URI"),
            ("https://x/a b", "t", 1, "resolver returned an invalid URI"),
            ("https://x/" + "y" * 8192, "t", 1, "resolver returned an invalid URI"),
            (5, "t", 1, "resolver returned an invalid URI"),
            ("https://x", "", 1, "resolver failed"),
            ("https://x", "t", -1, "resolver failed"),
            ("https://x", "t", True, "resolver failed"),
        ],
    )
    async def test_an_invalid_result_is_a_failure(self, uri: Any, mime: Any, size: Any, reason: str) -> None:
        with pytest.raises(ResolutionFailed) as caught:
            await resolve(lambda *_: ResolvedDocument(uri, mime, size), "dpe://h/r", self.BLOCKS, self.HINT)
        assert caught.value.reason == reason

    @pytest.mark.anyio
    @pytest.mark.spec("C-SEC-43", "C-DOC-24")
    async def test_what_the_resolver_says_of_its_insides_stays_inside(self) -> None:
        def fails(*_: object) -> ResolvedDocument:
            raise RuntimeError(SECRET)

        with pytest.raises(ResolutionFailed) as caught:
            await resolve(fails, "dpe://h/r", self.BLOCKS, self.HINT)
        assert caught.value.reason == "resolver failed"
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    @pytest.mark.anyio
    @pytest.mark.spec("C-DOC-32")
    async def test_the_reference_resolver_takes_the_block_of_the_uri_else_the_only_one(self) -> None:
        async def store(data: bytes, mime: str, form: str) -> str:
            return f"a2c-blob:{data.decode()}"

        resolver = ReferenceResolver(store, "blob", cap=3)
        two = (Block("other", None, text="o"), Block("u", "image/png", data=b"abc"))
        assert await resolver("u", two, self.HINT) == ResolvedDocument("a2c-blob:abc", "image/png", 3)
        assert await resolver("v", two[:1], self.HINT) == ResolvedDocument("a2c-blob:o", "application/octet-stream", 1)
        for blocks, reason in ((two, "resolver failed"), ((), "resolver failed")):
            with pytest.raises(ResolutionFailed, match=reason):
                await resolver("v", blocks, self.HINT)
        with pytest.raises(ResolutionFailed, match="content too large"):
            await resolver("u", (Block("u", None, text="long"),), self.HINT)

    def test_malformed_blocks_are_left_out(self) -> None:
        contents = [None, {"uri": "a"}, {"uri": "a", "blob": "*"}, {"uri": "b", "blob": "eA==", "mimeType": 5}]
        assert blocks_of(contents) == [Block("b", None, data=b"x")]
        assert blocks_of("nonsense") == []


class ScriptedServer(Actor):
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.texts: dict[str, str] = {}
        self.failure: NetworkError | None = None
        self.hangs = False
        self.watched: tuple[str, ...] = ()
        self.listing: ResourceSlice | None = None
        self.relisted = 0

    @handler(concurrent=10)
    async def read(self, message: ReadResource) -> ResourceContents:
        self.asked[message.uri] += 1
        if self.hangs:
            await anyio.sleep_forever()
        if self.failure is not None:
            raise self.failure
        block = {"uri": message.uri, "text": self.texts.get(message.uri, "contents of the document")}
        return ResourceContents(Attachment(json.dumps([block]).encode()))

    @handler
    def watch(self, message: WatchResources) -> Watched:
        self.watched = message.uris
        return Watched(message.uris)

    @handler(concurrent=10)
    async def relist(self, message: RelistResources) -> Relisted:
        self.relisted += 1
        if self.hangs:
            await anyio.sleep_forever()
        return Relisted("" if self.listing is None else list_digest(self.listing.resources.data))

    @handler
    def complete(self, message: CompleteArgument) -> Completions:
        return Completions((f"{message.argument}={message.value}1",), 1)


class ScriptedBlobs(Actor):
    @handler
    def spool(self, message: SpoolBytes) -> BlobTicket:
        assert message.kind == "d"
        return BlobTicket(f"b1.{len(message.data.data)}", len(message.data.data), "0" * 64)

    @handler
    def keep(self, message: KeepFile) -> KeptFile:
        return KeptFile("/spool/dpe/x y")


class Stage:
    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self.bus, self.supervisor, self.server = bus, supervisor, ScriptedServer()

    async def begin(self, resolver: Any = None, **settings: Any) -> None:
        await self.supervisor.start_child(ChildSpec(Address("mcp/s"), lambda: self.server))
        await self.supervisor.start_child(ChildSpec(Address("blobs"), ScriptedBlobs))
        await self.supervisor.start_child(
            ChildSpec(FINDER, lambda: FinderActor(lambda: resolver, FinderSettings(**settings)))
        )
        await self.commit(listed("s", doc("dpe://h/r")))

    async def commit(self, *servers: ResourceSlice) -> bool:
        return (await self.bus.ask(FINDER, ApplyFinder(1, servers))).changed

    async def payload(self, message: Any) -> dict[str, Any]:
        with anyio.fail_after(5), pytest.raises(PeerError) as caught:
            await self.bus.ask(FINDER, message)
        return caught.value.payload


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        yield Stage(bus, supervisor)


def fine(*_: object) -> ResolvedDocument:
    return ResolvedDocument("https://files/1", "application/pdf", 9)


@pytest.mark.anyio
class TestFinderActor:
    @pytest.mark.spec("C-DOC-23", "C-DOC-22")
    async def test_a_document_is_resolved_at_every_level_by_exactly_its_uri(self, stage: Stage) -> None:
        await stage.begin(fine)
        for uri in ("dpe://h/r", "dpe://h/r/pages/2", "dpe://h/r/elements/e%201"):
            assert await stage.bus.ask(FINDER, OpenDocument(uri)) == fine()
        assert set(stage.server.asked) == {"dpe://h/r", "dpe://h/r/pages/2", "dpe://h/r/elements/e%201"}

    @pytest.mark.spec("C-DOC-18", "C-DOC-19", "C-DOC-4", "DEC-21", "W-DOC-3", "W-DOC-4", "C-SEC-40")
    async def test_an_invalid_uri_answers_before_a_missing_resolver(self, stage: Stage) -> None:
        await stage.begin(None)
        assert await stage.payload(OpenDocument("dpe://h/r?x")) == {
            "code": 4012, "message": "Invalid DPE URI", "uri": "dpe://h/r?x", "reason": "query not allowed",
        }  # fmt: skip
        assert await stage.payload(OpenDocument("dpe://h/r")) == {
            "code": 4011, "message": "DPE Resolver Not Configured", "uri": "dpe://h/r",
        }  # fmt: skip
        assert not stage.server.asked

    @pytest.mark.spec("C-DOC-20", "C-SEC-41")
    @pytest.mark.parametrize("uri", ["dpe://stranger/r", "dpe://h/unlisted", "dpe://h/unlisted/pages/0"])
    async def test_what_is_not_in_the_catalogue_is_not_found_and_not_read(self, stage: Stage, uri: str) -> None:
        await stage.begin(fine)
        stage.server.listing = listed("s", doc("dpe://h/r"))
        assert (await stage.payload(OpenDocument(uri)))["code"] == 4201
        assert not stage.server.asked

    @pytest.mark.spec("C-DOC-20")
    @pytest.mark.parametrize("uri", ["dpe://h/new", "dpe://H/new/pages/0", "dpe://another/new"])
    async def test_a_document_of_a_list_that_is_out_of_date_is_found_once_that_was_refreshed(
        self, stage: Stage, uri: str
    ) -> None:
        await stage.begin(fine)
        fresh = stage.server.listing = listed("s", doc("dpe://h/r"), doc("dpe://h/new"), doc("dpe://another/new"))
        found: list[ResolvedDocument] = []
        async with anyio.create_task_group() as tasks:

            async def open_it() -> None:
                with anyio.fail_after(5):
                    found.append(await stage.bus.ask(FINDER, OpenDocument(uri)))

            tasks.start_soon(open_it)
            while not stage.server.relisted:  # noqa: ASYNC110
                await anyio.sleep(0.005)
            await stage.commit(listed("s", doc("dpe://h/r"), doc("dpe://h/older")))
            assert found == []
            await stage.commit(fresh)
        assert found == [fine()]
        assert stage.server.relisted == 1

    @pytest.mark.spec("C-DOC-20", "C-GEN-14")
    async def test_a_server_that_does_not_list_anew_delays_not_found_only_so_long(self, stage: Stage) -> None:
        await stage.begin(fine, relist_wait=0.1)
        stage.server.hangs = True
        assert (await stage.payload(OpenDocument("dpe://h/unlisted")))["code"] == 4201
        stage.server.hangs = False
        await stage.supervisor.stop_child(Address("mcp/s"))
        assert (await stage.payload(OpenDocument("dpe://h/unlisted")))["code"] == 4201

    @pytest.mark.spec("DEC-4")
    async def test_reading_the_catalogue_is_told_once_in_the_interval(self, stage: Stage) -> None:
        await stage.begin(None)
        with Observer(stage.bus, ResourcesRead) as facts:
            for _ in range(3):
                await stage.bus.ask(FINDER, ListDocuments())
            facts.close()
            assert [fact async for fact in facts] == [ResourcesRead()]

    @pytest.mark.spec("C-DOC-21")
    async def test_pages_count_from_zero_and_end_at_the_page_count(self, stage: Stage) -> None:
        await stage.begin(fine)
        assert await stage.payload(OpenDocument("dpe://h/r/pages/3")) == {
            "code": 4202, "message": "Page Out of Range", "uri": "dpe://h/r/pages/3", "doc_ref": "r",
            "page": 3, "page_count": 3,
        }  # fmt: skip
        await stage.commit(listed("s", doc("dpe://h/unpaged", meta={"page_count": None})))
        none = await stage.payload(OpenDocument("dpe://h/unpaged/pages/0"))
        assert (none["code"], none["page"], none["page_count"]) == (4202, 0, 0)
        assert not stage.server.asked

    @pytest.mark.spec("C-DOC-22", "C-DOC-24")
    @pytest.mark.parametrize(
        ("uri", "code", "expected", "reason"),
        [
            ("dpe://h/r", "resource_not_found", 4201, None),
            ("dpe://h/r/elements/e", "resource_not_found", 4203, None),
            ("dpe://h/r/pages/1", "resource_not_found", 4013, "upstream read failed"),
            ("dpe://h/r", "upstream_error", 4013, "upstream read failed"),
            ("dpe://h/r", "not_connected", 4013, "upstream MCP Server unreachable"),
            ("dpe://h/r", "timeout", 4013, "timeout"),
        ],
    )
    async def test_a_failed_read_is_split_by_level(
        self, stage: Stage, uri: str, code: str, expected: int, reason: str | None
    ) -> None:
        await stage.begin(fine)
        stage.server.failure = NetworkError(SECRET, code=code)
        payload = await stage.payload(OpenDocument(uri))
        assert (payload["code"], payload.get("reason")) == (expected, reason)
        assert SECRET not in json.dumps(payload)

    @pytest.mark.spec("C-DOC-24", "DEC-31")
    async def test_the_timeout_covers_read_and_resolver_together(self, stage: Stage) -> None:
        async def slow(*_: object) -> ResolvedDocument:
            await anyio.sleep_forever()
            raise AssertionError

        await stage.begin(slow)
        assert (await stage.payload(OpenDocument("dpe://h/r", 0.05)))["reason"] == "timeout"
        stage.server.hangs = True
        assert (await stage.payload(OpenDocument("dpe://h/r", 0.05)))["reason"] == "timeout"

    @pytest.mark.spec("C-DOC-31", "C-DOC-33", "C-SEC-44")
    @pytest.mark.parametrize(("form", "uri"), [("blob", "a2c-blob:b1.24"), ("file", "file:///spool/dpe/x%20y")])
    async def test_the_reference_resolver_answers_in_the_form_the_option_names(
        self, stage: Stage, form: str, uri: str
    ) -> None:
        await stage.begin(None, reference=form)
        resolved = await stage.bus.ask(FINDER, OpenDocument("dpe://h/r"))
        assert (resolved.uri, resolved.size) == (uri, len("contents of the document"))

    @pytest.mark.spec("C-DOC-26", "C-DOC-27", "C-DOC-28", "C-DOC-4")
    async def test_a_finder_read_parses_the_level_and_has_its_own_code_for_bad_uris(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        await stage.begin(None)
        stage.server.texts["dpe://h/r/elements/e"] = json.dumps({"element_id": "e", "category": "hologram", "more": 1})
        level = await stage.bus.ask(FINDER, ReadDocument("dpe://h/r/elements/e"))
        assert json.loads(level.level.data) == {"element_id": "e", "category": "hologram"}
        assert "hologram" in caplog.text
        assert (await stage.payload(ReadDocument("dpe://h/r#x")))["code"] == 4204
        assert (await stage.payload(ReadDocument("dpe://h/x")))["code"] == 4201
        assert (await stage.payload(ReadDocument("dpe://h/r/pages/9")))["code"] == 4202
        assert (await stage.payload(ReadDocument("dpe://h/r")))["code"] == 4013

    @pytest.mark.spec("C-DOC-27", "W-GEN-3")
    async def test_a_level_with_nulls_and_gaps_is_read_as_far_as_it_goes(self, stage: Stage) -> None:
        await stage.begin(None)
        page = {"page_index": 0, "title": None, "elements": [{"element_id": "e", "category": None, "content": None}]}
        stage.server.texts["dpe://h/r/pages/0"] = json.dumps(page)
        level = await stage.bus.ask(FINDER, ReadDocument("dpe://h/r/pages/0"))
        assert json.loads(level.level.data) == {"page_index": 0, "elements": [{"element_id": "e", "content": None}]}
        stage.server.texts["dpe://h/r"] = json.dumps({"title": 5})
        assert (await stage.payload(ReadDocument("dpe://h/r")))["reason"] == "upstream read failed"

    @pytest.mark.spec("C-DOC-29")
    async def test_a_completion_passes_through_to_its_server(self, stage: Stage) -> None:
        await stage.begin(None)
        answer = await stage.bus.ask(
            FINDER, CompleteDocument("s", "dpe://h/{doc_ref}/pages/{page_index}", "page_index", "1")
        )
        assert answer == Completions(("page_index=11",), 1)

    @pytest.mark.spec("C-DOC-30", "C-DOC-6")
    async def test_changes_of_any_summary_field_count_and_updates_are_told_at_once(self, stage: Stage) -> None:
        await stage.begin(None)
        assert not await stage.commit(listed("s", doc("dpe://h/r")))
        assert await stage.commit(listed("s", doc("dpe://h/r", description="new")))
        with Observer(stage.bus, SliceChanged) as facts, anyio.fail_after(5):
            stage.bus.publish(ResourceUpdated("s", "window://h/r"))
            stage.bus.publish(ResourceUpdated("stranger", "dpe://h/r"))
            stage.bus.publish(ResourceUpdated("s", "dpe://h/r/pages/1"))
            assert await anext(facts) == SliceChanged("finder")
        assert stage.server.watched == ("dpe://h/r",)

    @pytest.mark.spec("C-DOC-9", "C-DOC-14")
    async def test_the_list_uses_defaults_caps_and_the_call_history(self, stage: Stage) -> None:
        await stage.begin(None)
        many = [doc(f"dpe://h/{n:03}") for n in range(130)]
        await stage.commit(listed("s", *many), listed("t", doc("dpe://t/x")))

        async def refs(message: ListDocuments) -> list[str]:
            page = await stage.bus.ask(FINDER, message)
            assert page.total_count == 131
            return [found["doc_ref"] for found in json.loads(page.documents.data)]

        assert await refs(ListDocuments()) == [f"{n:03}" for n in range(20)]
        assert len(await refs(ListDocuments(limit=500))) == 100
        assert await refs(ListDocuments(limit=0)) == []
        stage.bus.publish(CallFinished(CallRecord("r", "t", "tool", "answered", 0.0, 0.1)))
        assert (await refs(ListDocuments()))[0] == "x"


@pytest.mark.spec("C-DOC-14", "C-DESK-19")
def test_one_order_of_servers_serves_desktop_and_documents() -> None:
    order: Callable[..., tuple[str, ...]] = server_order
    assert order("abc", ("b", "a", "b")) == ("b", "a", "c")
