"""The Socket.IO side of Agent and Computer: one connection to a Server that heals, and the office wished for.

`SmcpLink` is the API::

    link = SmcpLink(LinkOptions(url="http://127.0.0.1:8000", auth=...), on_event=..., on_change=...)
    await link.connect()                                  # one attempt; typed errors; afterwards it heals by itself
    await link.join("computer", name, office)             # typed errors; afterwards re-joined after every reconnect
    values = await link.call(event, json_bytes, timeout=30.0)   # list of msgspec.Raw: [] is A0, one A1, two A2
    await link.emit(event, json_bytes)                    # fire and forget
    await link.leave()
    await link.disconnect()                               # flushes, bounded; nothing acts afterwards

`on_event(event, data, reply)` is a plain function called in order of arrival: `data` is the
first argument as `msgspec.Raw` (or `None`), `reply` is `None` when nobody waits, otherwise
`await reply.send(json_bytes)` acknowledges, `await reply.send()` is the A0 form, and it answers
`False` once that connection has gone. `on_change(change)` hears every change of state.
`call` and `emit` are refused locally (`NetworkError`, `details["executed"] == "no"`) unless
the office is joined, so nothing leaves between a reconnect and the confirmed room (F-78).
"""

from .change import ChangeHandler, LinkChange, LinkState
from .connection import Connection, EventHandler, Reply, RequestTooLarge
from .link import SmcpLink
from .options import AuthPayload, AuthSource, LinkOptions

__all__ = [
    "AuthPayload",
    "AuthSource",
    "ChangeHandler",
    "Connection",
    "EventHandler",
    "LinkChange",
    "LinkOptions",
    "LinkState",
    "Reply",
    "RequestTooLarge",
    "SmcpLink",
]
