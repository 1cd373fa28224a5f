"""Answering: one `client:*` event in, one acknowledgement out, whatever happens behind it (W-CMP-2).

Decides with the pure modules beside it and asks the actor that owns the answer. Knows
nothing of the connection; the SocketActor calls it once for every event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from ...bus.context import under
from ...wire import events, payload, results, tracing
from ...wire.codec import Attachment
from ...wire.config import GetComputerConfigReq
from ...wire.envelope import Address
from ...wire.errors import InvalidPayload, SmcpError
from ...wire.messages.mcp import ListResources
from ...wire.messages.projection import GetConfig
from ...wire.messages.tools import ListTools, RunTool
from ...wire.resources import GetResourcesReq
from ...wire.tools import GetToolsReq
from . import answers
from .channels import ChannelAnswers, Way
from .owners import ANSWER_LIMIT, Asker, Owners
from .requests import ToolCall, read_request
from .resource_page import page

TOOLS: Final = Address("tools")
RECONCILE: Final = Address("reconcile")

CALL_MARGIN: Final = 1.0
"""Seconds after a call's own limit at which its ask ends; the ToolActor has answered long before (W-CALL-10)."""

logger = logging.getLogger(__name__)


class Service:
    """Answers of one Computer.

    Args:
        computer: Its protocol name; requests for another one are refused unread (W-EVT-2).
        ask: Asks an actor.
        reaches: Whether there is an actor at an address.
    """

    def __init__(self, computer: str, ask: Asker, reaches: Callable[[Address], bool]) -> None:
        self._computer = computer
        self._reaches = reaches
        self._owners = Owners(ask)
        self._ways: Mapping[str, Way] = {
            **ChannelAnswers(self._owners).ways,
            events.CLIENT_TOOL_CALL: self._tool_call,
            events.CLIENT_GET_TOOLS: self._get_tools,
            events.CLIENT_GET_CONFIG: self._get_config,
            events.CLIENT_GET_RESOURCES: self._get_resources,
        }

    async def answer(self, event: str, data: msgspec.Raw | None) -> bytes:
        """The acknowledgement of an event of `wire.events.CALLS`, as JSON; never raises but for cancellation."""
        with tracing.span(event, "server", tracing.traceparent_of(data)) as span, under(span.traceparent):
            return await self._answer(event, data)

    async def _answer(self, event: str, data: msgspec.Raw | None) -> bytes:
        try:
            request = read_request(event, data)
        except InvalidPayload as fault:
            return answers.malformed(event, fault)
        if request.computer != self._computer:
            return answers.refusal(payload.computer_not_found(request.computer))
        try:
            return await self._ways[event](request)
        except SmcpError as error:
            logger.warning("%s failed: %s", event, error.code)
            return answers.failed_request(error)
        except Exception as error:
            # An event without an acknowledgement would cost its Agent the whole time limit.
            logger.error("%s failed: %s", event, type(error).__name__)
            if event == events.CLIENT_TOOL_CALL:
                return answers.plain(results.failed("The Computer could not execute the tool call"))
            return answers.refusal(payload.internal_error())

    async def _tool_call(self, call: ToolCall) -> bytes:
        message = RunTool(call.req_id, call.tool_name, Attachment(bytes(call.params)), call.timeout, call.agent)
        try:
            answer = await self._owners.ask(TOOLS, message, call.timeout + CALL_MARGIN)
        except SmcpError as error:
            logger.warning("a tool call was not answered: %s", error.code)
            return answers.failed_call(error, call.timeout)
        return answer.result.data

    async def _get_tools(self, request: GetToolsReq) -> bytes:
        listed = await self._owners.read(TOOLS, ListTools())
        return answers.embed(request.req_id, tools=listed.tools.data)

    async def _get_config(self, _: GetComputerConfigReq) -> bytes:
        return (await self._owners.read(RECONCILE, GetConfig())).config.data

    async def _get_resources(self, request: GetResourcesReq) -> bytes:
        server = Address(f"mcp/{request.mcp_server}")
        if not self._reaches(server):
            # Asked for an address of nobody the bus would count a dead letter, and print what a peer wrote.
            return answers.refusal(payload.mcp_server_not_found(request.mcp_server))
        cursor = request.cursor if isinstance(request.cursor, str) else None
        try:
            listed = await self._owners.ask(server, ListResources(cursor), ANSWER_LIMIT)
            found = page(listed.resources.data, listed.next_cursor, request.req_id)
        except SmcpError as error:
            return answers.failed_listing(error, request.mcp_server)
        except ValueError:
            return answers.refusal(payload.mcp_server_unreachable(request.mcp_server, "upstream_error"))
        for note in found.notes:
            logger.error("resources of %s: %s", request.mcp_server, note)
        return found.answer
