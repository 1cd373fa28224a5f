"""The error hierarchy: stable categories, and the same error on the other side of the bus."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.wire import errors
from smcp_runtime.wire.codec import decode, encode
from smcp_runtime.wire.errors import Failure, SmcpError, from_failure, to_failure

CATEGORIES = [
    (errors.ConfigValidationError, "validation", False),
    (errors.MissingInputError, "missing_input", False),
    (errors.InvalidSelectionError, "invalid_selection", False),
    (errors.PolicyError, "policy", False),
    (errors.ConflictError, "conflict", False),
    (errors.AuthError, "auth", False),
    (errors.NetworkError, "network", True),
    (errors.ProtocolVersionError, "protocol_version", False),
    (errors.StartupError, "startup", False),
    (errors.PartialFailureError, "partial_failure", True),
    (errors.ShutdownError, "shutdown", True),
]


@pytest.mark.spec("R-ERR-1")
@pytest.mark.parametrize(("cls", "category", "retryable"), CATEGORIES)
def test_a_category_and_whether_it_may_be_retried_are_part_of_the_api(
    cls: type[SmcpError], category: str, retryable: bool
) -> None:
    error = cls("what happened")
    assert (error.category, error.retryable) == (category, retryable)
    assert error.retry_hint
    assert str(error) == "what happened"


EXAMPLES: list[SmcpError] = [
    *(cls("m") for cls, _, _ in CATEGORIES),
    errors.ConfigValidationError(
        "m", code="c", field="a.b", source="user", bundle_id="b", plugin_id="p", input_id="i", causes=("x", "y")
    ),
    errors.ConfigValidationError(
        "m", findings=[errors.Finding(field="a[0]", reason="expected a string", source="user")]
    ),
    errors.ConflictError("m", code="lock_timeout", retryable=True, retry_hint="wait", details={"k": [1, "x"]}),
    errors.ProtocolVersionError("m", client_version="0.3.0", min_supported="0.4.0"),
    errors.PartialFailureError("m", applied=("a",), failed=("b", "c")),
    errors.PeerError("m", payload={"code": 4014, "message": "m", "mcp_server": "git"}),
    errors.InvalidPayload("a.b", "string"),
    errors.InvalidPayload("a", "integer", "a is wrong", code="odd"),
    errors.MalformedReplyError("m", code="unsupported"),
    errors.Overloaded("m"),
    errors.DeadlineExceeded("m", details={"executed": "no"}),
]


def attributes(error: SmcpError) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(error).items()}


@pytest.mark.spec("R-ERR-1", "R-ERR-4")
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_on_the_other_side_of_the_bus(error: SmcpError) -> None:
    body, attachments = encode(to_failure(error))
    again = from_failure(decode(Failure, body, attachments))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert attributes(again) == attributes(error)


def test_a_foreign_exception_crosses_as_its_type_without_its_text() -> None:
    failure = to_failure(OSError("password hunter2"))
    again = from_failure(failure)
    assert isinstance(again, errors.HandlerFailed)
    assert "hunter2" not in f"{failure} {again} {vars(again)}"
    assert again.causes == ("OSError",)


def test_a_failure_of_a_class_nobody_knows_becomes_the_root() -> None:
    again = from_failure(Failure("FromTheFuture", "m", "c", retryable=True))
    assert type(again) is SmcpError
    assert (again.code, again.retryable) == ("c", True)


@pytest.mark.spec("R-ERR-4")
def test_version_fields_that_were_not_sent_are_none() -> None:
    error = errors.ProtocolVersionError("m", server_version="0.4.0")
    assert (error.client_version, error.server_version, error.max_supported) == (None, "0.4.0", None)


def test_findings_are_carried_by_a_validation_error() -> None:
    finding = errors.Finding(field="a", reason="expected a string")
    assert errors.ConfigValidationError("m", findings=[finding]).findings == (finding,)
