"""The actor kernel: actors with typed handlers, their runner, and the supervisor that keeps them."""

from .actor import Actor, Tasks
from .declare import handler, handler_table, observer
from .incarnation import Incarnation, Perished
from .restart import RestartPolicy
from .supervisor import ChildLoad, ChildSpec, ChildStatus, Supervisor

__all__ = [
    "Actor",
    "ChildLoad",
    "ChildSpec",
    "ChildStatus",
    "Incarnation",
    "Perished",
    "RestartPolicy",
    "Supervisor",
    "Tasks",
    "handler",
    "handler_table",
    "observer",
]
