"""Redaction by value: every resolved secret is known while it is in use, and taken out of what people see (R-INPUT-23).

By value, because no list of key names is ever complete. A secret is also looked for in the
forms it takes on the way: inside JSON text, inside a URL, in Python's own quoting.
"""

from __future__ import annotations

import base64
import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from .protocol import REDACTED

SHORTEST = 4
"""Shorter values are no secrets worth the name, and replacing them would garble everything."""
SHORTEST_LINE = 12
"""Shorter lines of a secret of several lines are not looked for by themselves."""
GENERATIONS = 2
"""Renderings of one owner that count: while it is replaced, the old one still runs."""

S = TypeVar("S", bound=msgspec.Struct)


class Redaction:
    """Replaces each of `secrets`, in any of its forms, in a text.

    Attributes:
        longest: Bytes of the longest form, all of which a stream has to hold back to see each secret whole.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in forms_of(secret)}
        # the longest first: one secret may contain another
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._encoded = [_encoded(form) for form in self._forms]
        self.longest = max(map(len, self._encoded), default=0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be replaced."""
        return not self._forms

    def text(self, text: str) -> str:
        """The text without secrets."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return text

    def cut(self, data: bytes, at: int) -> int:
        """The first place at `at` or behind it where a cut leaves no part of a secret, which nothing would replace."""
        moved = True
        while moved:
            moved = False
            for form in self._encoded:
                start = data.find(form, max(0, at - len(form) + 1), at + len(form) - 1)
                if start >= 0:
                    at, moved = start + len(form), True
        return at

    def texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Each text without secrets."""
        return tuple(map(self.text, texts))

    def tree(self, value: Any) -> Any:
        """A JSON-like value without secrets, in its keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.tree(key): self.tree(element) for key, element in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.tree, value))
        return value

    def struct(self, value: S) -> S:
        """A struct of plain data without secrets."""
        if self.is_empty:
            return value
        plain = msgspec.to_builtins(value)
        shown = self.tree(plain)
        if shown == plain:
            return value
        try:
            return msgspec.convert(shown, type(value))
        except msgspec.ValidationError:
            return value  # a secret that is a word of the protocol cannot be told from that word


class SecretRegistry:
    """The secrets in use, by who uses them.

    Attributes:
        redaction: What replaces every secret that is in use now; another one after each change.
    """

    def __init__(self) -> None:
        self._owners: dict[str, deque[frozenset[str]]] = {}
        self.redaction = Redaction()

    def use(self, owner: str, secrets: Collection[str]) -> None:
        """Takes the secrets of a new rendering; of the ones before only the last stays."""
        generations = self._owners.setdefault(owner, deque(maxlen=GENERATIONS))
        found = frozenset(secrets)
        if not generations or generations[-1] != found:
            generations.append(found)
            self.redaction = Redaction(self.values)

    def release(self, owner: str) -> None:
        """Forgets what an owner used; it has ended."""
        if self._owners.pop(owner, None) is not None:
            self.redaction = Redaction(self.values)

    @property
    def values(self) -> frozenset[str]:
        """Every secret in use."""
        return frozenset().union(*(found for generations in self._owners.values() for found in generations))

    def __repr__(self) -> str:
        return f"SecretRegistry({len(self._owners)} owners)"


def _encoded(form: str) -> bytes:
    """A form as the bytes in which a process gets it and writes it again."""
    try:
        return os.fsencode(form)
    except UnicodeEncodeError:
        return form.encode("utf-8", "surrogatepass")


def forms_of(secret: str) -> frozenset[str]:
    """A secret as it is, as JSON, URLs, Python's quoting and basic authentication write it, and its longer lines."""
    encoded = secret.encode("utf-8", "surrogatepass")
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(encoded, safe=""),
        quote(encoded),
        quote_plus(encoded),
        base64.b64encode(encoded).decode("ascii"),
    }
    lines = secret.splitlines()
    if len(lines) > 1:
        forms.update(line.strip() for line in lines if len(line.strip()) >= SHORTEST_LINE)
    return frozenset(form for form in forms if len(form) >= SHORTEST)
