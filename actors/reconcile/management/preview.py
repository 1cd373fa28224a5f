"""What a Computer would be if it started now, without starting anything. Blocking: it reads the files (03 §12).

Beside the picture it tells what a start would stumble over: references to inputs nobody
defines, and placeholders where none is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ....wire.errors import Finding
from ....wire.inputs import env_name
from ....wire.messages.projection import PendingApproval
from ...plugins.site import site_of
from ...plugins.standing import standing
from ..approval.requests import pending_approvals
from ..composition import Composition, Picture
from ..config.computer_config import ComputerConfig
from ..config.findings import item, member
from ..config.inputs import default_of
from ..config.options import RuntimeOptions
from ..config.placeholders import references
from ..held import Held
from ..loading import load_all, settings_of
from ..rendering.scoped_ids import lookup
from ..server_set import SetEntry


class Preview(msgspec.Struct, frozen=True):
    """The picture, who would have to be approved, and what is wrong with it beyond the files themselves."""

    picture: Picture
    pending: tuple[PendingApproval, ...]
    problems: tuple[Finding, ...]


def preview(config: ComputerConfig, options: RuntimeOptions) -> Preview:
    """The preview of a configuration under settled options.

    Raises:
        ConfigValidationError, ConflictError, PolicyError: A flag file is missing or faulty, or variables collide.
    """
    held = Held(config)
    loaded = load_all(options)
    ready = standing(site_of(options), settings_of(config, loaded))
    loaded = msgspec.structs.replace(loaded, plugins=ready)
    picture = Composition(held, options).compose(config, {}, loaded)
    pending = pending_approvals(
        picture.servers.values(), picture.rules, picture.loaded.approved, picture.base.plugin_of
    )
    problems = [*_undefined(picture), *_never_replaced(picture)]
    return Preview(picture, pending, tuple(problems))


def variables_for(picture: Picture, entry: SetEntry) -> dict[str, tuple[str, ...]]:
    """The variables each input of a server is looked for in, by input id, strongest first (R-INPUT-17, R-INPUT-9)."""
    return {
        found.missing: tuple(name for one in found.asked for name in (env_name(one, entry.bundle_id), env_name(one)))
        for found in picture.lookups(entry)
    }


def _undefined(picture: Picture) -> Iterator[Finding]:
    for entry in picture.servers.values():
        definitions, plugin_id = picture.definitions_for(entry), picture.base.plugin_of(entry)
        missing = [one for one in entry.entry.referenced_inputs if not lookup(one, plugin_id, definitions).ids]
        for input_id in missing:
            for path in _places(entry.entry.rendered_fields, input_id, member("servers", entry.entry.name)):
                yield Finding(
                    path, f"input {input_id!r} is not defined", "missing_input", "unknown_input", entry.source
                )


def _never_replaced(picture: Picture) -> Iterator[Finding]:
    for input_id, definition in picture.shown.items():
        default = default_of(definition)
        if isinstance(default, str) and references(default):
            place = f"inputs.{input_id}.default"
            reason = "holds a placeholder, and values of inputs are never searched for placeholders"
            definer = picture.definer_of(input_id)
            source = None if definer is None else definer.declaration.label
            yield Finding(place, reason, code="placeholder_in_default", source=source)


def _places(tree: Any, input_id: str, path: str) -> Iterator[str]:
    """The paths of the strings in a tree that refer to an input."""
    if isinstance(tree, str):
        if input_id in references(tree):
            yield path
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _places(value, input_id, member(path, key))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from _places(value, input_id, item(path, index))
