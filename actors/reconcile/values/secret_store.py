"""The secret store: the keyring of the operating system, where there is a real one (03 §5.6).

Its library is optional, and its backends may ask a person to unlock something, so every
access is off the event loop and bounded. There is no second-best: without a keyring a secret
lives in the memory of this run, and in no file.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio

from ....wire.errors import StartupError

logger = logging.getLogger(__name__)

SERVICE = "a2c-computer"
ACCESS_LIMIT = 30.0
"""Seconds a keyring may take, a person unlocking it included."""
REAL = 1.0
"""Priority from which on a backend is one the library recommends; those below keep plain files, or nothing."""

T = TypeVar("T")


class SecretStore(Protocol):
    """Where secrets are kept across runs."""

    async def get(self, key: str) -> str | None:
        """The secret under a key, `None` for none or for a store that does not answer."""
        ...

    async def put(self, key: str, secret: str) -> bool:
        """Keeps a secret; `False` when this store cannot."""
        ...

    async def remove(self, key: str) -> bool:
        """Forgets a secret; `False` when there was none."""
        ...


class NoSecretStore:
    """Where there is no keyring, or none is wanted."""

    async def get(self, key: str) -> str | None:
        """Nothing."""
        return None

    async def put(self, key: str, secret: str) -> bool:
        """Refuses."""
        return False

    async def remove(self, key: str) -> bool:
        """Nothing to forget."""
        return False


class Backend(Protocol):
    """A backend of the keyring library."""

    priority: float

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


class Keyring:
    """The keyring of this user.

    Args:
        find: Gives the backend, `None` for none; called once, off the event loop.
    """

    def __init__(self, find: Callable[[], Backend | None] | None = None) -> None:
        self._find = find or real_backend
        self._backend: Backend | None = None
        self._looked = False

    async def is_available(self) -> bool:
        """Whether there is a real keyring."""
        return await self._access(lambda _: True, False)

    async def get(self, key: str) -> str | None:
        """See `SecretStore`."""
        return await self._access(lambda backend: backend.get_password(SERVICE, key), None)

    async def put(self, key: str, secret: str) -> bool:
        """See `SecretStore`."""

        def put(backend: Backend) -> bool:
            backend.set_password(SERVICE, key, secret)
            return True

        return await self._access(put, False)

    async def remove(self, key: str) -> bool:
        """See `SecretStore`."""

        def remove(backend: Backend) -> bool:
            if backend.get_password(SERVICE, key) is None:
                return False
            backend.delete_password(SERVICE, key)
            return True

        return await self._access(remove, False)

    async def _access(self, use: Callable[[Backend], T], otherwise: T) -> T:
        def work() -> T:
            if not self._looked:
                self._backend, self._looked = self._find(), True
            return otherwise if self._backend is None else use(self._backend)

        try:
            with anyio.fail_after(ACCESS_LIMIT):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            logger.warning("the keyring did not answer within %g s", ACCESS_LIMIT)
        except Exception as error:
            # A backend's text may quote what it was given.
            logger.warning("the keyring failed: %s", type(error).__name__)
        return otherwise


def real_backend() -> Backend | None:
    """The backend of the keyring library, if it is installed and has a real one."""
    try:
        backend: Backend = importlib.import_module("keyring").get_keyring()
        return backend if backend.priority >= REAL else None
    except ImportError:
        return None
    except Exception as error:
        logger.warning("the keyring cannot be used: %s", type(error).__name__)
        return None


def nowhere_to_keep(key: str) -> StartupError:
    """Why a secret cannot be kept across runs."""
    return StartupError(
        f"there is no keyring to keep {key!r} in",
        code="no_keyring",
        input_id=key,
        retry_hint="install the extra 'keyring' and a keyring of the system, or supply it by its variable",
    )
