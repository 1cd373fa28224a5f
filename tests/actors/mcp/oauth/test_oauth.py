"""Authorization at an HTTP server, against a real authorization server on a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from smcp_runtime.actors.mcp.failures import AuthorizationFailed, UpstreamFailed
from smcp_runtime.actors.mcp.oauth.credentials import authorizer, credentials_from
from smcp_runtime.actors.mcp.oauth.grant import Grant, key_of, renewal_form, renewed
from smcp_runtime.actors.mcp.oauth.loopback import Loopback
from smcp_runtime.actors.mcp.oauth.vault import Vault
from smcp_runtime.wire.errors import AuthError, NetworkError
from smcp_runtime.wire.messages.mcp import LaunchPlan, OAuthPlan
from support.authorization_server import World, protected

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


class Store(dict[str, str]):
    """A store in memory that can refuse."""

    refuses = False

    async def get(self, key: str) -> str | None:  # type: ignore[override]
        return super().get(key)

    async def put(self, key: str, secret: str) -> bool:
        if self.refuses:
            return False
        self[key] = secret
        return True

    async def remove(self, key: str) -> bool:
        return self.pop(key, None) is not None


class Register:
    def __init__(self) -> None:
        self.secrets: dict[str, frozenset[str]] = {}

    def use(self, owner: str, secrets: Collection[str]) -> None:
        self.secrets[owner] = frozenset(secrets)


class Client:
    """A Computer's side of one server."""

    def __init__(self, world: World, **oauth: Any) -> None:
        self.world = world
        self.plan = LaunchPlan("web", "web", "streamable", url=world.url, oauth=OAuthPlan(**oauth) if oauth else None)
        self.store, self.register = Store(), Register()
        self.restart()

    def restart(self) -> None:
        """Forgets what is only in memory."""
        self.vault = Vault(self.store, self.register)
        auth = credentials_from(self.vault)(self.plan)
        assert auth is not None
        self.auth = auth

    async def authorize(self) -> None:
        with anyio.fail_after(10):
            await authorizer(self.vault, self.world.browse)(self.plan)

    async def status(self) -> int:
        async with httpx2.AsyncClient(auth=self.auth) as client:
            return (await client.post(self.plan.url, content=CALL)).status_code

    @property
    async def grant(self) -> Grant | None:
        return await self.vault.load(key_of(self.plan))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with protected() as made:
        yield made


class TestPerson:
    @spec("R-MCP-25", "W-UP-4")
    async def test_before_anybody_granted_anything_the_server_says_so_itself(self, world: World) -> None:
        client = Client(world)
        assert await client.status() == 401
        assert (world.pages, world.clients, world.asked) == ([], {}, [])

    @spec("R-MCP-25")
    async def test_a_person_grants_in_a_browser_and_the_token_is_used_from_then_on(self, world: World) -> None:
        client = Client(world, client_name="my computer", scopes=("read",))
        await client.authorize()
        assert await client.status() == 200
        (page,) = world.pages
        assert page["redirect_uri"].startswith("http://127.0.0.1:")
        assert (page["code_challenge_method"], page["resource"]) == ("S256", world.url)
        client.restart()
        assert await client.status() == 200
        assert len(world.pages) == 1

    @spec("R-MCP-25", "R-SEC-1")
    async def test_tokens_are_kept_in_the_store_and_registered_as_secrets(self, world: World) -> None:
        client = Client(world)
        await client.authorize()
        ((key, text),) = client.store.items()
        assert key.startswith("oauth/web/")
        grant = await client.grant
        assert grant is not None
        assert client.register.secrets[key] == {grant.access_token, grant.refresh_token}
        assert grant.access_token in text
        assert grant.access_token not in repr(grant)

    async def test_what_the_store_cannot_keep_lives_for_this_run(self, world: World) -> None:
        client = Client(world)
        client.store.refuses = True
        await client.authorize()
        assert await client.status() == 200
        client.restart()
        assert await client.status() == 401

    async def test_a_person_who_refuses_grants_nothing(self, world: World) -> None:
        client = Client(world)
        world.says_no = True
        with pytest.raises(AuthError) as caught:
            await client.authorize()
        assert (caught.value.code, caught.value.bundle_id) == ("not_granted", "web")
        assert await client.grant is None

    async def test_a_registration_made_beforehand_is_used(self, world: World) -> None:
        world.clients["mine"] = "sk-client"
        client = Client(world, client_id="mine", client_secret="sk-client")
        await client.authorize()
        assert world.pages[0]["client_id"] == "mine"
        assert list(world.clients) == ["mine"]

    async def test_a_server_that_calls_itself_another_resource_is_refused(self, world: World) -> None:
        client = Client(world, resource="https://elsewhere/mcp")
        with pytest.raises(AuthError):
            await client.authorize()
        assert world.pages == []

    async def test_an_authorization_server_that_is_not_there_is_a_network_failure(self, world: World) -> None:
        client = Client(world)
        client.plan = msgspec.structs.replace(client.plan, url="http://127.0.0.1:1/mcp")
        with pytest.raises(NetworkError):
            await client.authorize()


