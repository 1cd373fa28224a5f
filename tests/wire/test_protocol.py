"""The constants of Appendix A, and how the limits nest."""

from __future__ import annotations

import pytest

from smcp_runtime.wire import protocol


@pytest.mark.spec("W-HS-1", "W-ARCH-3", "W-HS-3", "W-AUTH-1", "W-HS-25")
def test_names_are_those_of_the_protocol() -> None:
    assert protocol.PROTOCOL_VERSION == "0.4.0"
    assert (protocol.NAMESPACE, protocol.SOCKETIO_PATH) == ("/smcp", "/socket.io")
    assert protocol.DEFAULT_TRANSPORTS == ("polling", "websocket")
    assert (protocol.DEFAULT_AUTH_FIELD, protocol.DEFAULT_AUTH_HEADER) == ("token", "x-api-key")
    assert protocol.VERSION_REFUSED_CLOSE_CODE == 4900
    assert (protocol.FALLBACK_ID_PREFIX, protocol.NAME_SEPARATOR) == ("bundle_", "__")
    assert (protocol.ENV_PREFIX, protocol.CANCEL_REASON) == ("A2C_SMCP_", "agent_requested")


@pytest.mark.spec("C-DEF-1")
@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("ACK_BUDGET", 900_000, marks=pytest.mark.spec("D-1", "C-GEN-7")),
        pytest.param("PACKET_LIMIT", 1_000_000, marks=pytest.mark.spec("W-GEN-7")),
        pytest.param("INLINE_BUDGET", 32 * 1024, marks=pytest.mark.spec("D-10")),
        pytest.param("ABSOLUTE_CAP", 100 * 1024 * 1024, marks=pytest.mark.spec("D-11")),
        pytest.param("CHUNK_MAX", 256 * 1024, marks=pytest.mark.spec("D-12")),
        pytest.param("CHUNK_CEILING", 640 * 1024, marks=pytest.mark.spec("D-24")),
        pytest.param("UPLOAD_IDLE_TIMEOUT", 120, marks=pytest.mark.spec("D-33")),
        pytest.param("UPLOAD_CONCURRENT_MAX", 4, marks=pytest.mark.spec("D-34")),
        pytest.param("AGENT_ACK_WAIT", 30, marks=pytest.mark.spec("D-39", "W-EVT-4")),
        pytest.param("FINDER_PAGE", 20, marks=pytest.mark.spec("D-40")),
        pytest.param("FINDER_PAGE_MAX", 100, marks=pytest.mark.spec("D-41")),
        pytest.param("DPE_TIMEOUT", 60, marks=pytest.mark.spec("D-42")),
        pytest.param("DPE_TIMEOUT_MAX", 300, marks=pytest.mark.spec("D-43")),
        pytest.param("NAME_HINT_MAX", 64, marks=pytest.mark.spec("D-45")),
        ("SERVER_ACK_LIMIT", 60),
        ("IDENTIFIER_MAX", 256),
        ("PENDING_CALLS_MAX", 1024),
        ("RETRY_ATTEMPTS_MAX", 3),
    ],
)
def test_default_numbers_are_those_of_the_tables(name: str, number: float) -> None:
    assert getattr(protocol, name) == number


@pytest.mark.spec("W-CALL-10", "W-CALL-11", "DEC-20")
def test_the_limits_of_a_tool_call_nest() -> None:
    assert 0 < protocol.AGENT_TOOL_MARGIN < protocol.SERVER_TOOL_MARGIN
    assert (protocol.AGENT_TOOL_MARGIN, protocol.SERVER_TOOL_MARGIN) == (2, 5)
    assert (protocol.TOOL_TIMEOUT_MIN, protocol.TOOL_TIMEOUT_SUGGESTED_MAX, protocol.TOOL_TIMEOUT_MAX) == (1, 300, 3600)


@pytest.mark.spec("C-GEN-7", "C-BLOB-13")
def test_a_chunk_at_its_ceiling_still_fits_the_ack_budget() -> None:
    base64 = 4 * -(-protocol.CHUNK_CEILING // 3)
    assert base64 + 4096 <= protocol.ACK_BUDGET <= protocol.PACKET_LIMIT * 9 // 10
