"""The media type of a file name, by the table of the protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smcp_runtime.actors.skills.media_types import BY_EXTENSION, media_type
from smcp_runtime.wire.mime import is_text

spec = pytest.mark.spec


@spec("C-SKILL-70")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SKILL.md", "text/markdown"),
        ("A.MARKDOWN", "text/markdown"),
        ("notes.txt", "text/plain"),
        ("data.json", "application/json"),
        ("a.xml", "application/xml"),
        ("a.yml", "application/yaml"),
        ("a.toml", "application/toml"),
        ("a.rst", "text/x-rst"),
        ("p.JPEG", "image/jpeg"),
        ("f.ico", "image/vnd.microsoft.icon"),
        ("d.svg", "image/svg+xml"),
        ("x.tar.gz", "application/gzip"),
        ("t.tsv", "text/tab-separated-values"),
        ("m.cjs", "text/javascript"),
        ("s.bash", "text/x-shellscript"),
        ("t.j2", "text/plain"),
        ("n.ipynb", "application/x-ipynb+json"),
        ("Makefile", "application/octet-stream"),
        (".md", "application/octet-stream"),
        ("a.unheard", "application/octet-stream"),
        ("a.", "application/octet-stream"),
        ("a.md ", "application/octet-stream"),
    ],
)
def test_the_last_extension_alone_decides_the_type(name: str, expected: str) -> None:
    assert media_type(name) == expected


@spec("C-SKILL-70")
def test_the_table_is_that_of_the_protocol() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spec" / "02-channels.md").read_text(encoding="utf-8")
    rows = text.partition("| group | mapping |")[2].partition("- **C-SKILL-71**")[0]
    written = {}
    for extensions, mime in re.findall(r"((?:`\.[a-z0-9]+` )+)([a-z]+/[a-z0-9.+-]+)", rows):
        written |= dict.fromkeys(re.findall(r"`([^`]+)`", extensions), mime)
    assert written == BY_EXTENSION


@spec("C-SKILL-71")
def test_sources_of_programs_are_text_and_go_inline_while_images_and_packages_do_not() -> None:
    text = {".py", ".sh", ".html", ".css", ".ts", ".sql", ".csv", ".ipynb", ".svg", ".yaml", ".toml", ".json"}
    binary = {".png", ".pdf", ".zip", ".wasm", ".woff2", ".mp4"}
    assert all(is_text(BY_EXTENSION[extension]) for extension in text)
    assert not any(is_text(BY_EXTENSION[extension]) for extension in binary)
