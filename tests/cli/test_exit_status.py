"""Every error ends a command with a status that tells what kind of failure it was."""

from __future__ import annotations

import pytest

from smcp_runtime.cli.exit_status import FAILED, INTERNAL, USAGE, exit_status, root_error
from smcp_runtime.wire import errors


@pytest.mark.spec("R-CLI-1")
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NetworkError("no route"), USAGE),
        (errors.ProtocolVersionError("too old"), USAGE),
        (errors.ConfigValidationError("wrong shape"), FAILED),
        (errors.MissingInputError("no token"), FAILED),
        (errors.InvalidSelectionError("no such option"), FAILED),
        (errors.PolicyError("not allowed"), FAILED),
        (errors.ConflictError("taken"), FAILED),
        (errors.AuthError("refused"), FAILED),
        (errors.StartupError("no such command"), FAILED),
        (errors.PartialFailureError("one of two"), FAILED),
        (errors.ShutdownError("could not remove"), FAILED),
        (errors.PeerError("not found", payload={"code": 404, "message": "not found"}), FAILED),
        (KeyboardInterrupt(), FAILED),
        (BrokenPipeError(), FAILED),
        (errors.SmcpError("?"), INTERNAL),
        (errors.HandlerFailed("?"), INTERNAL),
        (RuntimeError("?"), INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_a_category_decides_the_status(error: BaseException, status: int) -> None:
    assert exit_status(error) == status


def test_the_error_that_says_what_happened_is_found_inside_nested_groups() -> None:
    refused = errors.AuthError("refused")
    group = ExceptionGroup("tasks", [RuntimeError("a"), ExceptionGroup("more", [refused])])
    assert root_error(group) is refused


def test_a_group_without_an_error_of_ours_stands_for_its_first() -> None:
    first = RuntimeError("a")
    assert root_error(ExceptionGroup("tasks", [ExceptionGroup("more", [first]), ValueError("b")])) is first
