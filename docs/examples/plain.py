"""A script without an event loop calls a tool and reads what the office tells.

Start it alone, or point it at a running Server: ``python docs/examples/plain.py http://127.0.0.1:8000 my-office``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio.from_thread
from office import OFFICE, office_without_agent

from smcp_runtime.agent import Agent


@contextmanager
def address() -> Iterator[tuple[str, str]]:
    """URL and office from the command line, or of an office made for this run."""
    if len(sys.argv) > 2:
        yield sys.argv[1], sys.argv[2]
        return
    portal_thread = anyio.from_thread.start_blocking_portal()
    with portal_thread as portal, portal.wrap_async_context_manager(office_without_agent()) as url:
        yield url, OFFICE


def main() -> None:
    with address() as (url, office), Agent(url, name="script", office=office) as agent:
        with agent.notifications() as notices:
            while not (homes := agent.wait_tools().find("sample__add")):
                print("the office says:", next(notices).event)
        result = agent.tool_call(homes[0], "sample__add", {"a": 19, "b": 23}, timeout=10)
        print(f"The sum is {result.text}.")


if __name__ == "__main__":
    main()
