"""Which definition a reference means: its plugin's first, then a global one of that kind (R-INPUT-9…11). Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..config.inputs import Definition, kind_of


class Lookup(msgspec.Struct, frozen=True):
    """The defined ids to ask in turn, and the one that is missing when none of them has a value."""

    ids: tuple[str, ...]
    missing: str

    @property
    def asked(self) -> tuple[str, ...]:
        """Ids whose variables are looked for; where none is defined, those that would be if it were."""
        return self.ids or (self.missing,)


def scoped(plugin_id: str, input_id: str) -> str:
    """The id of an input that a plugin defines."""
    return f"{plugin_id}/{input_id}"


def plugin_of(reference: str) -> str | None:
    """The plugin an explicitly scoped reference names, `None` for a bare one."""
    scope, slash, _ = reference.rpartition("/")
    return scope if slash and "@" in scope else None


def lookup(reference: str, plugin_id: str | None, definitions: Mapping[str, Definition]) -> Lookup:
    """Where to look for the value of a reference.

    Args:
        plugin_id: The plugin the server is bound to, `None` for none.
    """
    named = plugin_of(reference)
    if named is not None:
        is_foreign = plugin_id is not None and named != plugin_id
        return Lookup(() if is_foreign else _defined((reference,), definitions), reference)
    if plugin_id is None:
        return Lookup(_defined((reference,), definitions), reference)
    own = scoped(plugin_id, reference)
    ids = _defined((own, reference), definitions)
    if len(ids) == 2 and kind_of(definitions[own]) != kind_of(definitions[reference]):
        # A secret without a value must not take what everybody may see, nor the reverse (R-INPUT-10).
        ids = (own,)
    return Lookup(ids, own)


def _defined(ids: tuple[str, ...], definitions: Mapping[str, Definition]) -> tuple[str, ...]:
    return tuple(input_id for input_id in ids if input_id in definitions)
