"""KEY=VALUE files of stdio servers (R-MCP-4): text in, values and notes out. Values are literal."""

from __future__ import annotations


def parse_env_file(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of a file in order of rising strength, and a note for each line that is none."""
    values: dict[str, str] = {}
    notes: list[str] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals or not name.strip():
            notes.append(f"line {number} skipped: not KEY=VALUE")
            continue
        values[name.strip()] = _unquoted(value.strip())
    return values, tuple(notes)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
