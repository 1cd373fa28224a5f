"""What may be asked of a running Computer through its door: a table of operations, each by plain words (03 §11).

Only who can open the socket gets here, and that is its user alone. What comes back is JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..wire.errors import ConfigValidationError
from ..wire.plain import plain

if TYPE_CHECKING:
    from ..runtime import Computer

Words = Mapping[str, Any]
Act = Callable[["Computer", Words], Awaitable[Any]]


async def carry_out(computer: Computer, operation: str, words: Words) -> Any:
    """Does what is asked; its result as JSON values, with field names.

    Raises:
        ConfigValidationError: There is no such operation, or a word of it is missing (`bad_operation`).
        SmcpError: It failed.
    """
    act = OPERATIONS.get(operation)
    if act is None:
        raise ConfigValidationError(f"there is no operation {operation[:80]!r}", code="bad_operation")
    try:
        done = act(computer, words)
    except KeyError as missing:
        raise ConfigValidationError(f"{operation} needs {missing.args[0]}", code="bad_operation") from None
    return plain(await done)


async def _identify(computer: Computer, _: Words) -> Any:
    return {"name": computer.name, "home": str(computer.home), "project": str(computer.project)}


async def _kill(computer: Computer, words: Words) -> Any:
    return {"address": words["address"], "killed": computer.operations.kill(words["address"])}


async def _dead_letters(computer: Computer, _: Words) -> Any:
    return computer.operations.dead_letters()


async def _calls(computer: Computer, words: Words) -> Any:
    return computer.operations.calls(words.get("req_id"))


OPERATIONS: Mapping[str, Act] = {
    "identify": _identify,
    "server.list": lambda computer, _: computer.manage.servers(),
    "server.declare": lambda computer, words: computer.manage.declare(words["server"], words.get("scope", "local")),
    "server.remove": lambda computer, words: computer.manage.remove(words["bundle_id"]),
    "server.enable": lambda computer, words: computer.manage.enable(words["bundle_id"]),
    "server.disable": lambda computer, words: computer.manage.disable(words["bundle_id"]),
    "server.start": lambda computer, words: computer.control(words["bundle_id"], "start"),
    "server.stop": lambda computer, words: computer.control(words["bundle_id"], "stop"),
    "server.restart": lambda computer, words: computer.control(words["bundle_id"], "restart"),
    "server.pending": lambda computer, _: computer.manage.pending(),
    "server.approve": lambda computer, words: computer.manage.approve(words["bundle_id"]),
    "server.accept_tools": lambda computer, words: computer.manage.accept_tools(words["bundle_id"]),
    "server.deny": lambda computer, words: computer.manage.deny(words["bundle_id"]),
    "server.authorize": lambda computer, words: computer.manage.authorize(words["bundle_id"]),
    "server.approve_all": lambda computer, _: computer.manage.approve_all(),
    "input.list": lambda computer, _: computer.manage.inputs(),
    "input.define": lambda computer, words: computer.manage.define_input(
        words["definition"], words.get("scope", "local")
    ),
    "input.undefine": lambda computer, words: computer.manage.undefine_input(words["input_id"]),
    "input.set": lambda computer, words: computer.manage.set_input(
        words["input_id"], words["value"], for_run=words.get("for_run", False)
    ),
    "input.unset": lambda computer, words: computer.manage.unset_input(words["input_id"]),
    "input.clear": lambda computer, _: computer.manage.clear_inputs(),
    "settings.show": lambda computer, words: computer.manage.settings(words.get("scope", "merged")),
    "settings.change": lambda computer, words: computer.manage.change_settings(
        words["scope"], words["patch"], expected_revision=words.get("expected_revision")
    ),
    "plugin.list": lambda computer, _: computer.manage.plugins.list(),
    "plugin.install": lambda computer, words: computer.manage.plugins.install(words["plugin_id"], words.get("version")),
    "plugin.uninstall": lambda computer, words: computer.manage.plugins.uninstall(
        words["plugin_id"], keep_servers=words.get("keep_servers", False)
    ),
    "plugin.enable": lambda computer, words: computer.manage.plugins.enable(words["plugin_id"], words.get("scope")),
    "plugin.disable": lambda computer, words: computer.manage.plugins.disable(words["plugin_id"], words.get("scope")),
    "plugin.gc": lambda computer, words: computer.manage.plugins.collect(
        prune_dangling=words.get("prune_dangling", False)
    ),
    "marketplace.list": lambda computer, _: computer.manage.plugins.marketplaces(),
    "marketplace.add": lambda computer, words: computer.manage.plugins.add_marketplace(
        words["url"],
        words.get("name"),
        trust=words.get("trust", False),
        auto_update=words.get("auto_update"),
        fetch=words.get("fetch", True),
    ),
    "marketplace.remove": lambda computer, words: computer.manage.plugins.remove_marketplace(
        words["name"], keep_plugins=words.get("keep_plugins", False)
    ),
    "marketplace.set": lambda computer, words: computer.manage.plugins.set_marketplace(
        words["name"], auto_update=words["auto_update"]
    ),
    "marketplace.refresh": lambda computer, words: computer.manage.plugins.refresh(*words.get("names", ())),
    "marketplace.prune": lambda computer, _: computer.manage.plugins.prune(),
    "skill.list": lambda computer, _: computer.skills(),
    "bus.view": lambda computer, _: computer.operations.view(),
    "bus.kill": _kill,
    "bus.dead_letters": _dead_letters,
    "bus.calls": _calls,
    "files.reload": lambda computer, _: computer.manage.reload(),
    "files.pending": lambda computer, _: computer.manage.pending_differences(),
}
