"""The three places values are kept in, and which value goes where (03 §5.6): the management side of inputs.

Secrets go to the keyring, or for want of one into the memory of this run; everything else
into the value store. Nothing here tells a secret to anybody but a start that needs it.
"""

from __future__ import annotations

from typing import Literal

import anyio
import msgspec

from ....wire.errors import ConfigValidationError
from ....wire.inputs import CommandInput
from ..config.inputs import Definition, as_text, kind_of
from ..rendering.candidates import Value, settle
from ..rendering.resolution import ValueRequest
from .secret_store import NoSecretStore, SecretStore
from .value_store import ValueStore

Place = Literal["run", "keyring", "file"]


class KeptValue(msgspec.Struct, frozen=True):
    """That an input has a value and where it is kept; the value itself only when it is no secret."""

    input_id: str
    place: Place
    value: Value | None = None


class Stores:
    """The stores of one Computer.

    Args:
        run: Values of this run, by resolved id; held by whoever outlives its actors.
    """

    def __init__(self, run: dict[str, Value], values: ValueStore, secrets: SecretStore | None = None) -> None:
        self.run = run
        self.values = values
        self.secrets = secrets or NoSecretStore()

    async def put(self, definition: Definition, candidate: object, *, for_run: bool = False) -> Place:
        """Keeps a value of an input, checked against its type (R-MGMT-4).

        Args:
            for_run: Keep it for this run only; it then stands before every other source.
        Returns:
            Where it is kept now.
        Raises:
            ConfigValidationError, InvalidSelectionError: It does not fit; a command takes none (`no_value`).
            ConflictError, StartupError: The file cannot be written.
        """
        if isinstance(definition, CommandInput):
            raise ConfigValidationError(
                f"input {definition.id!r} is a command, whose value is what it prints",
                code="no_value",
                input_id=definition.id,
            )
        value = settle(definition, candidate)
        if for_run:
            self.run[definition.id] = value
            return "run"
        return await self.keep(definition, value)

    async def keep(self, definition: Definition, value: Value) -> Place:
        """Keeps a settled value where values of its kind belong. Raises as `put`."""
        if kind_of(definition) == "secret":
            if not await self.secrets.put(definition.id, as_text(value)):
                self.run[definition.id] = value
                return "run"
            self.run.pop(definition.id, None)
            return "keyring"
        await anyio.to_thread.run_sync(self.values.put, definition.id, value)
        self.run.pop(definition.id, None)
        return "file"

    async def remove(self, input_id: str) -> bool:
        """Forgets a value wherever it is kept; `False` when there was none."""
        in_run = self.run.pop(input_id, None) is not None
        in_file = await anyio.to_thread.run_sync(self.values.remove, input_id)
        return await self.secrets.remove(input_id) or in_file or in_run

    async def inspect(self, definition: Definition) -> KeptValue | None:
        """Whether and where an input has a value."""
        is_secret = kind_of(definition) == "secret"
        if definition.id in self.run:
            return KeptValue(definition.id, "run", None if is_secret else self.run[definition.id])
        if is_secret:
            return KeptValue(definition.id, "keyring") if await self.secrets.get(definition.id) is not None else None
        known = await anyio.to_thread.run_sync(self.values.read)
        return KeptValue(definition.id, "file", known[definition.id]) if definition.id in known else None


class RunSource:
    """Values set for this run (step 1)."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`."""
        return self._stores.run.get(request.definition.id)


class SecretSource:
    """The secret store, for secrets alone (step 3)."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`."""
        is_secret = kind_of(request.definition) == "secret"
        return await self._stores.secrets.get(request.definition.id) if is_secret else None


class FileSource:
    """The value store, for what is no secret and no command (step 4)."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`."""
        definition = request.definition
        if kind_of(definition) == "secret" or isinstance(definition, CommandInput):
            return None
        return (await anyio.to_thread.run_sync(self._stores.values.read)).get(definition.id)
