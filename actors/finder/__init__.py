"""The document channel: the catalogue of `dpe://` documents and access through a resolver."""

from .actor import FinderActor, FinderSettings
from .resolver import Block, Hint, Resolver

__all__ = ["Block", "FinderActor", "FinderSettings", "Hint", "Resolver"]
