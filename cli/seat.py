"""The seat in an office that a verb of `smcp agent` acts from: the same options for all of them, declared once."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..wire.protocol import SOCKETIO_PATH
from .options import AuthEnv, Json, Office, SocketioPath, Url, auth_from
from .output import Output

if TYPE_CHECKING:
    from ..agent import AsyncAgent

Computer = Annotated[
    str | None, typer.Option("--computer", help="Which Computer; the only one by default.", metavar="NAME")
]
Name = Annotated[str | None, typer.Option("--name", help="Name to join under; a fresh one by default.", metavar="NAME")]
_SHARED = (
    inspect.Parameter("url", inspect.Parameter.KEYWORD_ONLY, annotation=Url),
    inspect.Parameter("office", inspect.Parameter.KEYWORD_ONLY, annotation=Office),
    inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, annotation=Name, default=None),
    inspect.Parameter("auth_env", inspect.Parameter.KEYWORD_ONLY, annotation=AuthEnv, default=None),
    inspect.Parameter("socketio_path", inspect.Parameter.KEYWORD_ONLY, annotation=SocketioPath, default=SOCKETIO_PATH),
    inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False),
)


@dataclass(frozen=True, kw_only=True)
class Seat:
    """How to come into the office, and how to print what is learned there."""

    url: str
    office: str
    name: str | None
    auth_env: str | None
    socketio_path: str
    as_json: bool

    @property
    def output(self) -> Output:
        """Where results go."""
        return Output(as_json=self.as_json)

    def show(self, document: Any, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A list: the document with `--json`, a table otherwise."""
        output = self.output
        if output.as_json:
            output.document(document)
        output.table(columns, rows)

    def perform(self, work: Callable[[AsyncAgent], Awaitable[int]]) -> None:
        """Joins, does the work, leaves, and ends the command with the status that the work returned."""
        auth = auth_from(self.auth_env)

        async def joined() -> int:
            from ..agent import AsyncAgent  # noqa: PLC0415 - heavier than all that `--help` needs

            client = AsyncAgent(
                self.url,
                name=self.name or f"smcp-agent-{os.getpid()}",
                office=self.office,
                auth=auth,
                socketio_path=self.socketio_path,
                watch_tools=False,
            )
            async with client:
                return await work(client)

        from .running import perform  # noqa: PLC0415

        perform(self.output, joined)


def seated(verb: Callable[..., None]) -> Callable[..., None]:
    """Turns ``verb(seat, …)`` into a command that takes the options of a seat beside its own."""
    own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "seat"]

    @functools.wraps(verb)
    def command(**words: object) -> None:
        seat = Seat(**{parameter.name: words.pop(parameter.name) for parameter in _SHARED})  # type: ignore[arg-type]
        verb(seat, **words)

    parameters = [*own, *_SHARED]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
