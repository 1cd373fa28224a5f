"""The media type of a skill's file: its last extension decides, and nothing else does (C-SKILL-70). Pure.

No operating-system registry and no look at the content, so that the same package has the same
types on every Computer.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "application/octet-stream"

_PROTOCOL: Final = {
    "text/markdown": ".md .markdown",
    "text/plain": ".txt",
    "application/json": ".json",
    "application/xml": ".xml",
    "application/yaml": ".yaml .yml",
    "application/toml": ".toml",
    "text/x-rst": ".rst",
}
_BINARY: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg .jpeg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "image/vnd.microsoft.icon": ".ico",
    "image/svg+xml": ".svg",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "application/x-tar": ".tar",
    "application/wasm": ".wasm",
    "font/woff": ".woff",
    "font/woff2": ".woff2",
    "font/ttf": ".ttf",
    "font/otf": ".otf",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}
_SOURCES: Final = {
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/html": ".html .htm",
    "text/css": ".css",
    "text/javascript": ".js .mjs .cjs",
    "text/x-typescript": ".ts",
    "text/x-python": ".py",
    "text/x-shellscript": ".sh .bash",
    "text/x-sql": ".sql",
    "text/plain": ".ini .cfg .conf .log .tmpl .j2",
    "application/x-ipynb+json": ".ipynb",
}

BY_EXTENSION: Final[dict[str, str]] = {
    extension: mime
    for group in (_PROTOCOL, _BINARY, _SOURCES)
    for mime, extensions in group.items()
    for extension in extensions.split()
}
"""Lower-case extension with its dot to media type."""


def media_type(file_name: str) -> str:
    """The media type of a file name; a name that only begins with a dot has no extension."""
    stem, dot, extension = file_name.rpartition(".")
    return BY_EXTENSION.get(f".{extension.lower()}", UNKNOWN) if stem and dot else UNKNOWN
