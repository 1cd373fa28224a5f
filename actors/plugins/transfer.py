"""Which urls are those of archives, and what bounds the fetch of one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

Form = Literal["tar.gz", "zip"]
_FORMS: Final[Mapping[str, Form]] = {".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}


class Transfer(msgspec.Struct, frozen=True):
    """How a fetch is bounded.

    Attributes:
        environ: Where the proxy and the certificates to trust are looked up.
        timeout: Seconds for everything.
        is_stopped: Whether nobody waits for it any more.
        grown: Told the bytes so far now and then.
        local: Whether the url may lead to this machine.
    """

    environ: Mapping[str, str]
    timeout: float
    is_stopped: Callable[[], bool]
    grown: Callable[[int], None]
    local: bool = True


def archive_form(url: str) -> Form | None:
    """The form of the archive at a url; `None` when it is for git."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("https", "http", "file"):
        return None
    path = parts.path.lower()
    return next((form for suffix, form in _FORMS.items() if path.endswith(suffix)), None)
