"""ISO-8601 durations as the configuration uses them: days, hours, minutes, seconds (W-CFG-12)."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_FORM = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?",
    re.ASCII,
)
_LONGEST = 10.0**12
_MICRO = Decimal("0.000001")


def parse_duration(value: object) -> float:
    """Seconds of `P[nD]T[nH][nM][n[.n]S]`, or of a plain number of seconds.

    Raises:
        ValueError: Neither form, negative, or not finite. The text does not quote the value.
    """
    if isinstance(value, bool):
        raise ValueError("a boolean is not a duration")
    if isinstance(value, int | float):
        return _bounded(float(value) if abs(value) <= _LONGEST else math.inf)
    found = _FORM.fullmatch(value) if isinstance(value, str) and len(value) <= 64 else None
    if found is None or not any(found.groups()):
        raise ValueError("not an ISO-8601 duration of days, hours, minutes and seconds")
    days, hours, minutes, seconds = (Decimal(part or 0) for part in found.groups())
    return _bounded(float(((days * 24 + hours) * 60 + minutes) * 60 + seconds))


def format_duration(seconds: float) -> str:
    """The canonical text of a duration: `PT10S`, `PT1M30.5S`, `P1DT2H`, and `PT0S` for none. Microseconds at most.

    Raises:
        ValueError: Negative, not finite, or beyond any use.
    """
    whole = Decimal(repr(_bounded(seconds))).quantize(_MICRO).normalize()
    whole_minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(int(whole_minutes), 60)
    days, hours = divmod(hours, 24)
    time = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{rest:f}S" if rest else "")
    date = f"{days}D" if days else ""
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


def _bounded(seconds: float) -> float:
    if not 0 <= seconds <= _LONGEST:
        raise ValueError("a duration must be between 0 and 10^12 seconds")
    return seconds
