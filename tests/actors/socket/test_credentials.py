"""What may go into the handshake, and when it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.socket.credentials import Credentials
from smcp_runtime.wire.errors import ConfigValidationError, NetworkError, PolicyError

pytestmark = pytest.mark.anyio


@pytest.mark.spec("W-AUTH-8", "R-LIFE-13")
async def test_a_provider_is_asked_again_for_each_attempt() -> None:
    tokens = iter(["t1", "t2"])

    async def provider() -> dict[str, Any]:
        return {"token": next(tokens)}

    credentials = Credentials(provider)
    assert [await credentials(), await credentials()] == [{"token": "t1"}, {"token": "t2"}]


@pytest.mark.spec("R-LIFE-12", "R-INPUT-23")
async def test_a_provider_that_fails_is_no_defect_and_not_quoted() -> None:
    def sealed() -> dict[str, Any]:
        raise OSError("vault sealed, it held s3cret")

    with pytest.raises(NetworkError) as refused:
        await Credentials(sealed)()
    assert (refused.value.code, str(refused.value)) == ("no_credentials", "the credentials could not be had: OSError")


@pytest.mark.spec("W-AUTH-2")
@pytest.mark.parametrize("source", [None, {}, lambda: None])
async def test_nothing_to_send_is_an_empty_object(source: Any) -> None:
    assert await Credentials(source)() == {}


@pytest.mark.spec("R-LIFE-22", "W-AUTH-3")
@pytest.mark.parametrize(("payload", "field"), [({"role": "computer"}, "auth.role"), (["token"], "auth")])
async def test_a_role_and_anything_but_an_object_are_refused(payload: Any, field: str) -> None:
    with pytest.raises(ConfigValidationError) as refused:
        await Credentials(lambda: payload)()
    assert refused.value.field == field


@pytest.mark.spec("R-LIFE-22", "W-AUTH-9")
async def test_a_secret_of_a_server_is_refused_wherever_it_stands_and_never_quoted() -> None:
    credentials = Credentials({"deep": [{"token": "s3cret"}]}, secrets=lambda: {"s3cret"})
    with pytest.raises(PolicyError) as refused:
        await credentials()
    assert (refused.value.code, refused.value.field) == ("secret_in_auth", "auth.deep[0].token")
    assert "s3cret" not in str(refused.value) + str(refused.value.details)


@pytest.mark.spec("W-AUTH-9")
@pytest.mark.parametrize("value", ["s3cret", "Bearer s3cret", " s3cret"])
async def test_a_secret_of_a_server_is_refused_in_a_header_too(value: str) -> None:
    headers = {"x-tenant": "ours", "x-api-key": value}
    credentials = Credentials({"token": "mine"}, secrets=lambda: {"s3cret"}, headers=lambda: headers)
    with pytest.raises(PolicyError) as refused:
        await credentials()
    assert refused.value.code == "secret_in_auth"
    assert str(refused.value.field).startswith("headers.x-api-key")
    assert "s3cret" not in str(refused.value) + str(refused.value.details)
    headers["x-api-key"] = "our own key"
    assert await credentials() == {"token": "mine"}


@pytest.mark.spec("R-LIFE-22")
async def test_secrets_are_those_registered_at_the_time_of_the_attempt() -> None:
    registered: set[str] = set()
    credentials = Credentials({"token": "late"}, secrets=lambda: registered)
    assert await credentials() == {"token": "late"}
    registered.add("late")
    with pytest.raises(PolicyError):
        await credentials()
