"""Errors: one hierarchy with category, code, retryability and place, and never a secret (03 §10).

Categories are API (R-ERR-1); codes may be added. `Failure` is the form in which an
error crosses the bus; `ask` re-raises it as the class of its category.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from .message import Record


class SmcpError(Exception):
    """Root of every error this package raises.

    Attributes:
        category: Stable class of the error, the same string for every instance of a subclass.
        code: Stable sub-code.
        message: What happened, for people.
        field: Dotted path of the offending value, or `None`.
        source: Label of the scope or file it came from, or `None`.
        bundle_id: MCP server concerned, or `None`.
        plugin_id: Plugin concerned, or `None`.
        input_id: Input concerned, or `None`.
        retryable: Whether the same request may succeed later.
        retry_hint: What would make it succeed.
        details: Redacted diagnostics.
        causes: Redacted one-line summaries of underlying errors, outermost first.
    Spec: R-ERR-1, 03 §10.
    """

    category: ClassVar[str] = "internal"
    default_code: ClassVar[str] = "internal"
    default_retryable: ClassVar[bool] = False
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        source: str | None = None,
        bundle_id: str | None = None,
        plugin_id: str | None = None,
        input_id: str | None = None,
        retryable: bool | None = None,
        retry_hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        causes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.field = field
        self.source = source
        self.bundle_id = bundle_id
        self.plugin_id = plugin_id
        self.input_id = input_id
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_hint = self.default_hint if retry_hint is None else retry_hint
        self.details = dict(details or {})
        self.causes = tuple(causes)

    def redact(self, text: Callable[[str], str], tree: Callable[[Any], Any]) -> None:
        """Takes secrets out of everything it says, and cuts off what it was raised from if that holds any.

        Args:
            text, tree: Give a text, or a JSON-like value, without secrets.
        """
        self.message = text(self.message)
        self.args = tuple(tree(argument) if isinstance(argument, str) else argument for argument in self.args)
        self.details, self.causes = tree(self.details), tuple(map(text, self.causes))
        for inner in (self.__cause__, self.__context__):
            if inner is not None and text(repr(inner)) != repr(inner):
                self.__cause__ = self.__context__ = None


class ConfigValidationError(SmcpError):
    """A declaration has the wrong shape; `findings` lists every fault of the same pass (R-CFG-2)."""

    category = "validation"
    default_code = "invalid"
    default_hint = "fix the declaration"

    def __init__(self, message: str, *, findings: Sequence[Finding] = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.findings = tuple(findings)


class Finding(Record):
    """One fault found in a declaration: where, of what category, and what was expected. Holds no values (R-CFG-3)."""

    field: str
    reason: str
    category: str = "validation"
    code: str = "invalid"
    source: str | None = None


class InvalidPayload(SmcpError):
    """A payload does not fit its structure. Names the place and the expected type, never the value found (C-GEN-5).

    Attributes:
        expected: Short name of the type that belongs at `field`; also in `details`.
    """

    category = "validation"
    default_code = "invalid_payload"
    default_hint = "fix the request"

    def __init__(self, field: str, expected: str, message: str | None = None, **facts: Any) -> None:
        details = {"field": field, "expected": expected, **(facts.pop("details", None) or {})}
        super().__init__(message or f"{field}: expected {expected}", field=field, details=details, **facts)

    @property
    def expected(self) -> str:
        return str(self.details["expected"])


class MissingInputError(SmcpError):
    """An input could not be resolved from any source."""

    category = "missing_input"
    default_code = "missing_input"
    default_hint = "supply the value, then start again"


class InvalidSelectionError(SmcpError):
    """A stored value matches no option of its input."""

    category = "invalid_selection"
    default_code = "invalid_selection"
    default_hint = "choose a legal option"


class PolicyError(SmcpError):
    """A rule above the caller forbids this."""

    category = "policy"
    default_code = "policy"
    default_hint = "change policy"


class ConflictError(SmcpError):
    """Two things claim the same place: an identity, a name, a file, or a lifecycle phase."""

    category = "conflict"
    default_code = "conflict"
    default_hint = "resolve, then retry"


class AuthError(SmcpError):
    """Credentials were refused or are missing."""

    category = "auth"
    default_code = "auth"
    default_hint = "finish the authorization"


class NetworkError(SmcpError):
    """The peer cannot be reached or was lost."""

    category = "network"
    default_code = "network"
    default_retryable = True
    default_hint = "retry"


class ProtocolVersionError(SmcpError):
    """The Server refused our protocol version (4008 or 4900). Version fields may be `None` (R-ERR-4)."""

    category = "protocol_version"
    default_code = "protocol_version"
    default_hint = "change a version"

    def __init__(
        self,
        message: str,
        *,
        client_version: str | None = None,
        server_version: str | None = None,
        min_supported: str | None = None,
        max_supported: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.client_version = client_version
        self.server_version = server_version
        self.min_supported = min_supported
        self.max_supported = max_supported


class StartupError(SmcpError):
    """Something could not be launched or initialised."""

    category = "startup"
    default_code = "startup"
    default_hint = "inspect the diagnostics"


class PartialFailureError(SmcpError):
    """Some items were applied, some were not."""

    category = "partial_failure"
    default_code = "partial_failure"
    default_retryable = True
    default_hint = "retry the failed items"

    def __init__(self, message: str, *, applied: Sequence[str] = (), failed: Sequence[str] = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.applied = tuple(applied)
        self.failed = tuple(failed)


class ShutdownError(SmcpError):
    """Cleaning up failed in places; everything was attempted all the same."""

    category = "shutdown"
    default_code = "shutdown"
    default_retryable = True
    default_hint = "retry or force"


class PeerError(SmcpError):
    """A protocol peer answered with a flat ErrorPayload, kept in `payload` (W-ERR-3)."""

    category = "peer"
    default_code = "peer_error"

    def __init__(self, message: str, *, payload: Mapping[str, Any], **facts: Any) -> None:
        super().__init__(message, **facts)
        self.payload = dict(payload)

    @property
    def wire_code(self) -> int:
        """The numeric code of the payload."""
        return int(self.payload["code"])


class MalformedReplyError(SmcpError):
    """A peer's reply is neither a valid result nor an ErrorPayload (W-ERR-5)."""

    category = "peer"
    default_code = "malformed_reply"


