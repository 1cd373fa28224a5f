"""The Agent clients: `AsyncAgent`, and `Agent` with the same surface for code without an event loop."""

from .blob_assembly import BlobChanged, BlobUnavailable
from .channels import Blob, Document, SavedBlob, SkillFile
from .client import AsyncAgent
from .notices import Notice, Notices
from .sync import Agent, BlockingNotices
from .tool_cache import ToolCache
from .tool_result import CallToolResult
from .upload import Uploaded, UploadFailed, UploadUnsupported

__all__ = [
    "Agent",
    "AsyncAgent",
    "Blob",
    "BlobChanged",
    "BlobUnavailable",
    "BlockingNotices",
    "CallToolResult",
    "Document",
    "Notice",
    "Notices",
    "SavedBlob",
    "SkillFile",
    "ToolCache",
    "UploadFailed",
    "UploadUnsupported",
    "Uploaded",
]
