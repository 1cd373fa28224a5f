"""The bus over ZeroMQ: a hub in the main process, a node in each worker."""

from .customs import Customs
from .hub import ZmqHub
from .keys import AllowList, KeyPair, NodeKeys, generate, load, load_node, load_public
from .node import ZmqNode
from .pulse import Pulse
from .session import DISCONNECTED, NodeStatus

__all__ = [
    "DISCONNECTED",
    "AllowList",
    "Customs",
    "KeyPair",
    "NodeKeys",
    "NodeStatus",
    "Pulse",
    "ZmqHub",
    "ZmqNode",
    "generate",
    "load",
    "load_node",
    "load_public",
]
