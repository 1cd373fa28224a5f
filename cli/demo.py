"""`smcp demo`: a Server, a Computer with a sample MCP server, and an Agent, all in this process, for a few seconds."""

from __future__ import annotations

import os
import tempfile
from typing import Annotated, Any

import typer

from .exit_status import FAILED, SUCCESS
from .options import Json
from .output import Output

OFFICE, COMPUTER, TOOL = "demo", "demo-computer", "sample__add"
ARGUMENTS = {"a": 19, "b": 23}
READY_LIMIT = 8.0


def demo(
    *,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False,
) -> None:
    """Show it working: start all three roles, list the tools, call one, and leave nothing behind."""
    output = Output(as_json=as_json)
    note = (lambda _text: None) if quiet or as_json else output.note

    async def work() -> int:
        from ..agent import AsyncAgent  # noqa: PLC0415 - heavier than all that `--help` needs
        from ..fixtures import config  # noqa: PLC0415
        from ..runtime import Computer  # noqa: PLC0415
        from ..server.app import serve  # noqa: PLC0415
        from ..server.auth import ANONYMOUS  # noqa: PLC0415
        from ..server.options import ServerOptions  # noqa: PLC0415

        async with serve(options=ServerOptions(auth=ANONYMOUS)) as server:
            note(f"Server    listens on {server.url}")
            with tempfile.TemporaryDirectory(prefix="smcp-demo-", ignore_cleanup_errors=True) as folder:
                async with Computer.from_config(config("demo"), _options(folder)) as computer:
                    await computer.connect(server.url, office=OFFICE)
                    note(f"Computer  {computer.name} joined office {OFFICE}")
                    async with AsyncAgent(server.url, name="demo-agent", office=OFFICE) as agent:
                        note(f"Agent     {agent.name} joined office {OFFICE}")
                        return await _show(output, agent)

    from .running import perform  # noqa: PLC0415

    perform(output, work)


async def _show(output: Output, agent: Any) -> int:
    listed = await agent.get_tools(COMPUTER)
    output.text("Tools:")
    output.table(("TOOL", "DESCRIPTION"), ((tool.name, tool.description) for tool in listed.tools))
    result = await agent.tool_call(COMPUTER, TOOL, ARGUMENTS, timeout=10)
    if output.as_json:
        output.document({"tools": [tool.name for tool in listed.tools], "result": result.to_dict()})
    said = " ".join(str(item.get("text", "")) for item in result.content)
    output.text(f"{TOOL}({', '.join(f'{name}={value}' for name, value in ARGUMENTS.items())}) = {said}")
    return FAILED if result.is_error else SUCCESS


def _options(folder: str) -> Any:
    """Options under which everything happens in `folder`: what is the user's is neither read nor written."""
    from ..actors.reconcile.config.options import RuntimeOptions  # noqa: PLC0415

    return RuntimeOptions(
        home=os.path.join(folder, "home"),
        user_config_dir=os.path.join(folder, "config"),
        state_dir=os.path.join(folder, "state"),
        blob_cache_root=os.path.join(folder, "blobs"),
        project_root=folder,
        # Long enough for a cold interpreter to import the package the sample server is written with.
        start_wait_s=READY_LIMIT,
    )
