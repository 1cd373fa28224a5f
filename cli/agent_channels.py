"""`smcp agent …` for the channels beside tools: desktop, skills, blobs both ways, documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .exit_status import SUCCESS
from .seat import Computer, Seat, seated

if TYPE_CHECKING:
    from ..agent import AsyncAgent
    from ..wire.skills import GetSkillRet

BLOB_URI = "a2c-blob:"


@seated
def desktop(
    seat: Seat,
    *,
    size: Annotated[int | None, typer.Option(help="Most windows to show.", metavar="N")] = None,
    window: Annotated[str | None, typer.Option(help="Only the window of this URI.", metavar="URI")] = None,
    computer: Computer = None,
) -> None:
    """Show the windows of a Computer, the most relevant first."""

    async def work(client: AsyncAgent) -> int:
        shown = await client.get_desktop(computer or await client.sole_computer(), size=size, window=window)
        if seat.as_json:
            seat.output.document(shown)
        for position, entry in enumerate(shown.desktops):
            if position:
                seat.output.text("")
            uri, _, text = entry.partition("\n\n")
            seat.output.text(uri, style="bold")
            if text:
                seat.output.text(text)
        return SUCCESS

    seat.perform(work)


@seated
def skills(seat: Seat, *, computer: Computer = None) -> None:
    """List the active skills of a Computer."""

    async def work(client: AsyncAgent) -> int:
        listed = await client.get_skills(computer or await client.sole_computer())
        rows = ((skill.name, skill.source, skill.description) for skill in listed.skills)
        seat.show(listed, ("SKILL", "SOURCE", "DESCRIPTION"), rows)
        return SUCCESS

    seat.perform(work)


@seated
def skill(
    seat: Seat,
    skill: Annotated[str, typer.Argument(help="The skill, by its name.", metavar="NAME")],
    rel_path: Annotated[str | None, typer.Argument(help="A file in it; SKILL.md by default.")] = None,
    *,
    computer: Computer = None,
) -> None:
    """Print one file of a skill; of a file that is no text, the handle to get it by."""

    async def work(client: AsyncAgent) -> int:
        target = computer or await client.sole_computer()
        with seat.output.working(skill):
            found = await _with_text(client, target, await client.get_skill(target, skill, rel_path))
        if seat.as_json:
            seat.output.document(found)
        elif isinstance(found.body, str):
            seat.output.text(found.body)
        else:
            seat.output.text(str(found.blob_handle))
            seat.output.note(f"{found.mime_type}, {found.total_size} bytes: smcp agent get HANDLE --out FILE")
        return SUCCESS

    seat.perform(work)


async def _with_text(client: AsyncAgent, computer: str, ret: GetSkillRet) -> GetSkillRet:
    """The answer with a long text in place of its handle (C-SKILL-77)."""
    import msgspec  # noqa: PLC0415 - with what runs, not with what `--help` needs

    from ..wire.mime import is_text  # noqa: PLC0415

    if not (isinstance(ret.blob_handle, str) and is_text(ret.mime_type)):
        return ret
    blob = await client.read_blob(computer, ret.blob_handle)
    try:
        return msgspec.structs.replace(ret, body=blob.data.decode(), blob_handle=msgspec.UNSET)
    except UnicodeDecodeError:
        return ret


@seated
def get(
    seat: Seat,
    handle: Annotated[str, typer.Argument(help="The handle, as it was given.", metavar="HANDLE")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.", metavar="FILE")],
    computer: Computer = None,
) -> None:
    """Fetch what is behind a handle into a file."""

    async def work(client: AsyncAgent) -> int:
        target = computer or await client.sole_computer()
        with seat.output.progress(out.name) as progress:
            saved = await client.save_blob(target, handle.removeprefix(BLOB_URI), out, progress=progress)
        if seat.as_json:
            facts = {"size": saved.total_size, "sha256": saved.sha256, "mime_type": saved.mime_type}
            seat.output.document(facts)
        seat.output.text(f"{saved.path}: {saved.total_size} bytes, {saved.mime_type}")
        return SUCCESS

    seat.perform(work)


@seated
def put(
    seat: Seat,
    file: Annotated[Path, typer.Argument(help="The file to send.", metavar="FILE")],
    *,
    name_hint: Annotated[
        str | None, typer.Option("--name-hint", help="What it should be called there.", metavar="N")
    ] = None,
    computer: Computer = None,
) -> None:
    """Send a file to a Computer and print where it landed."""

    async def work(client: AsyncAgent) -> int:
        target = computer or await client.sole_computer()
        with seat.output.progress(file.name) as progress:
            sent = await client.upload(target, file, name_hint=name_hint, progress=progress)
        if seat.as_json:
            seat.output.document(sent.acknowledgement)
        seat.output.text(sent.landing_path)
        return SUCCESS

    seat.perform(work)


@seated
def docs(
    seat: Seat,
    action: Annotated[str | None, typer.Argument(help="`open`, to open one document.", metavar="open")] = None,
    uri: Annotated[str | None, typer.Argument(help="The dpe:// URI to open.", metavar="URI")] = None,
    *,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only about this; any of several.")] = None,
    file_type: Annotated[str | None, typer.Option("--type", help="Only of this type.", metavar="X")] = None,
    offset: Annotated[int, typer.Option(help="How many to leave out.", min=0, metavar="N")] = 0,
    limit: Annotated[int, typer.Option(help="Most documents to list.", min=0, max=100, metavar="N")] = 20,
    timeout: Annotated[float, typer.Option(help="Seconds opening may take.", min=0.1, metavar="S")] = 60.0,
    computer: Computer = None,
) -> None:
    """List the documents of a Computer, or open one of them."""
    if action not in (None, "open") or (action is None) != (uri is None):
        raise typer.BadParameter("either nothing, or `open URI`", param_hint="docs")

    async def browse(client: AsyncAgent) -> int:
        target = computer or await client.sole_computer()
        page = await client.list_finder(target, tags=tag or (), file_type=file_type, offset=offset, limit=limit)
        rows = ((found.uri, found.title, found.summary) for found in page.documents)
        seat.show(page, ("URI", "TITLE", "SUMMARY"), rows)
        rest = page.total_count - offset - len(page.documents)
        if rest > 0 and page.documents and not seat.as_json:
            seat.output.note(f"{rest} more with --offset {offset + len(page.documents)}")
        return SUCCESS

    async def open_one(client: AsyncAgent) -> int:
        assert uri is not None
        target = computer or await client.sole_computer()
        with seat.output.working(uri):
            opened = await client.get_dpe(target, uri, timeout=timeout)
        seat.show(opened, ("URI", "TYPE", "BYTES"), [(opened.uri, opened.mime_type, str(opened.size))])
        return SUCCESS

    seat.perform(browse if uri is None else open_one)


VERBS = (desktop, skills, skill, get, put, docs)