class TestUse:
    async def test_a_token_near_its_end_is_renewed_first_and_kept(self, world: World) -> None:
        world.lifetime = 10.0  # within the leeway
        client = Client(world)
        await client.authorize()
        first = await client.grant
        world.lifetime = 3600.0
        assert await client.status() == 200
        second = await client.grant
        assert first is not None
        assert second is not None
        assert second.access_token != first.access_token
        assert world.asked[-1]["grant_type"] == "refresh_token"
        client.restart()
        assert await client.status() == 200
        assert len(world.asked) == 2

    async def test_a_token_that_is_refused_is_renewed_once_and_the_request_repeated(self, world: World) -> None:
        client = Client(world)
        await client.authorize()
        world.tokens.clear()
        assert await client.status() == 200
        assert [form["grant_type"] for form in world.asked] == ["authorization_code", "refresh_token"]

    async def test_many_requests_renew_a_token_once(self, world: World) -> None:
        world.lifetime = 10.0
        client = Client(world)
        await client.authorize()
        world.lifetime = 3600.0
        answers = await asyncio.gather(*(client.status() for _ in range(10)))
        assert set(answers) == {200}
        assert len(world.asked) == 2

    @spec("R-MCP-25", "W-UP-4")
    async def test_what_was_revoked_is_lost_until_somebody_grants_anew(self, world: World) -> None:
        client = Client(world)
        await client.authorize()
        world.revoke()
        for _ in range(2):
            with pytest.raises(AuthorizationFailed) as caught:
                await client.status()
            assert caught.value.code == 4007
        asked = len(world.asked)
        client.restart()
        with pytest.raises(AuthorizationFailed) as after:
            await client.status()
        assert (after.value.code, len(world.asked)) == (4007, asked)
        await client.authorize()
        assert await client.status() == 200

    async def test_an_authorization_server_in_trouble_loses_nothing(self, world: World) -> None:
        world.lifetime = 10.0
        client = Client(world)
        await client.authorize()
        world.broken = 503
        with pytest.raises(UpstreamFailed, match="HTTP 503"):
            await client.status()
        world.broken, world.lifetime = None, 3600.0
        assert await client.status() == 200

    @spec("R-MCP-25")
    async def test_an_older_transport_has_no_authorization_of_its_own(self, world: World) -> None:
        plan = LaunchPlan("web", "web", "sse", url=world.url)
        assert credentials_from(Vault(Store(), Register()))(plan) is None


class TestMachine:
    MACHINE = {"grant": "client_credentials", "client_id": "robot", "client_secret": "sk-robot"}

    async def test_a_client_with_its_own_credentials_asks_nobody(self, world: World) -> None:
        world.clients["robot"] = "sk-robot"
        client = Client(world, **self.MACHINE)
        assert await client.status() == 200
        assert world.pages == []
        assert [form["grant_type"] for form in world.asked] == ["client_credentials"]

    async def test_its_token_is_got_anew_when_it_is_refused(self, world: World) -> None:
        world.clients["robot"] = "sk-robot"
        client = Client(world, **self.MACHINE)
        await client.status()
        world.revoke()
        assert await client.status() == 200

    async def test_credentials_that_are_refused_are_an_authorization_failure(self, world: World) -> None:
        client = Client(world, **self.MACHINE)
        with pytest.raises(AuthorizationFailed) as caught:
            await client.status()
        assert caught.value.code == 4006
        assert "sk-robot" not in str(caught.value)


