"""The chain of one Computer, put together from its options (03 §5.4)."""

from __future__ import annotations

from pathlib import Path

from ..config.options import OWN_STORES, RuntimeOptions
from ..rendering.candidates import Value
from ..rendering.resolution import Chain, ValueSource
from .commands import CommandSource
from .hooks import HookSource
from .prompting import PromptSource
from .secret_places import FirstThatKeeps, MemorySecrets, SecretFile
from .secret_store import Keyring, SecretStore
from .stores import FileSource, RunSource, SecretSource, Stores
from .value_store import ValueStore

TOKEN_FILE = "server-authorizations.json"


def stores_of(options: RuntimeOptions, state: Path, run: dict[str, Value]) -> Stores:
    """The stores of a Computer.

    Args:
        state: The state directory.
        run: Values of this run, which outlive the actors.
    """
    providers = OWN_STORES if options.secret_providers is None else options.secret_providers
    return Stores(run, ValueStore(state), Keyring() if "keyring" in providers else None)


def token_store_of(options: RuntimeOptions, state: Path, run: dict[str, str]) -> SecretStore:
    """Where authorizations at servers are kept (R-MCP-25).

    Args:
        run: Those of this run, which outlive the actors.
    """
    memory = MemorySecrets(run)
    if options.token_store is None:
        return FirstThatKeeps(Keyring(), memory)
    if options.token_store == "memory":
        return memory
    if options.token_store == "file":
        return SecretFile(state / TOKEN_FILE)
    store: SecretStore = options.token_store
    return store


def chain_of(options: RuntimeOptions, stores: Stores) -> Chain:
    """The sources around the environment, in their order."""
    hooks = [HookSource(provider) for provider in options.secret_providers or () if callable(provider)]
    before: list[ValueSource] = [RunSource(stores), *hooks]
    root = options.project_root or "."
    after: list[ValueSource] = [SecretSource(stores), FileSource(stores), CommandSource(root, options.environ)]
    if options.prompter is not None:
        after.append(PromptSource(options.prompter, stores.keep))
    return Chain(before, after)
