"""Mode resources: paths of sub-resources, and the bytes in what a server answers when one is read. Pure.

Spec: C-SKILL-39…41.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

import msgspec

from .entry_names import EntryNames, Parts
from .limits import PackageLimits, StagingFailed
from .roots import SubResource


def file_paths(files: Sequence[SubResource], limits: PackageLimits) -> list[tuple[Parts, str]]:
    """Path and URI of every file.

    Raises:
        StagingFailed: There is none, there are too many, or one has a name that is refused.
    """
    if not files:
        raise StagingFailed("there are no resources below the URI of the skill")
    if len(files) > limits.entries:
        raise StagingFailed(f"the package has more than {limits.entries} entries")
    names = EntryNames(limits)
    return [(names.file(_decoded(file.tail)), file.uri) for file in files]


def content_bytes(contents: bytes) -> list[bytes]:
    """The bytes of all content blocks of a `resources/read` result, in order.

    Raises:
        StagingFailed: A block is neither text nor base64.
    """
    try:
        blocks = msgspec.json.decode(contents)
    except (msgspec.MsgspecError, RecursionError):
        blocks = None
    if not isinstance(blocks, list):
        raise StagingFailed("a resource was answered without a list of contents", transfer=True)
    return [_block_bytes(block) for block in blocks]


def _block_bytes(block: object) -> bytes:
    text = block.get("text") if isinstance(block, dict) else None
    if isinstance(text, str):
        return text.encode("utf-8")
    blob = block.get("blob") if isinstance(block, dict) else None
    if not isinstance(blob, str):
        raise StagingFailed("a resource has a content that is neither text nor base64", transfer=True)
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        raise StagingFailed("a resource has a content that is no base64", transfer=True) from None


def _decoded(tail: str) -> str:
    """A path with its percent escapes resolved, once."""
    try:
        return unquote_to_bytes(tail).decode("utf-8")
    except UnicodeDecodeError:
        raise StagingFailed("an entry has a name that is not UTF-8") from None
