"""Masking: no literal value under `env`, `headers`, URL user-info or a URL query leaves the Computer.

A value typed into a file is a credential as often as not, whatever its key is called, so
everything literal goes and only placeholders stay (DEC-19, DEC-30, W-CFG-4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ....wire.protocol import REDACTED, REDACTED_IN_URL
from .placeholders import Token, scan

_SCHEME_WORD = re.compile(r"\s*(?:bearer|basic|token|digest)\s+", re.IGNORECASE)
_HELD = re.compile("\ue000([0-9]+)\ue001")
_PREFIX = re.compile("(?:[A-Za-z][A-Za-z0-9+.-]*|\ue000[0-9]+\ue001)?:/+|/{2,}")


def mask_value(value: str, mark: str = REDACTED) -> str:
    """A value of `env` or `headers` with its literal parts masked.

    One made only of placeholders, white space and a leading scheme word stays as written; one without any
    placeholder is literal as a whole.
    """
    parts = scan(value)
    literals = [part for part in parts if isinstance(part, str)]
    if len(literals) == len(parts):
        return mark
    if isinstance(parts[0], str) and _SCHEME_WORD.fullmatch(parts[0]):
        literals.pop(0)
    if all(literal.isspace() for literal in literals):
        return value
    return "".join(part.text if isinstance(part, Token) else mark for part in parts)


def mask_map(values: Mapping[str, str]) -> dict[str, str]:
    """All values of an `env` or `headers` map masked; names are not secret."""
    return {name: mask_value(value) for name, value in values.items()}


def mask_url(url: str) -> str:
    """A URL with user-info, query values and fragment masked.

    Placeholders may hold `@`, `/` and `?`, so they are set aside before the URL is cut up. What cannot be told apart
    (a query component without `=`, a password with an unescaped slash) counts as secret.
    """
    held, bare = _hold(url)
    rest, hash_sign, fragment = bare.partition("#")
    rest, question_mark, query = rest.partition("?")
    masked = _mask_user_info(rest, held)
    if question_mark:
        masked += "?" + re.sub("[^&;]+", lambda component: _mask_component(component[0], held), query)
    if hash_sign:
        masked += "#" + (_mask_held(fragment, held) if fragment else "")
    return _release(masked, held)


def _mask_user_info(rest: str, held: list[str]) -> str:
    prefix = _PREFIX.match(rest)
    scheme, after = (prefix[0], rest[prefix.end() :]) if prefix else ("", rest)
    cut = _user_info_end(after)
    if cut < 0:
        return rest
    user, colon, password = after[:cut].partition(":")
    pieces = [piece for piece in (user, password) if piece]
    if not any(_HELD.search(piece) for piece in pieces):
        shown = REDACTED_IN_URL
    else:
        shown = colon.join(_mask_held(piece, held) if piece else "" for piece in (user, password)[: 1 + bool(colon)])
    return f"{scheme}{shown}{after[cut:]}"


def _user_info_end(after: str) -> int:
    """Position of the `@` that ends the user-info, or -1 when there is none."""
    authority = re.split(r"[/\\]", after, maxsplit=1)[0]
    if "@" in authority:
        return authority.rindex("@")
    host, colon, port = authority.rpartition(":")
    is_host_and_port = not colon or not port or port.isdecimal() or _HELD.fullmatch(port) or host.startswith("[")
    return -1 if is_host_and_port else after.rfind("@")


def _mask_component(component: str, held: list[str]) -> str:
    name, equals, value = component.partition("=")
    if not equals:
        return _mask_held(name, held)
    return f"{name}={_mask_held(value, held)}" if value else component


def _mask_held(piece: str, held: list[str]) -> str:
    return mask_value(_release(piece, held), REDACTED_IN_URL)


def _hold(url: str) -> tuple[list[str], str]:
    """The URL with each placeholder replaced by a numbered private-use mark, and what the marks stand for."""
    held: list[str] = []
    pieces = []
    for part in scan(_HELD.sub("", url)):
        if isinstance(part, Token):
            pieces.append(f"\ue000{len(held)}\ue001")
            held.append(part.text)
        else:
            pieces.append(part)
    return held, "".join(pieces)


def _release(text: str, held: list[str]) -> str:
    return _HELD.sub(lambda mark: held[int(mark[1])], text)
