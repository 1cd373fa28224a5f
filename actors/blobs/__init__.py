"""The blob channel: large contents down by handle, files up into the landing root."""

from .actor import BlobActor, BlobSettings
from .eviction import Quota
from .uploads import UploadLimits

__all__ = ["BlobActor", "BlobSettings", "Quota", "UploadLimits"]
