"""An HTTP MCP server that wants authorization, and the authorization server it names, on two real ports.

``async with protected() as world`` gives both; `world.browse` does what a person with a browser would, from the page of
the authorization server to the redirect. What tokens are good for is set and looked at from outside.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import aiohttp
import jwt
from aiohttp import web

Json = dict[str, Any]


class World:
    """Both servers, and the knobs.

    Attributes:
        tokens: Access tokens that are good now.
        refresh_tokens: Refresh tokens that are good now.
        lifetime: Seconds a token is said to live, `None` to say nothing.
        clients: Registered clients by id, with their secret.
        asked: Forms that were sent to the token endpoint.
        pages: Queries of authorization requests.
        says_no: Whether the person refuses.
        keys: Public keys of clients that sign, by client id.
        broken: A status the token endpoint answers everything with.
        received: Methods the MCP server was asked.
    """

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.lifetime: float | None = None
        self.clients: dict[str, str | None] = {}
        self.keys: dict[str, str] = {}
        self.asked: list[dict[str, str]] = []
        self.pages: list[dict[str, str]] = []
        self.says_no = False
        self.broken: int | None = None
        self.received: list[str] = []
        self.url = self.issuer = ""
        self._codes: dict[str, dict[str, str]] = {}

    # -- the MCP server --

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if given not in self.tokens:
            metadata = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
            return web.Response(status=401, headers={"www-authenticate": f'Bearer resource_metadata="{metadata}"'})
        if request.method != "POST":
            return web.Response(status=405)
        message: Json = json.loads(await request.read())
        self.received.append(message.get("method", ""))
        if "id" not in message:
            return web.Response(status=202)
        answer = self._answer(message)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **answer}, headers={"mcp-session-id": "s"})

    def _answer(self, message: Json) -> Json:
        match message["method"]:
            case "initialize":
                info = {"name": "protected", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": message["params"]["arguments"].get("text", "")}]}
            case "ping":
                result = {}
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}
        return {"result": result}

    async def resource_metadata(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"resource": self.url, "authorization_servers": [self.issuer]})

    # -- the authorization server --

    async def metadata(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(self, request: web.Request) -> web.StreamResponse:
        wanted = json.loads(await request.read())
        client_id = f"client-{len(self.clients)}"
        self.clients[client_id] = None
        return web.json_response({**wanted, "client_id": client_id}, status=201)

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        page = dict(request.query)
        self.pages.append(page)
        answer = {"state": page["state"], "iss": self.issuer}
        if self.says_no:
            answer["error"] = "access_denied"
        else:
            answer["code"] = secrets.token_urlsafe()
            self._codes[answer["code"]] = page
        raise web.HTTPFound(f"{page['redirect_uri']}?{urlencode(answer)}")

    async def token(self, request: web.Request) -> web.StreamResponse:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append(form)
        if self.broken is not None:
            return web.Response(status=self.broken)
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            user, _, password = base64.b64decode(basic[6:]).decode().partition(":")
            form = {**form, "client_id": unquote(user), "client_secret": unquote(password)}
        if not self._is_good(form):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self.issue(with_refresh=form["grant_type"] != "client_credentials"))

    def _is_good(self, form: dict[str, str]) -> bool:
        if "client_assertion" in form:
            return form["grant_type"] == "client_credentials" and self._is_signed(form["client_assertion"])
        client_id = form.get("client_id", "")
        if client_id not in self.clients or self.clients[client_id] != form.get("client_secret"):
            return False
        match form["grant_type"]:
            case "authorization_code":
                page = self._codes.pop(form["code"], {})
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                return page.get("code_challenge") == challenge and page["redirect_uri"] == form["redirect_uri"]
            case "refresh_token":
                known = form["refresh_token"] in self.refresh_tokens
                self.refresh_tokens.discard(form["refresh_token"])
                return known
            case kind:
                return kind == "client_credentials"

    def _is_signed(self, assertion: str) -> bool:
        """Whether an assertion is what one of our clients says of itself, for us alone and not for long."""
        client_id = jwt.decode(assertion, options={"verify_signature": False})["sub"]
        try:
            said = jwt.decode(
                assertion,
                self.keys[client_id],
                algorithms=["RS256", "ES256"],
                audience=self.issuer,
                options={"require": ["exp", "iat", "jti"]},
            )
        except (KeyError, jwt.PyJWTError):
            return False
        return bool(said["iss"] == client_id)

    def issue(self, *, with_refresh: bool = True) -> Json:
        """A new token, as the token endpoint answers."""
        access, refresh = f"access-{secrets.token_urlsafe()}", f"refresh-{secrets.token_urlsafe()}"
        self.tokens.add(access)
        answer: Json = {"access_token": access, "token_type": "Bearer"}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if with_refresh:
            self.refresh_tokens.add(refresh)
            answer["refresh_token"] = refresh
        return answer

    def revoke(self) -> None:
        """Nothing that was granted is good any more."""
        self.tokens.clear()
        self.refresh_tokens.clear()

    # -- the person --

    async def browse(self, _: str, url: str) -> None:
        """Opens the page and follows it back; returns before the answer is used, as a browser does."""
        self._browsing = asyncio.get_running_loop().create_task(self._follow(url))

    async def _follow(self, url: str) -> None:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            await response.read()


@asynccontextmanager
async def protected() -> AsyncIterator[World]:
    """Both servers on free ports of the loopback interface."""
    world = World()
    server, issuer = web.Application(), web.Application()
    server.router.add_route("*", "/mcp", world.mcp)
    server.router.add_get("/.well-known/oauth-protected-resource/mcp", world.resource_metadata)
    issuer.router.add_get("/.well-known/oauth-authorization-server", world.metadata)
    issuer.router.add_post("/register", world.register)
    issuer.router.add_get("/authorize", world.authorize)
    issuer.router.add_post("/token", world.token)
    runners = [web.AppRunner(app, shutdown_timeout=0.1) for app in (server, issuer)]
    try:
        for runner in runners:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        world.url = f"http://127.0.0.1:{runners[0].addresses[0][1]}/mcp"
        world.issuer = f"http://127.0.0.1:{runners[1].addresses[0][1]}"
        yield world
    finally:
        for runner in runners:
            await runner.cleanup()
