"""The library's `ClientSession`, which negotiates, renews and listens; its failures become our own here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version

import msgspec
from mcp import MCPError, types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, NAME_BEARING_METHODS, encode_header_value
from mcp.types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ...failures import ErrorAnswer, HandshakeFailed
from ...transports.dispatcher import RawDispatcher
from ..listing import Listing
from ..negotiated import Capabilities, Negotiated
from .dispatcher import LibraryDispatcher
from .negotiation import negotiate
from .param_headers import ParamHeaders

NAME = "smcp-runtime"


class Client:
    """Opened, renewed and closed by one owner task (F-30)."""

    def __init__(self, dispatcher: RawDispatcher) -> None:
        self._info = types.Implementation(name=NAME, version=version(NAME))
        self._session = ClientSession(dispatcher=LibraryDispatcher(dispatcher), client_info=self._info)
        self._param_headers = ParamHeaders()

    async def open(self, *, patience: float, older_only: bool) -> Negotiated:
        """Negotiates; see `negotiate` for the arguments.

        Raises:
            HandshakeFailed: The server refused, or answered what the protocol does not allow.
            RequestFailed: The connection failed.
        """
        await self._session.__aenter__()
        try:
            with _translated():
                await negotiate(self._session, patience=patience, older_only=older_only)
            return self._outcome()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the session, not the connection."""
        # the library would wrap an error it is told of in a group
        await self._session.__aexit__(None, None, None)

    async def renew(self, protocol: str) -> Negotiated:
        """Shakes hands once more, the older way, since the server has forgotten the session.

        Raises:
            HandshakeFailed, RequestFailed: As of `open`.
        """
        parameters = types.InitializeRequestParams(
            protocol_version=protocol, capabilities=types.ClientCapabilities(), client_info=self._info
        )
        with _translated():
            result = await self._session.send_request(
                types.InitializeRequest(params=parameters), types.InitializeResult
            )
            self._session.adopt(result)
            await self._session.send_notification(types.InitializedNotification())
        return self._outcome()

    async def listen(
        self, capabilities: Capabilities, uris: Sequence[str], on_open: Callable[[Collection[str]], None]
    ) -> None:
        """Listens until the server ends it; see `Session.listen`.

        Raises:
            RequestFailed: The stream broke, or the server does not serve it.
        """
        try:
            async with listen(
                self._session,
                tools_list_changed=capabilities.tools_changed,
                resources_list_changed=capabilities.resources_changed,
                resource_subscriptions=uris if capabilities.subscribe else (),
            ) as stream:
                on_open(stream.honored.resource_subscriptions or ())
                async for _ in stream:
                    pass
        except (MCPError, SubscriptionLost) as error:
            code = error.code if isinstance(error, MCPError) else 0
            raise ErrorAnswer(code, "the server ended its announcements") from error

    # -- HTTP headers of the newer era ------------------------------------------------------

    def absorb(self, listing: Listing) -> None:
        """Learns from a list of tools which of their arguments a header mirrors."""
        self._param_headers.absorb(listing)

    def headers(self, method: str, name: str | None, arguments: bytes | None = None) -> Mapping[str, str]:
        """What a proxy reads of a request.

        Args:
            name: The tool or resource it is about.
            arguments: Of a tool call.
        """
        headers = {MCP_METHOD_HEADER: method}
        if name is not None and method in NAME_BEARING_METHODS:
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if name is not None and arguments is not None:
            headers.update(self._param_headers.of(name, arguments))
        return headers

    def _outcome(self) -> Negotiated:
        protocol = self._session.protocol_version or ""
        modern = protocol in MODERN_PROTOCOL_VERSIONS
        server = self._session.server_info
        return Negotiated(
            protocol,
            modern,
            server.name if server is not None else None,
            _capabilities(self._session.server_capabilities),
            self._stamp(protocol) if modern else b"",
        )

    def _stamp(self, protocol: str) -> bytes:
        meta = {
            PROTOCOL_VERSION_META_KEY: protocol,
            CLIENT_INFO_META_KEY: self._info.model_dump(by_alias=True, mode="json", exclude_none=True),
            CLIENT_CAPABILITIES_META_KEY: {},
        }
        return msgspec.json.encode(meta)[1:-1] + b","


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except MCPError as error:
        raise HandshakeFailed("refused", f"the server refused the handshake: {error.message}") from error
    except ValidationError as error:
        raise HandshakeFailed("malformed_handshake", "the server's handshake is malformed") from error
    except (RuntimeError, ValueError) as error:
        reason = "the server speaks no version of the protocol that we do"
        raise HandshakeFailed("version", reason) from error


def _capabilities(declared: types.ServerCapabilities | None) -> Capabilities:
    if declared is None:
        return Capabilities()
    tools, resources = declared.tools, declared.resources
    return Capabilities(
        tools=tools is not None,
        tools_changed=bool(tools and tools.list_changed),
        resources=resources is not None,
        resources_changed=bool(resources and resources.list_changed),
        subscribe=bool(resources and resources.subscribe),
        prompts=declared.prompts is not None,
        completions=declared.completions is not None,
    )
