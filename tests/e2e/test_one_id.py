"""One id for a call, wherever one looks: F-72."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from smcp_runtime.actors.tools import audit
from smcp_runtime.wire.errors import PeerError
from support.stack import config, light, open_stack, options

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F-72")]

Call = tuple[str, dict[str, object]]
SERVER_LOG = "smcp_runtime.server.security"
COMPUTER_LOG = audit.logger.name


def lines(caplog: pytest.LogCaptureFixture, logger: str, req_id: str) -> list[str]:
    """What a log says about an id."""
    return [record.getMessage() for record in caplog.records if record.name == logger and req_id in record.getMessage()]


@pytest.fixture(autouse=True)
def listening(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="smcp_runtime")


async def test_a_call_has_the_same_id_in_server_computer_mcp_server_and_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stack(config(light("files", tools="meta")), runtime=options(home=str(tmp_path))) as stack:
        await stack.until_listed("files__meta")
        result = await stack.call("files__meta")
        req_id = result.req_id
        assert json.loads(result.text)["a2c_req_id"] == req_id
        (relayed,) = lines(caplog, SERVER_LOG, req_id)
        assert relayed.startswith("relayed ")
        (audited,) = lines(caplog, COMPUTER_LOG, req_id)
        assert audited.startswith(f"call {req_id} of files__meta by planner at files: ok after ")
        (kept,) = stack.computer.operations.calls(req_id)
        assert (kept.agent, kept.tool, kept.bundle_id, kept.outcome) == ("planner", "files__meta", "files", "ok")


@pytest.mark.parametrize(
    ("call", "ended"),
    [
        (("files__fail", {"text": "x"}), ("tool_error", "files")),
        (("files__rpc_error", {"code": -32000}), ("failed", "files")),
        (("files__sleep", {"seconds": 30}), ("timeout", "files")),
        (("files__die", {}), ("failed", "files")),
        (("nobody__knows", {}), ("unknown_tool", "")),
    ],
)
async def test_a_failed_call_is_found_by_its_id_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: Call, ended: tuple[str, str]
) -> None:
    tool, arguments = call
    servers = config(light("files", tools="fail,rpc_error,sleep,die"))
    async with open_stack(servers, runtime=options(home=str(tmp_path))) as stack:
        await stack.until_listed("files__fail")
        result = await stack.call(tool, timeout=1, **arguments)
        assert result.is_error
        (kept,) = stack.computer.operations.calls(result.req_id)
        assert (kept.outcome, kept.bundle_id) == ended
        (audited,) = lines(caplog, COMPUTER_LOG, result.req_id)
        assert f": {ended[0]} after " in audited
        assert lines(caplog, SERVER_LOG, result.req_id)


async def test_a_call_that_is_refused_on_its_way_names_its_id_in_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stack(config(), runtime=options(home=str(tmp_path))) as stack:
        with pytest.raises(PeerError) as refused:
            await stack.agent.tool_call("nobody", "x__y", {})
        assert lines(caplog, SERVER_LOG, refused.value.details["req_id"])


async def test_no_argument_and_no_answer_of_a_call_is_in_any_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stack(config(light("files", tools="echo")), runtime=options(home=str(tmp_path))) as stack:
        await stack.until_listed("files__echo")
        assert await stack.text("files__echo", text="a private matter") == "a private matter"
        assert "private" not in caplog.text
        assert "private" not in str(stack.computer.operations.calls())


async def test_names_an_agent_makes_up_cannot_forge_or_flood_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stack(config(), runtime=options(home=str(tmp_path))) as stack:
        result = await stack.call("x\ncall forged of all: ok" + "y" * 200)
        (audited,) = lines(caplog, COMPUTER_LOG, result.req_id)
        assert "\n" not in audited
        assert len(audited) < 500
