"""The published servers start and list tools by themselves, so that a failure beside ours is ours."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        (["mcp-server-time", "--local-timezone", "UTC"], "convert_time"),
        (["mcp-server-git"], "git_status"),
        (["mcp-server-everything"], "echo"),
        (["mcp-server-filesystem", "{folder}"], "list_directory"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
async def test_a_published_server_lists_its_tools(
    command: list[str], tool: str, real_environment: dict[str, str], tmp_path: Path
) -> None:
    words = [word.replace("{folder}", str(tmp_path)) for word in command]
    server = StdioServerParameters(command=words[0], args=words[1:], env=real_environment)
    with anyio.fail_after(40), (tmp_path / "stderr").open("w") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            assert tool in [listed.name for listed in (await client.list_tools()).tools]
