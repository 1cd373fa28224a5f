"""An MCP server written with the MCP package of the SDK's environment, which is an older major version than ours.

``mcp_server.py TRANSPORT``: stdio, sse, streamable, or streamable in one of its two other forms, stateless and json.
Over HTTP the first line says ``ready url=…``.
"""

from __future__ import annotations

import base64
import socket
import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import ToolAnnotations

FORMS = {"stateless": {"stateless_http": True}, "json": {"json_response": True}}
form = sys.argv[1]
server = FastMCP("Older (display)", log_level="ERROR", **FORMS.get(form, {}))


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


@server.tool()
def fail(text: str) -> str:
    """Fails with a text."""
    raise ValueError(text)


@server.tool()
def image(size: int) -> Image:
    """An image of so many bytes."""
    return Image(data=bytes(size), format="png")


@server.tool()
async def slow(seconds: float, ctx: Context[Any, Any, Any]) -> str:
    """Reports progress ten times, then answers."""
    for step in range(10):
        await anyio.sleep(seconds / 10)
        await ctx.report_progress(step + 1, 10)
    return "done"


@server.tool()
async def grow(name: str, ctx: Context[Any, Any, Any]) -> str:
    """Offers one more tool, and says so before it answers."""
    server.add_tool(lambda: name, name=name, description="Grown on request")
    await ctx.session.send_tool_list_changed()
    return f"grew {name}"


@server.resource("memo://one")
def memo() -> str:
    """A text."""
    return "one"


@server.resource("memo://bytes", mime_type="application/octet-stream")
def data() -> bytes:
    """Some bytes."""
    return base64.b64decode("AAEC")


def main() -> None:
    """Serves until stdin ends, or for ever over HTTP."""
    if form == "stdio":
        server.run("stdio")
        return
    app = server.sse_app() if form == "sse" else server.streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"ready url=http://127.0.0.1:{listening.getsockname()[1]}/{'sse' if form == 'sse' else 'mcp'}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
