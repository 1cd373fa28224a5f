"""What a link says to the Server about an office: that it comes, and that it goes.

Stateless. The answers are read by the rules of `wire.rejoin`.
"""

from __future__ import annotations

import msgspec

from ...wire import rejoin
from ...wire.base import to_json
from ...wire.errors import SmcpError
from ...wire.events import SERVER_JOIN_OFFICE, SERVER_LEAVE_OFFICE
from ...wire.protocol import AGENT_ACK_WAIT
from ...wire.rooms import EnterOfficeReq, LeaveOfficeReq
from .connection import Connection

_NOT_JOINED = 4103


async def ask_to_join(connection: Connection, wish: EnterOfficeReq) -> SmcpError | None:
    """Asks once; `None` when the Server let us in, else why not, or why nobody knows."""
    try:
        values = await connection.call(SERVER_JOIN_OFFICE, to_json(wish), AGENT_ACK_WAIT)
    except TimeoutError:
        return rejoin.unanswered(AGENT_ACK_WAIT)
    except SmcpError as error:
        return error
    return rejoin.refused(_plain(values))


async def tell_of_leaving(connection: Connection, office_id: str, limit: float = AGENT_ACK_WAIT) -> None:
    """Leaves an office; not to be in it is success.

    Raises:
        NetworkError: No answer within `limit` seconds.
        ConflictError, PolicyError, MalformedReplyError: See `rejoin.refused`.
    """
    try:
        values = await connection.call(SERVER_LEAVE_OFFICE, to_json(LeaveOfficeReq(office_id=office_id)), limit)
    except TimeoutError:
        raise rejoin.unanswered(limit) from None
    refusal = rejoin.refused(_plain(values))
    if refusal is not None and refusal.details.get("code") != _NOT_JOINED:
        raise refusal


def _plain(values: list[msgspec.Raw]) -> list[object]:
    return [msgspec.json.decode(value) for value in values]
