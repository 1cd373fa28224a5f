"""The chain of one Computer, put together from its options (03 §5.4)."""

from __future__ import annotations

from pathlib import Path

from ....wire.errors import ConfigValidationError
from ..candidates import Value
from ..options import Hook, RuntimeOptions
from ..resolution import Chain, ValueSource
from .commands import CommandSource
from .hooks import HookSource
from .prompting import PromptSource
from .secret_store import Keyring
from .stores import FileSource, RunSource, SecretSource, Stores
from .value_store import ValueStore

KEYRING, MEMORY = "keyring", "memory"
"""Names of our own stores in the option `secret_providers`; everything else in it is a hook."""


def stores_of(options: RuntimeOptions, state: Path, run: dict[str, Value]) -> Stores:
    """The stores of a Computer.

    Args:
        state: The state directory.
        run: Values of this run, which outlive the actors.
    """
    providers = (KEYRING, MEMORY) if options.secret_providers is None else options.secret_providers
    return Stores(run, ValueStore(state), Keyring() if KEYRING in providers else None)


def chain_of(options: RuntimeOptions, stores: Stores) -> Chain:
    """The sources around the environment, in their order.

    Raises:
        ConfigValidationError: `secret_providers` names a store that does not exist.
    """
    before: list[ValueSource] = [RunSource(stores), *map(HookSource, _hooks(options))]
    root = options.project_root or "."
    after: list[ValueSource] = [SecretSource(stores), FileSource(stores), CommandSource(root, options.environ)]
    if options.prompter is not None:
        after.append(PromptSource(options.prompter, stores.keep))
    return Chain(before, after)


def _hooks(options: RuntimeOptions) -> list[Hook]:
    hooks: list[Hook] = []
    for provider in options.secret_providers or ():
        if callable(provider):
            hooks.append(provider)
        elif provider not in (KEYRING, MEMORY):
            raise ConfigValidationError(
                "secret_providers holds functions, 'keyring' and 'memory'", field="secret_providers", code="bad_choice"
            )
    return hooks