def key_pair(kind: str) -> tuple[str, str]:
    """A new private key and its public half, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ES256" else rsa.generate_private_key(65_537, 2_048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


class TestSigning:
    """A client that signs what it says of itself, in place of a secret (RFC 7523)."""

    def client(self, world: World, key: str, algorithm: str = "ES256") -> Client:
        return Client(
            world,
            grant="client_credentials",
            client_id="robot",
            private_key=key,
            signing_algorithm=algorithm,
            issuer=world.issuer,
        )

    @spec("R-MCP-25")
    @pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
    async def test_it_is_granted_a_token_and_again_when_that_is_revoked(self, world: World, algorithm: str) -> None:
        private, world.keys["robot"] = key_pair(algorithm)
        client = self.client(world, private, algorithm)
        assert await client.status() == 200
        world.revoke()
        assert await client.status() == 200
        assert (world.pages, len(world.asked)) == ([], 2)
        first, second = (form["client_assertion"] for form in world.asked)
        assert first != second
        assert not any(private in str(part) for part in (world.asked, client.store))

    async def test_a_key_on_one_line_is_the_same_key(self, world: World) -> None:
        private, world.keys["robot"] = key_pair("ES256")
        assert await self.client(world, private.replace("\n", "\\n")).status() == 200

    @pytest.mark.parametrize(("key", "algorithm"), [("no key at all", "ES256"), ("", "RS256"), (None, "RS256")])
    async def test_a_key_that_cannot_sign_is_an_authorization_failure_that_says_so(
        self, world: World, key: str | None, algorithm: str
    ) -> None:
        private, world.keys["robot"] = key_pair("ES256")
        client = self.client(world, private if key is None else key, algorithm)
        with pytest.raises(AuthorizationFailed, match=f"the private key of web cannot sign by {algorithm}") as caught:
            await client.status()
        assert caught.value.code == 4006
        assert world.asked == []

    async def test_one_that_somebody_else_signed_for_is_refused(self, world: World) -> None:
        private, _ = key_pair("ES256")
        _, world.keys["robot"] = key_pair("ES256")
        with pytest.raises(AuthorizationFailed, match="refused"):
            await self.client(world, private).status()

    async def test_it_says_nothing_to_another_authorization_server_than_its_own(self, world: World) -> None:
        private, world.keys["robot"] = key_pair("ES256")
        client = self.client(world, private)
        assert client.plan.oauth is not None
        elsewhere = msgspec.structs.replace(client.plan.oauth, issuer="https://another.example")
        client.plan = msgspec.structs.replace(client.plan, oauth=elsewhere)
        client.restart()
        with pytest.raises(AuthorizationFailed):
            await client.status()
        assert world.asked == []


class TestLoopback:
    async def ask(self, loopback: Loopback, target: str, method: str = "GET") -> str:
        port = int(loopback.redirect_uri.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.decode()

    async def test_only_the_answer_it_waits_for_counts_and_only_once(self) -> None:
        async with Loopback() as loopback:
            assert "404" in await self.ask(loopback, "/favicon.ico")
            assert "404" in await self.ask(loopback, "/callback")
            assert "404" in await self.ask(loopback, "/callback?code=x", method="POST")
            assert "200" in await self.ask(loopback, "/callback?code=first&state=s&iss=i")
            assert "200" in await self.ask(loopback, "/callback?code=second&state=s")
            with anyio.fail_after(5):
                returned = await loopback.returned()
        assert (returned.code, returned.state, returned.issuer) == ("first", "s", "i")
        assert "first" not in repr(returned)

    async def test_a_page_that_talks_nonsense_does_no_harm(self) -> None:
        async with Loopback() as loopback:
            assert "404" in await self.ask(loopback, "\x00nonsense")
            assert "<script>" not in await self.ask(loopback, "/callback?error=<script>")


class TestGrant:
    @pytest.mark.parametrize(
        ("grant", "now", "fresh"),
        [
            (Grant("t"), 1e9, True),
            (Grant("t", expires_at=100.0), 69.0, True),
            (Grant("t", expires_at=100.0), 70.0, False),
            (Grant("t", is_lost=True), 0.0, False),
            (Grant(), 0.0, False),
        ],
    )
    def test_a_token_is_fresh_until_shortly_before_its_end(self, grant: Grant, now: float, fresh: bool) -> None:
        assert grant.is_fresh(now) is fresh

    @pytest.mark.parametrize("method", [None, "client_secret_basic"])
    def test_a_secret_is_sent_as_a_password_and_else_in_the_form(self, method: str | None) -> None:
        grant = Grant("t", "r", client_id="c", client_secret="s", auth_method=method, resource="https://h/mcp")
        form = {"grant_type": "refresh_token", "refresh_token": "r", "resource": "https://h/mcp"}
        assert renewal_form(grant) == (form, ("c", "s"))
        posted = msgspec.structs.replace(grant, auth_method="client_secret_post")
        assert renewal_form(posted) == ({**form, "client_id": "c", "client_secret": "s"}, None)
        public = msgspec.structs.replace(grant, client_secret=None, auth_method="none")
        assert renewal_form(public) == ({**form, "client_id": "c"}, None)

    @pytest.mark.parametrize("answer", [None, [], {}, {"access_token": 5}, {"error": "invalid_grant"}])
    def test_an_answer_without_a_token_renews_nothing(self, answer: object) -> None:
        assert renewed(Grant("old"), answer, 0.0) is None

    def test_what_a_renewal_does_not_say_stays(self) -> None:
        grant = Grant("old", "refresh", 50.0, "read", "https://h/token", "c")
        assert renewed(grant, {"access_token": "new", "expires_in": True}, 100.0) == msgspec.structs.replace(
            grant, access_token="new", expires_at=None
        )
