"""While a Computer runs, no record of this process holds a secret in use, whoever made it and whoever reads it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from smcp_runtime.actors.computer.log_guard import PACKAGE, UNREADABLE, guarded
from smcp_runtime.wire.protocol import REDACTED
from smcp_runtime.wire.redaction import SecretRegistry

spec = pytest.mark.spec
SECRET = "sk-canary-1"


class Capture(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def capture() -> Iterator[Capture]:
    handler, root = Capture(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def registry() -> SecretRegistry:
    made = SecretRegistry()
    made.use("a", [SECRET])
    return made


@spec("R-INPUT-23")
@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (f"plain {SECRET}", ()),
        ("argument %s", (SECRET,)),
        ("mapping %(token)s", ({"token": SECRET},)),
        ("inside %r", ({"headers": [SECRET]},)),
    ],
)
def test_a_record_of_any_library_is_clean_before_a_handler_sees_it(
    capture: Capture, registry: SecretRegistry, message: str, arguments: tuple[Any, ...]
) -> None:
    with guarded(registry):
        logging.getLogger("some.library").info(message, *arguments)
    assert len(capture.lines) == 1
    assert SECRET not in capture.lines[0]
    assert REDACTED in capture.lines[0]


@spec("R-INPUT-23")
def test_a_traceback_is_clean_and_still_there(capture: Capture, registry: SecretRegistry) -> None:
    with guarded(registry):
        try:
            raise ValueError(f"bad token {SECRET}")
        except ValueError:
            logging.getLogger("x").exception("it failed")
    assert SECRET not in capture.lines[0]
    assert f"ValueError: bad token {REDACTED}" in capture.lines[0]


def test_a_record_that_cannot_be_formatted_does_not_spill_its_arguments(
    capture: Capture, registry: SecretRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    with guarded(registry):
        logging.getLogger("x").info("one %s", SECRET, SECRET)  # noqa: PLE1205 - as it is meant
    assert capture.lines == [f"x {UNREADABLE}"]
    assert SECRET not in "".join(capsys.readouterr())


def test_records_without_secrets_are_left_as_they_are(capture: Capture, registry: SecretRegistry) -> None:
    with guarded(registry):
        logging.getLogger("x").info("n=%d", 7)
    assert capture.lines == ["x n=7"]


def test_two_computers_end_in_any_order_and_leave_logging_as_it_was(capture: Capture) -> None:
    before = logging.getLogRecordFactory()
    first, second = SecretRegistry(), SecretRegistry()
    first.use("a", ["secret-one"])
    second.use("a", ["secret-two"])
    one, two = guarded(first), guarded(second)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    logging.getLogger("x").info("secret-one secret-two")
    two.__exit__(None, None, None)
    assert capture.lines == [f"x secret-one {REDACTED}"]
    assert logging.getLogRecordFactory() is before


def test_a_factory_put_over_ours_goes_on_working(capture: Capture, registry: SecretRegistry) -> None:
    before = logging.getLogRecordFactory()
    try:
        with guarded(registry):
            ours = logging.getLogRecordFactory()

            def over_ours(*args: Any, **kwargs: Any) -> logging.LogRecord:
                return ours(*args, **kwargs)

            logging.setLogRecordFactory(over_ours)
        logging.getLogger("x").info("after %s", SECRET)
        with guarded(registry):
            logging.getLogger("x").info("again %s", SECRET)
        assert capture.lines == [f"x after {SECRET}", f"x again {REDACTED}"]
    finally:
        logging.setLogRecordFactory(ours)
        with guarded(registry):
            pass
        assert logging.getLogRecordFactory() is before


@spec("R-INPUT-23")
def test_the_applications_hook_gets_clean_records_of_this_package_alone(registry: SecretRegistry) -> None:
    got: list[Mapping[str, Any]] = []

    def hook(record: Mapping[str, Any]) -> None:
        got.append(record)
        logging.getLogger(f"{PACKAGE}.again").warning("the hook logs too")

    logger = logging.getLogger(f"{PACKAGE}.actors.x")
    with guarded(registry, hook):
        logger.warning("token %s", SECRET)
        logging.getLogger("other").warning("not ours")
    logger.warning("after the end")
    assert [(record["level"], record["logger"], record["message"]) for record in got] == [
        ("WARNING", f"{PACKAGE}.actors.x", f"token {REDACTED}")
    ]
