"""Shelves: bare MCP servers that serve the resources a test writes down (`fixtures/servers/light_shelf.py`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Resource = dict[str, Any]

SHELF_TOOLS = "echo,put,drop,subscriptions,pid,sleep"


def shelf(folder: Path, name: str, resources: Iterable[Resource], /, *flags: str, **more: Any) -> dict[str, Any]:
    """The entry of a server called `name (display)` that serves these resources; its bundle_id is `name_display`."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(list(resources)))
    arguments = ["-m", "smcp_runtime.fixtures.servers.light_shelf", "--shelf", str(file), "--tools", SHELF_TOOLS]
    return {
        "name": f"{name} (display)",
        "type": "stdio",
        "server_parameters": {"command": sys.executable, "args": [*arguments, *flags]},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }


def fixture_server(name: str, **more: Any) -> dict[str, Any]:
    """The entry of a server of the fixtures, over stdio."""
    return {
        "name": name,
        "type": "stdio",
        "server_parameters": {"command": sys.executable, "args": ["-m", f"smcp_runtime.fixtures.servers.{name}"]},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }


def window(uri: str, text: str | None = None, **more: Any) -> Resource:
    """A window; `then` and `contents` say what reading it gives."""
    contents = [] if text is None else [{"text": text}]
    return {"uri": uri, "name": uri.rpartition("/")[2], "contents": contents, **more}


def document(uri: str, title: str = "A document", *, pages: int = 1, **more: Any) -> Resource:
    """A document of the catalogue that reads as its Level JSON."""
    level = {"doc_ref": uri.split("/")[3], "uri": uri, "title": title, "page_count": pages}
    return {
        "uri": uri,
        "name": title,
        "_meta": {"page_count": pages},
        "contents": [{"mimeType": "application/json", "text": json.dumps(level)}],
        **more,
    }


def skill(
    host: str, name: str, files: dict[str, str | int] | None = None, description: str = "does things"
) -> list[Resource]:
    """A skill whose files are resources. A file is its text, or a number of bytes of a pattern."""
    root = f"skill://{host}/{name}"
    head = f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n"
    contents = {"SKILL.md": head, **(files or {})}
    listed = [{"uri": root, "_meta": {"source": "resources"}, "contents": [{"text": head}]}]
    for path, content in contents.items():
        block: dict[str, Any] = {"bytes": content} if isinstance(content, int) else {"text": content}
        listed.append({"uri": f"{root}/{path}", "contents": [block]})
    return listed


def user_skill(
    home: Path, name: str, files: dict[str, str | bytes] | None = None, description: str = "of mine"
) -> Path:
    """A skill in the user's drop-in directory below a home; its directory."""
    folder = home / "user" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n")
    for path, content in (files or {}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def pattern(size: int) -> bytes:
    """The bytes behind a number in a shelf."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]
