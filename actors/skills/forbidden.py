"""Names of files that no Agent may read, by whatever spelling a file system would accept (C-SKILL-68). Pure."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

ALWAYS: Final = ".skillenv"
"""Forbidden whatever the options say."""

DEFAULT_PATTERNS: Final = (
    ".env", ".env.*", ".skillenv.*", ".git", ".ssh", ".gnupg", ".aws", ".netrc", "_netrc", ".npmrc", ".pypirc",
    ".git-credentials", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx",
)  # fmt: skip

_ENV_PREFIXES: Final = (".env.", ".skillenv.")
_HARMLESS_SUFFIXES: Final = (".example", ".sample", ".template")


class ForbiddenNames:
    """Decides for one path component at a time.

    Args:
        patterns: Replaces the default list; `*` stands for anything, spelling is folded as that of names.
    """

    def __init__(self, patterns: Iterable[str] | None = None) -> None:
        self._exempts = patterns is None
        wanted = (ALWAYS, *(fold(pattern) for pattern in (DEFAULT_PATTERNS if patterns is None else patterns)))
        self._match = re.compile("|".join(f"(?:{fnmatch.translate(pattern)})" for pattern in wanted)).match

    def __contains__(self, name: str) -> bool:
        folded = fold(name)
        if self._match(folded) is None:
            return False
        return not (self._exempts and folded.startswith(_ENV_PREFIXES) and folded.endswith(_HARMLESS_SUFFIXES))


def fold(name: str) -> str:
    """The one form of all spellings that some file system takes for the same name.

    Beyond compatibility forms, case, and trailing dots and spaces, invisible format characters go:
    there are file systems that ignore them.
    """
    if not name.isascii():
        name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        name = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return name.lower().rstrip(". ")
