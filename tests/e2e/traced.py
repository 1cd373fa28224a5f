"""A whole stack in a process that traces: run by test_tracing, because a tracer provider cannot be taken back.

Prints one JSON object: the spans that ended, and what the calls said. The MCP server is one of the MCP package over
HTTP in this very process, so that its own spans end up in the same exporter.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.stack import config, light, open_stack, options


async def main() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    remote: MCPServer = MCPServer("remote", log_level="ERROR")

    @remote.tool()
    def shout(text: str) -> str:
        """Says it louder."""
        return text.upper()

    listening = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(remote.streamable_http_app(), log_level="error"))
    serving = asyncio.create_task(http.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    entry = {
        "name": "remote",
        "type": "streamable",
        "server_parameters": {"url": url},
        "default_tool_meta": {"auto_apply": True},
    }
    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as home:
        configuration = config(light("local", tools="meta,fail"), entry)
        async with open_stack(configuration, runtime=options(home=home)) as stack:
            await stack.until_listed("local__meta", "remote__shout")
            exporter.clear()
            with trace.get_tracer("application").start_as_current_span("think") as span:
                said["shout"] = await stack.text("remote__shout", text="hey")
                said["meta"] = json.loads(await stack.text("local__meta"))
                said["unknown"] = (await stack.call("local__nothing")).error_code
            said["trace_id"] = f"{span.get_span_context().trace_id:032x}"
            said["listed"] = await stack.names()
    http.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    spans = [
        {
            "name": span.name,
            "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
            "kind": span.kind.name.lower(),
            "trace_id": f"{span.context.trace_id:032x}",
            "id": f"{span.context.span_id:016x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
            "attributes": dict(span.attributes or {}),
            "failed": not span.status.is_ok,
        }
        for span in exporter.get_finished_spans()
    ]
    json.dump({"spans": spans, "said": said}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