class BusError(SmcpError):
    """Root of what can end an ask or a tell without the handler's own answer."""

    category = "bus"
    default_code = "bus"


class Undeliverable(BusError):
    """Nobody owns the address. The message was not executed."""

    default_code = "undeliverable"


class Overloaded(BusError):
    """The mailbox stayed full until the deadline, or its waiting line is full. Not executed; safe to retry."""

    default_code = "overloaded"
    default_retryable = True


class DeadlineExceeded(BusError):
    """The ask's deadline passed. `details["executed"]` is `"no"` while it was queued, else `"unknown"`."""

    default_code = "deadline"


class ActorLost(BusError):
    """The actor went down first. `details["executed"]` is `"no"` for a queued message, `"unknown"` for one in work."""

    default_code = "actor_down"
    default_retryable = True


class AskCycle(BusError):
    """Waiting for this reply would close a circle of actors that wait for each other."""

    default_code = "ask_cycle"


class BusClosed(BusError):
    """This bus is closing or closed; nothing is accepted any more."""

    default_code = "bus_closed"


class NodeRefused(BusError):
    """The hub does not take this node in; `code` is `key`, `name`, `name_taken`, `schema`, `protocol`, `full`."""

    default_code = "node_refused"


class HandlerFailed(BusError):
    """The handler raised something that is not an `SmcpError`."""

    default_code = "handler_failed"


class Failure(Record):
    """An error as it crosses the bus: the class by name, and the public attributes."""

    kind: str
    message: str
    code: str
    retryable: bool = False
    retry_hint: str | None = None
    field: str | None = None
    source: str | None = None
    bundle_id: str | None = None
    plugin_id: str | None = None
    input_id: str | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    causes: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


_PLACE = ("field", "source", "bundle_id", "plugin_id", "input_id")
_EXTRA: dict[str, tuple[str, ...]] = {
    "ProtocolVersionError": ("client_version", "server_version", "min_supported", "max_supported"),
    "PartialFailureError": ("applied", "failed"),
    "PeerError": ("payload",),
}


def to_failure(error: BaseException) -> Failure:
    """The bus form of an error. What is not an `SmcpError` keeps only its type's name: its text may hold a secret."""
    if not isinstance(error, SmcpError):
        name = type(error).__name__
        return Failure("HandlerFailed", f"handler failed with {name}", "handler_failed", causes=(name,))
    kind = type(error).__name__
    extra = {name: getattr(error, name) for name in _EXTRA.get(kind, ())}
    if isinstance(error, ConfigValidationError):
        extra["findings"] = [msgspec.structs.asdict(finding) for finding in error.findings]
    return Failure(
        kind,
        error.message,
        error.code,
        retryable=error.retryable,
        retry_hint=error.retry_hint,
        details=error.details,
        causes=error.causes,
        extra=extra,
        **{name: getattr(error, name) for name in _PLACE},
    )


def from_failure(failure: Failure) -> SmcpError:
    """The exception of a failure; an unknown kind becomes the root class."""
    cls = _classes().get(failure.kind, SmcpError)
    if cls is InvalidPayload:
        expected = str(failure.details.get("expected", ""))
        return InvalidPayload(failure.field or "$", expected, failure.message, code=failure.code)
    extra = dict(failure.extra)
    if "findings" in extra:
        extra["findings"] = [Finding(**finding) for finding in extra["findings"]]
    return cls(
        failure.message,
        code=failure.code,
        retryable=failure.retryable,
        retry_hint=failure.retry_hint,
        details=failure.details,
        causes=failure.causes,
        **{name: getattr(failure, name) for name in _PLACE},
        **extra,
    )


def error_like(category: str, message: str, code: str) -> SmcpError:
    """An error of a category, of the root class when it is none of 03 §10."""
    return _BY_CATEGORY.get(category, SmcpError)(message, code=code)


_CONTRACT = (ConfigValidationError, MissingInputError, InvalidSelectionError, PolicyError, ConflictError, AuthError)
_WORLD = (NetworkError, ProtocolVersionError, StartupError, PartialFailureError, ShutdownError)
_BY_CATEGORY: dict[str, type[SmcpError]] = {cls.category: cls for cls in (*_CONTRACT, *_WORLD)}


def _classes() -> dict[str, type[SmcpError]]:
    found: dict[str, type[SmcpError]] = {}
    pending: list[type[SmcpError]] = [SmcpError]
    while pending:
        cls = pending.pop()
        found[cls.__name__] = cls
        pending.extend(cls.__subclasses__())
    return found
