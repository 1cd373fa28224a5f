"""The hook `management_authorization`: an embedding application may forbid any operation that changes something.

It can only make things stricter (03 §2.3): whatever it answers but `False` lets an operation
go its way, and an operation it cannot judge does not happen (R-MGMT-1).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...wire.errors import PolicyError
from ...wire.message import Message
from ...wire.messages.management import (
    AnswerApproval,
    AuthorizeServer,
    ChangeSettings,
    ClearInputs,
    DeclareServer,
    DefineInput,
    ReloadFiles,
    SetInput,
    UndefineInput,
    UnsetInput,
)
from ...wire.messages.plugins import (
    AddMarketplace,
    CollectPlugins,
    DisablePlugin,
    EnablePlugin,
    InstallPlugin,
    PruneMarketplaces,
    RefreshMarketplaces,
    RemoveMarketplace,
    SetMarketplace,
    UninstallPlugin,
)
from ...wire.messages.projection import ControlServer, MountServer, SyncConfig, UnmountServer
from ...wire.messages.servers import AcceptTools, RemoveServer, SwitchServer

logger = logging.getLogger(__name__)

Hook = Callable[[Mapping[str, Any]], Any]

_NAMES: Mapping[type[Message], str] = {
    MountServer: "server.mount",
    UnmountServer: "server.unmount",
    DeclareServer: "server.declare",
    RemoveServer: "server.remove",
    AuthorizeServer: "server.authorize",
    AcceptTools: "server.accept_tools",
    DefineInput: "input.define",
    UndefineInput: "input.undefine",
    SetInput: "input.set",
    UnsetInput: "input.unset",
    ClearInputs: "input.clear",
    ChangeSettings: "settings.change",
    ReloadFiles: "files.reload",
    SyncConfig: "sync",
    InstallPlugin: "plugin.install",
    UninstallPlugin: "plugin.uninstall",
    EnablePlugin: "plugin.enable",
    DisablePlugin: "plugin.disable",
    CollectPlugins: "plugin.gc",
    AddMarketplace: "marketplace.add",
    RemoveMarketplace: "marketplace.remove",
    SetMarketplace: "marketplace.set",
    RefreshMarketplaces: "marketplace.refresh",
    PruneMarketplaces: "marketplace.prune",
}
_SUBJECTS = ("bundle_id", "plugin_id", "input_id", "name", "url", "scope")
"""Fields that say what an operation is about. Values and declarations are not told: they may hold secrets."""


def question_about(message: Message) -> dict[str, Any]:
    """What the hook is told of an operation: `operation`, and whichever of its subjects there are."""
    told = {name: value for name in _SUBJECTS if (value := getattr(message, name, None)) is not None}
    return {"operation": _operation(message), **told}


async def refuse_vetoed(hook: Hook | None, message: Message) -> None:
    """Asks the hook about an operation.

    Raises:
        PolicyError: It says no, or nothing at all because it failed (`management_refused`).
    """
    if hook is None:
        return
    question = question_about(message)
    try:
        answer = hook(question)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:
        logger.warning("the management_authorization hook failed: %s", type(error).__name__)
        answer = False
    if answer is False:
        raise PolicyError(f"{question['operation']} is not allowed here", code="management_refused")


def _operation(message: Message) -> str:
    match message:
        case ControlServer():
            return f"server.{message.action}"
        case AnswerApproval():
            return f"server.{message.answer}"
        case SwitchServer():
            return "server.enable" if message.enabled else "server.disable"
        case _:
            return _NAMES.get(type(message), type(message).__name__)
