"""Canaries: secrets that every part of a Computer handles, and nothing it emits holds one (T-SEC-3)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
import pytest

from smcp_runtime import fixtures
from smcp_runtime.actors.reconcile.values.hooks import InputRequest
from smcp_runtime.cli.live import OPERATIONS, carry_out
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.redaction import forms_of
from support.recording_server import RecordingServer
from support.stack import options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

TYPED = "canary-TYPED/7f3a&b"
HOOKED = 'canary-HOOKED "quoted" wört'
PRINTED = "canary-PRINTED-55e1"
LITERAL = "canary-LITERAL-0c9d"
CANARIES = (TYPED, HOOKED, PRINTED, LITERAL)

TALKATIVE = (
    "import os, sys; sys.stderr.write('starting with ' + ' '.join(sys.argv[1:2]) + ' ' + os.environ['KEY'] + '\\n');"
    "sys.stderr.flush(); os.execv(sys.argv[2], sys.argv[2:])"
)
CRASHING = "import os, sys; sys.stderr.write('bad key ' + os.environ['KEY'] + ' and ' + sys.argv[1]); sys.exit(3)"


def prompt(input_id: str) -> dict[str, Any]:
    return {"type": "promptString", "id": input_id, "description": "d", "password": True}


INPUTS = [
    prompt("typed"),
    prompt("hooked"),
    {
        "type": "command",
        "id": "printed",
        "description": "d",
        "command": "for to in 1 2; do printf canary-; echo PRINTED-55e1; done | tail -n 1 | tee /dev/stderr",
    },
]


def stdio(name: str, script: str, *arguments: str) -> dict[str, Any]:
    env = {"KEY": "${input:hooked}", "LITERAL": LITERAL}
    parameters = {"command": sys.executable, "args": ["-c", script, "${input:typed}", *arguments], "env": env}
    return {
        "name": name,
        "type": "stdio",
        "server_parameters": parameters,
        "default_tool_meta": {"auto_apply": True},
        "reconnect": {"initial_delay_ms": 20, "max_delay_ms": 50},
    }


def everything(root: Path) -> str:
    return "\n".join(path.read_text("utf-8", "replace") for path in root.rglob("*") if path.is_file())


async def endpoint(url: str) -> str:
    """Everything the operator endpoint answers, with the first moment of its stream."""
    told = []
    async with aiohttp.ClientSession() as client:
        for path in ("/status", "/metrics", "/healthz", "/readyz", "/"):
            async with client.get(url + path) as answer:
                told.append(await answer.text())
        async with client.get(url + "/events") as answer:
            told.append((await answer.content.readuntil(b"\n\n")).decode())
    return "\n".join(told)


async def door(made: Computer) -> str:
    """What every question at the control socket is answered that takes no words."""
    looks = ("list", "view", "show", "pending", "calls", "dead_letters", "identify")
    asked = [name for name in OPERATIONS if name.rpartition(".")[2] in looks]
    assert len(asked) >= 9
    return json.dumps([await carry_out(made, name, {}) for name in asked], ensure_ascii=False)


def command_lines() -> tuple[str, str]:
    """Arguments of all processes below this one: those of servers, and those of the launchers between."""
    of_servers: list[str] = []
    of_others: list[str] = []
    for process in psutil.Process().children(recursive=True):
        try:
            words = process.cmdline()
            is_launcher = any(word.endswith("launcher.py") for word in words)
            (of_others if is_launcher else of_servers).extend(words)
        except psutil.NoSuchProcess:
            continue
    return "\n".join(of_servers), "\n".join(of_others)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Every record of every library, as a handler formats it, with its traceback."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, handler = logging.getLogger(), Handler(logging.DEBUG)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)


@spec("T-SEC-3", "R-INPUT-23", "R-SEC-1", "R-SEC-3", "T-PROJ-1", "R-LIFE-25")
async def test_t_proj_1_t_sec_3_no_canary_leaves_the_computer_by_wire_log_error_diagnostics_or_disk(
    tmp_path: Path, logged: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    def vault(request: InputRequest) -> str | None:
        if request.id == "hooked":
            return HOOKED
        raise RuntimeError(f"the vault is sealed, and it held {TYPED}")

    reached: list[Any] = []
    told: list[Any] = []
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "A2C_SMCP_typed": TYPED}
    made = Computer.from_config(
        {"name": "desk", "inputs": INPUTS},
        options(
            env=environ,
            secret_providers=[vault],
            project_root=str(tmp_path),
            log=reached.append,
            metrics=told.append,
            metrics_interval_s=0.2,
            health=told.append,
            ops="127.0.0.1:0",
            start_wait_s=0.0,
        ),
    )
    said: list[Any] = []
    async with RecordingServer() as server:
        async with made:
            await made.connect(server.url, office="lab")
            await made.mount(stdio("talkative srv", TALKATIVE, *fixtures.light_stdio("--tools", "echo,rpc_error,env")))
            await made.mount(stdio("crashing srv", CRASHING))
            await made.mount(
                {
                    "name": "far srv",
                    "type": "streamable",
                    "server_parameters": {
                        "url": "http://127.0.0.1:1/mcp?key=${input:typed}&other=${input:printed}",
                        "headers": {"Authorization": "Bearer ${input:printed}", "X-Literal": LITERAL},
                    },
                }
            )

            async def settled() -> bool:
                seen = {status.bundle_id: status for status in (await made.diagnostics()).servers}
                return seen["talkative_srv"].connection == "connected" and all(
                    seen[one].connection == "error" for one in ("crashing_srv", "far_srv")
                )

            await until(settled, 15)
            request = {"agent": "a", "req_id": "r", "computer": "desk"}
            said.append(await server.ask("client:get_config", request))
            said.append(await server.ask("client:get_tools", request))
            said.append(await server.ask("client:get_resources", {**request, "mcp_server": "talkative_srv"}))
            call = {**request, "tool_name": "talkative_srv__echo", "params": {"text": "hello"}, "timeout": 5}
            said.append(await server.ask("client:tool_call", call))
            refused = {"tool_name": "talkative_srv__rpc_error", "params": {"message": f"the key {HOOKED} is unknown"}}
            said.append(await server.ask("client:tool_call", {**call, **refused, "req_id": "r2"}))
            # What a server tells an Agent of itself is its own affair; that nobody else learns it is ours.
            of_itself = {**call, "req_id": "r3", "tool_name": "talkative_srv__env", "params": {"name": "KEY"}}
            assert (await server.ask("client:tool_call", of_itself))["content"][0]["text"] == HOOKED
            diagnostics = msgspec.json.encode(await made.diagnostics()).decode()
            assert made.operations.url is not None
            operators = await endpoint(made.operations.url) + await door(made)
            of_servers, of_others = command_lines()
            while_it_runs = everything(tmp_path)
            for work in (
                made.control("crashing_srv", "restart"),
                made.connect("http://127.0.0.1:1"),
                made.mount({"name": "bad", "type": "stdio", "server_parameters": {"env": {"A": LITERAL}}}),
                made.manage.set_input("typed", 5.5),  # type: ignore[arg-type]
            ):
                try:
                    said.append(repr(await work))
                except SmcpError as error:
                    said.append(repr((error, error.__dict__, error.__cause__, error.__context__)))
            view = msgspec.json.encode([view.id for view in await made.manage.inputs()]).decode()
        said += [server.handshakes, server.connects, server.events]
    emitted = {
        "wire and errors": json.dumps(said, default=str, ensure_ascii=False),
        "logs": "\n".join(logged),
        "log hook": repr(reached),
        "diagnostics": diagnostics + view,
        "metrics and health hooks": json.dumps(told, ensure_ascii=False),
        "operators": operators,
        "arguments of others": of_others,
        # One that is just being started has its input where its declaration puts it.
        "arguments of servers": of_servers.replace(TYPED, ""),
        "disk": everything(tmp_path),
        "disk of a running Computer": while_it_runs,
        "terminal": "".join(capfd.readouterr()),
    }
    assert "starting with [REDACTED] [REDACTED]" in emitted["disk"]
    assert "bad key [REDACTED] and [REDACTED]" in diagnostics
    assert "hello" in emitted["wire and errors"]
    assert "light_stdio" in of_servers
    assert "launcher.py" in of_others
    assert all(part in operators for part in ("smcp_mcp_server_up", "bad key [REDACTED]", "talkative_srv"))
    assert any("samples" in record for record in told)
    assert "the key [REDACTED] is unknown" in emitted["wire and errors"]
    assert "${input:typed}" in emitted["wire and errors"]
    found = [
        (place, canary)
        for place, text in emitted.items()
        for canary in CANARIES
        if any(form in text for form in forms_of(canary))
    ]
    assert found == []
