"""Which inputs would have no value if every server started now and there was nobody to ask (03 §5.4).

Looks where a start would look, but runs nothing: what a command would print is taken for granted.
"""

from __future__ import annotations

from dataclasses import replace

from ....wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError
from ....wire.inputs import CommandInput
from ..composition import Picture
from ..config.options import RuntimeOptions
from ..loading import places_for
from ..rendering.resolution import ResolveFor, resolve
from .chain import chain_of, stores_of


async def lacking(picture: Picture, options: RuntimeOptions) -> dict[str, tuple[str, ...]]:
    """What each server that would start lacks, by bundle_id: a line for each input, never with a value (R-INPUT-24).

    Inputs that nobody defines are no part of it.

    Args:
        options: Settled options.
    """
    chain = chain_of(replace(options, prompter=None), stores_of(options, places_for(options).state, {}))
    found: dict[str, tuple[str, ...]] = {}
    for bundle_id, member in picture.servers.items():
        if not member.may_run:
            continue
        definitions = picture.definitions_for(member)
        wanted = [
            reference
            for reference, known in zip(member.entry.referenced_inputs, picture.lookups(member), strict=True)
            if known.ids and not any(isinstance(definitions[one], CommandInput) for one in known.ids)
        ]
        try:
            asker = ResolveFor(bundle_id, picture.base.plugin_of(member))
            await resolve(wanted, definitions, options.environ, chain, asker)
        except (MissingInputError, InvalidSelectionError, ConfigValidationError) as problem:
            found[bundle_id] = (problem.message, *problem.causes)
    return found
