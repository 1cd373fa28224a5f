"""Documents of an Agent: the catalogue, the resolver of an application, and the built-in one, through a real Server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from smcp_runtime.actors.finder import Block, Hint
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ConflictError, NetworkError, PeerError
from smcp_runtime.wire.messages.finder import ResolvedDocument
from support.http_servers import over_http
from support.peers import Peers
from support.shelf import document, fixture_server, shelf
from support.stack import Stack, config, open_stack, options

pytestmark = pytest.mark.anyio

LIBRARY = "dpe://com.example.library"


async def until_catalogued(stack: Stack, *doc_refs: str) -> None:
    await stack.until(lambda: _catalogued(stack, doc_refs))


async def _catalogued(stack: Stack, doc_refs: Sequence[str]) -> bool:
    return [found.doc_ref for found in await stack.agent.documents("desk")] == list(doc_refs)


async def refusal(stack: Stack, uri: str, **words: Any) -> dict[str, Any]:
    with pytest.raises(PeerError) as refused:
        await stack.agent.open_document("desk", uri, **words)
    return {key: value for key, value in refused.value.payload.items() if key != "message"}


@pytest.fixture(params=["stdio", "streamable"])
async def library(request: pytest.FixtureRequest, peers: Peers) -> dict[str, Any]:
    """The documents server of the fixtures over each transport."""
    if request.param == "stdio":
        return fixture_server("documents_server")
    return await over_http(peers, "documents_server")


@pytest.mark.spec(
    "C-DOC-10", "C-DOC-14", "C-DOC-22", "C-DOC-27", "C-DOC-30", "C-DOC-33", "E-30", "E-31", "E-32", "E-33"
)
async def test_a_server_of_the_newer_era_is_listed_opened_at_every_level_and_followed(library: dict[str, Any]) -> None:
    async with open_stack(config(library), runtime=options(reference_resolver="blob")) as stack:
        await until_catalogued(stack, "tea report", "house-rules")
        (tea,) = await stack.agent.documents("desk", tags=["STATISTICS"])
        assert (tea.uri, tea.page_count, tea.mcp_server) == (f"{LIBRARY}/tea%20report", 2, "documents_server")
        whole = await stack.agent.open_document("desk", tea.uri)
        assert (whole.mime_type, len(whole.data or b"")) == ("application/json", whole.size)
        for more in ("", "/pages/1", "/elements/t1"):
            assert (await stack.agent.open_document("desk", tea.uri + more)).data
        assert await refusal(stack, f"{tea.uri}/pages/2") == {
            "code": 4202,
            "uri": f"{tea.uri}/pages/2",
            "doc_ref": "tea report",
            "page": 2,
            "page_count": 2,
        }
        missing = await refusal(stack, f"{tea.uri}/elements/zz")
        assert (missing["code"], missing["element_id"]) == (4203, "zz")
        assert (await refusal(stack, f"{LIBRARY}/unknown"))["code"] == 4201
        async with stack.agent.notifications() as notices:
            await stack.call("documents_server__shelve", doc_ref="memo", text="short")
            with anyio.fail_after(10):
                async for notice in notices:
                    if notice.event == "notify:update_finder":
                        break
        await until_catalogued(stack, "tea report", "house-rules", "memo")


@pytest.mark.spec("C-DOC-26", "C-DOC-29")
async def test_the_computer_itself_reads_levels_and_completes_names(library: dict[str, Any]) -> None:
    async with open_stack(config(library)) as stack:
        await until_catalogued(stack, "tea report", "house-rules")
        page = await stack.computer.read_document(f"{LIBRARY}/tea%20report/pages/1")
        assert (page["page_index"], page["elements"][0]["category"]) == (1, "table")
        with pytest.raises(PeerError) as refused:
            await stack.computer.read_document("dpe://h/d?x")
        assert (refused.value.wire_code, refused.value.payload["reason"]) == (4204, "query not allowed")
        template = f"{LIBRARY}/{{doc_ref}}/elements/{{element_id}}"
        refs = await stack.computer.complete_document("documents_server", template, "doc_ref", "te")
        assert refs.values == ("tea report",)
        known = {"doc_ref": "tea report"}
        elements = await stack.computer.complete_document("documents_server", template, "element_id", "", known)
        assert elements.values == ("h1", "p1", "t1")


@pytest.mark.spec("C-DOC-29")
async def test_a_server_that_completes_nothing_proposes_nothing_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    async with open_stack(config(fixture_server("sample"))) as stack:
        await stack.until_listed("sample__echo", timeout=20)
        found = await stack.computer.complete_document("sample", "dpe://h/{doc_ref}", "doc_ref", "")
        assert found.values == ()
        await stack.computer.control("sample", "stop")
        with pytest.raises(NetworkError) as failed:
            await stack.computer.complete_document("sample", "dpe://h/{doc_ref}", "doc_ref", "")
        assert failed.value.code == "not_connected"


@pytest.mark.spec("C-DOC-19", "W-DOC-3", "C-SEC-40", "C-SEC-44", "DEC-21", "C-DOC-31")
async def test_without_a_resolver_nothing_is_opened_whatever_settings_say(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"referenceResolver": "blob", "reference_resolver": "blob"}')
    entry = shelf(tmp_path, "shelf", [document("dpe://h/d")])
    async with open_stack(config(entry), runtime=options(user_config_dir=str(tmp_path))) as stack:
        await until_catalogued(stack, "d")
        assert await refusal(stack, "dpe://h/d") == {"code": 4011, "uri": "dpe://h/d"}
        invalid = await refusal(stack, "dpe://h/d#x")
        assert invalid == {"code": 4012, "uri": "dpe://h/d#x", "reason": "fragment not allowed"}


@pytest.mark.spec("C-DOC-17", "C-DOC-23", "C-SEC-40", "C-SEC-43")
@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_the_resolver_of_the_application_decides_what_the_agent_gets(tmp_path: Path, kind: str) -> None:
    seen: list[tuple[str, Sequence[Block], Hint]] = []

    def resolve(uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
        seen.append((uri, blocks, hint))
        if uri.endswith("inline"):
            return ResolvedDocument("data:text/plain,canary", "text/plain", 6)
        if uri.endswith("raises"):
            raise RuntimeError("canary-secret in /home/me")
        return ResolvedDocument(f"https://files.example/{len(blocks[0].content)}", "text/x", 7)

    async def resolve_later(uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
        return resolve(uri, blocks, hint)

    resolver = resolve if kind == "function" else resolve_later
    entry = shelf(tmp_path, "shelf", [document(f"dpe://h/{name}") for name in ("fine", "inline", "raises")])
    async with open_stack(config(entry), runtime=options(document_resolver=resolver)) as stack:
        await until_catalogued(stack, "fine", "inline", "raises")
        opened = await stack.agent.open_document("desk", "dpe://h/fine")
        assert (urlsplit(opened.uri).netloc, opened.mime_type, opened.size) == ("files.example", "text/x", 7)
        assert opened.data is None
        uri, blocks, hint = seen[0]
        assert (uri, hint) == ("dpe://h/fine", Hint("shelf_display", "application/json"))
        assert blocks[0].text is not None
        for name, reason in {"inline": "resolver returned an invalid URI", "raises": "resolver failed"}.items():
            refused = await refusal(stack, f"dpe://h/{name}")
            assert refused == {"code": 4013, "uri": f"dpe://h/{name}", "reason": reason}


@pytest.mark.spec("C-DOC-17")
async def test_at_most_one_resolver_is_registered_and_it_can_be_taken_back(tmp_path: Path) -> None:
    def one(uri: str, blocks: Sequence[Block], hint: Hint) -> ResolvedDocument:
        return ResolvedDocument("https://one.example/", "text/plain", 1)

    async with open_stack(config(shelf(tmp_path, "shelf", [document("dpe://h/d")]))) as stack:
        await until_catalogued(stack, "d")
        stack.computer.register_resolver(one)
        with pytest.raises(ConflictError):
            stack.computer.register_resolver(one)
        assert (await stack.agent.open_document("desk", "dpe://h/d")).uri == "https://one.example/"
        assert stack.computer.kill_actor("finder")
        assert (await stack.agent.open_document("desk", "dpe://h/d")).uri == "https://one.example/"
        stack.computer.register_resolver(None)
        assert (await refusal(stack, "dpe://h/d"))["code"] == 4011


@pytest.mark.spec("C-DOC-26")
async def test_a_computer_that_does_not_run_reads_no_document() -> None:
    computer = Computer.from_config(config(), options())
    with pytest.raises(ConflictError):
        await computer.read_document("dpe://h/d")


@pytest.mark.spec("C-DOC-24", "DEC-31", "C-DOC-25", "C-DOC-20", "C-DOC-22")
async def test_what_the_server_does_wrong_is_said_without_its_words(tmp_path: Path) -> None:
    documents = [
        document("dpe://h/slow", then="hang"),
        document("dpe://h/broken", then={"error": -32603}),
        document("dpe://h/lost", then={"error": -32002}),
    ]
    entry = shelf(tmp_path, "shelf", documents)
    async with open_stack(config(entry), runtime=options(reference_resolver="blob")) as stack:
        await until_catalogued(stack, "broken", "lost", "slow")
        started = anyio.current_time()
        assert (await refusal(stack, "dpe://h/slow", timeout=0.5))["reason"] == "timeout"
        assert anyio.current_time() - started < 5.0
        assert await refusal(stack, "dpe://h/broken") == {
            "code": 4013,
            "uri": "dpe://h/broken",
            "reason": "upstream read failed",
        }
        assert (await refusal(stack, "dpe://h/lost"))["code"] == 4201
        await stack.computer.control("shelf_display", "stop")
        assert (await refusal(stack, "dpe://h/broken"))["code"] == 4201


@pytest.mark.spec("C-DOC-8", "C-SEC-41", "C-SEC-42")
async def test_a_host_stays_with_its_first_server_until_that_goes(tmp_path: Path) -> None:
    owner = shelf(tmp_path, "zeta", [document("dpe://same/mine", "Mine")])
    later = shelf(tmp_path, "alpha", [document("dpe://same/theirs", "Theirs"), document("dpe://own/d", "Own")])
    async with open_stack(config(owner, later), runtime=options(reference_resolver="blob")) as stack:
        await until_catalogued(stack, "mine")
        assert (await refusal(stack, "dpe://same/theirs"))["code"] == 4201
        await stack.computer.control("zeta_display", "stop")
        await until_catalogued(stack, "d", "theirs")


@pytest.mark.spec("C-DOC-33", "C-DOC-34")
async def test_the_file_form_gives_a_file_that_only_its_owner_can_read(tmp_path: Path, own_places: Path) -> None:
    entry = shelf(tmp_path, "shelf", [document("dpe://h/d", "Title")])
    async with open_stack(config(entry), runtime=options(reference_resolver="file")) as stack:
        await until_catalogued(stack, "d")
        opened = await stack.agent.open_document("desk", "dpe://h/d")
        path = own_places / urlsplit(opened.uri).path
        assert path.is_relative_to(own_places / ".a2c" / ".blobspool" / "dpe")
        assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, opened.size)


@pytest.mark.spec("C-DOC-9", "C-DOC-13", "C-DOC-15", "C-DOC-16", "C-GEN-7")
async def test_pages_of_the_catalogue_fit_an_answer_and_lose_nothing(tmp_path: Path) -> None:
    documents = [document(f"dpe://h/d{n:03d}", description="y" * 20_000) for n in range(120)]
    async with open_stack(config(shelf(tmp_path, "shelf", documents))) as stack:
        await stack.until(lambda: _complete(stack))
        page = await stack.agent.list_finder("desk", limit=100)
        assert (page.total_count, 0 < len(page.documents) < 100) == (120, True)
        assert (await stack.agent.list_finder("desk", limit=0)).documents == ()
        every = await stack.agent.documents("desk")
        assert [found.doc_ref for found in every] == [f"d{n:03d}" for n in range(120)]


async def _complete(stack: Stack) -> bool:
    return (await stack.agent.list_finder("desk", limit=0)).total_count == 120


@pytest.mark.spec("C-GEN-15")
@pytest.mark.parametrize("actor", ["finder", "mcp/shelf_display"])
async def test_a_killed_actor_gives_the_catalogue_back(tmp_path: Path, actor: str) -> None:
    async with open_stack(config(shelf(tmp_path, "shelf", [document("dpe://h/d")]))) as stack:
        await until_catalogued(stack, "d")
        assert stack.computer.kill_actor(actor)
        await until_catalogued(stack, "d")
