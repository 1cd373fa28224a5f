"""Input definitions on the wire, and the environment variable that may supply an input (01 §6.5, R-INPUT-17)."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from .base import NonEmpty, Structure
from .protocol import ENV_PREFIX

OLD_OPTIONS_HINT = "options must be a list of {label, value} objects"


class PromptStringInput(Structure, frozen=True, kw_only=True, tag_field="type", tag="promptString"):
    """Text asked for; `password` hides it everywhere. A password's default never travels (W-CFG-3)."""

    id: str
    description: str
    default: str | UnsetType | None = UNSET
    password: bool | UnsetType | None = UNSET


class PickOption(Structure, frozen=True, kw_only=True):
    """What is shown, and what is injected (W-INP-2)."""

    label: NonEmpty
    value: NonEmpty


class PickStringInput(Structure, frozen=True, kw_only=True, tag_field="type", tag="pickString"):
    """One of at least one option; `default` equals the `value` of one of them."""

    id: str
    description: str
    options: Annotated[tuple[PickOption, ...], Meta(min_length=1)]
    default: str | UnsetType | None = UNSET


class CommandInput(Structure, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """The output of a command, run once per actual server start."""

    id: str
    description: str
    command: str
    args: dict[str, str] | UnsetType | None = UNSET


InputDefinition: TypeAlias = PromptStringInput | PickStringInput | CommandInput


def uses_old_options(definition: Any) -> bool:
    """Whether a raw definition is in the former form `options: ["a", "b"]`, which is refused by name (W-INP-1)."""
    options = definition.get("options") if isinstance(definition, dict) else None
    return isinstance(options, list | tuple) and any(isinstance(option, str) for option in options)


def env_segment(text: str) -> str:
    """A part of an environment name: every code point outside ASCII letters, digits and `_` becomes `_`."""
    return _FOREIGN.sub("_", text)


def env_name(input_id: str, bundle_id: str | None = None, tool: str | None = None) -> str:
    """The variable that supplies an input, for one server and tool if given.

    Spec: W-INP-3, R-INPUT-17.
    """
    parts = [env_segment(part) for part in (input_id, bundle_id, tool) if part is not None]
    return ENV_PREFIX + "_".join(parts)


_FOREIGN = re.compile(r"[^A-Za-z0-9_]")
