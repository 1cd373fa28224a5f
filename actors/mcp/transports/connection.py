"""What a hosted server's connection offers, whatever carries it."""

from __future__ import annotations

from typing import Protocol

from .dispatcher import RawDispatcher


class Connection(Protocol):
    """An open way to one MCP server. Opened and closed by one task."""

    @property
    def dispatcher(self) -> RawDispatcher:
        """Where requests go in and answers come out."""

    @property
    def pid(self) -> int | None:
        """Pid of the server, where it is a process of ours."""

    @property
    def session_id(self) -> str | None:
        """What an HTTP server calls this session; a secret."""

    def renegotiate(self) -> None:
        """Told before a new handshake on the same connection."""

    def negotiated(self, protocol: str, *, modern: bool) -> None:
        """Told once the session speaks: HTTP needs the version in its headers and may open its listening stream."""

    def notes(self) -> tuple[str, ...]:
        """Diagnostics worth showing to people."""

    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines the server wrote to stderr."""

    async def close(self, *, gentle: bool = True) -> None:
        """Ends the connection and what belongs to it, within 5 s, or 2 s where nobody has time to be `gentle`.

        Safe to call twice.
        """
