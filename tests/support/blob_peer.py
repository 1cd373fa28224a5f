"""The blob end of a Computer as plain functions: serves bytes in chunks, takes uploads, and lies on demand."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

CHUNK = 262_144


def handle_error(reason: str, code: int = 4018) -> dict[str, Any]:
    """A flat refusal."""
    return {"code": code, "message": "Blob not accessible", "details": {"reason": reason}}


class BlobSource:
    """Answers `client:get_blob`.

    Attributes:
        data: What is behind the handle; may be replaced at any time.
        chunk: Most bytes it gives at once.
        offsets: Offsets asked for, in order.
        spoil: Changes an answer before it is sent; gets the request and the answer.
    """

    def __init__(self, data: bytes, *, handle: str = "h1", mime_type: str = "application/octet-stream") -> None:
        self.data = data
        self.handle = handle
        self.mime_type = mime_type
        self.chunk = CHUNK
        self.offsets: list[int] = []
        self.spoil: Any = lambda _request, answer: answer

    def __call__(self, request: Any) -> Any:
        offset = request.get("chunk_offset") or 0
        self.offsets.append(offset)
        if request["blob_handle"] != self.handle:
            return handle_error("invalid_handle")
        if not 0 <= offset <= len(self.data):
            return handle_error("range")
        most = min(request.get("max_chunk_bytes") or CHUNK, self.chunk)
        part = self.data[offset : offset + most]
        answer = {
            "blob_handle": self.handle,
            "mime_type": self.mime_type,
            "total_size": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
            "chunk_offset": offset,
            "eof": offset + len(part) == len(self.data),
            "blob": base64.b64encode(part).decode(),
            "req_id": request["req_id"],
        }
        return self.spoil(request, answer)


class UploadTarget:
    """Answers `client:put_blob`, by the rules of C-UP.

    Attributes:
        files: Finished uploads by landing path.
        requests: Chunks as they came.
        refuse: Called with each chunk; an answer instead of `None` refuses it.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[dict[str, Any]] = []
        self.refuse: Any = lambda _request: None
        self._open: dict[str, tuple[bytearray, dict[str, Any]]] = {}

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        if refused := self.refuse(request):
            return refused
        upload_id = request.get("upload_id")
        if upload_id is None:
            upload_id = f"u{len(self._open) + len(self.files) + 1}"
            self._open[upload_id] = (bytearray(), request)
        elif upload_id not in self._open or "total_size" in request or "sha256" in request:
            return handle_error("invalid_upload", 4019)
        received, declared = self._open[upload_id]
        if request["chunk_offset"] != len(received):
            return handle_error("range", 4019)
        received += base64.b64decode(request["blob"], validate=True)
        answer = {"upload_id": upload_id, "chunk_offset": request["chunk_offset"], "req_id": request["req_id"]}
        if not request["eof"]:
            return answer
        del self._open[upload_id]
        digest = hashlib.sha256(received).hexdigest()
        if (len(received), digest) != (declared["total_size"], declared["sha256"]):
            return handle_error("integrity", 4019)
        path = f"/landing/{upload_id}_{declared.get('name_hint', '')}"
        self.files[path] = bytes(received)
        return answer | {"landing_path": path, "total_size": len(received), "sha256": digest}
