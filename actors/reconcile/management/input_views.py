"""An input as an operator may see it: where a value is kept, which variable supplies one, who refers to it."""

from __future__ import annotations

from collections.abc import Mapping

from ....wire.base import to_json
from ....wire.codec import Attachment
from ....wire.inputs import env_name
from ....wire.messages.management import InputView
from ..composition import Picture
from ..config.inputs import Definition, canonical, is_secret, kind_of
from ..values.hooks import type_of
from ..values.stores import Stores


async def views_of(picture: Picture, stores: Stores, environ: Mapping[str, str]) -> tuple[InputView, ...]:
    """The views of all inputs of a picture, by id."""
    return tuple(
        [await _view_of(definition, picture, stores, environ) for _, definition in sorted(picture.shown.items())]
    )


async def _view_of(definition: Definition, picture: Picture, stores: Stores, environ: Mapping[str, str]) -> InputView:
    """The view of one input; asks the stores, and never for a secret's value."""
    hidden = ("default",) if is_secret(definition) else ()
    shown = {key: value for key, value in canonical(definition).items() if key not in hidden}
    definer = picture.definer_of(definition.id)
    kept = await stores.inspect(definition)
    value = None if kept is None or kept.value is None else Attachment(to_json(kept.value))
    return InputView(
        definition.id,
        type_of(definition),
        kind_of(definition),
        definition.description,
        place=None if kept is None else kept.place,
        variable=supplied_by(definition, picture, environ),
        value=value,
        servers=referring(definition.id, picture),
        variables=variables_of(definition.id, picture),
        definition=Attachment(to_json(shown)),
        origin="" if definer is None else definer.origin,
        source="" if definer is None else definer.declaration.label,
    )


def referring(input_id: str, picture: Picture) -> tuple[str, ...]:
    """The servers that take the value of an input; those of a plugin refer to its own by a bare id."""
    return tuple(
        bundle_id
        for bundle_id, member in picture.servers.items()
        if any(input_id in one.asked for one in picture.lookups(member))
    )


def variables_of(input_id: str, picture: Picture) -> tuple[str, ...]:
    """Every variable that may supply an input: one for each server that refers to it, and the one for all."""
    return (*(env_name(input_id, bundle_id) for bundle_id in referring(input_id, picture)), env_name(input_id))


def supplied_by(definition: Definition, picture: Picture, environ: Mapping[str, str]) -> str | None:
    """The first of its variables that is set now."""
    return next((name for name in variables_of(definition.id, picture) if name in environ), None)
