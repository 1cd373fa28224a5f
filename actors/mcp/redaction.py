"""Takes resolved secrets out of what a server says, before people see it (R-INPUT-23)."""

from __future__ import annotations

from collections.abc import Iterable

MARK = "[REDACTED]"
SHORTEST = 4
"""Shorter values are no secrets worth the name, and replacing them would garble everything."""


class Redaction:
    """Replaces each of `secrets` in a text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # the longest first: one secret may contain another
        self._secrets = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MARK)
        return text

    def texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self.text, texts))
