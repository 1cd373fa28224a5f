"""What a Computer answers on channels it has nothing for: no windows, no skills, no blobs, no documents.

Pure. Lists are empty, and a read fails the way a read of something that was never there
fails, so that an Agent needs no special case for a Computer without a channel.
"""

from __future__ import annotations

from ...wire import payload
from ...wire.blobs import GetBlobReq, PutBlobReq
from ...wire.documents import GetDpeReq, ListFinderReq
from ...wire.dpe_uri import InvalidDpeUri, parse_dpe_uri
from ...wire.resources import GetDeskTopReq
from ...wire.skill_name import skill_kind
from ...wire.skills import GetSkillReq, GetSkillsReq
from .answers import embed, refusal


def desktop(request: GetDeskTopReq) -> bytes:
    """No window (C-DESK-12)."""
    return embed(request.req_id, desktops=b"[]")


def skills(request: GetSkillsReq) -> bytes:
    """No active skill."""
    return embed(request.req_id, skills=b"[]")


def skill(request: GetSkillReq) -> bytes:
    """4016 for a name outside the grammar, else 4014 (C-SKILL-59, C-SKILL-60)."""
    if skill_kind(request.name) is None:
        return refusal(payload.invalid_skill_name(request.name))
    return refusal(payload.skill_not_found(request.name))


def blob(_: GetBlobReq) -> bytes:
    """Nothing here minted the handle (C-BLOB-7)."""
    return refusal(payload.blob_refused("invalid_handle"))


def upload(request: PutBlobReq) -> bytes:
    """There is no landing root, and so no upload that could be continued (C-UP-4, C-UP-11, W-BLOB-5)."""
    if request.upload_id is None:
        return refusal(payload.upload_refused("forbidden"))
    known = request.upload_id if isinstance(request.upload_id, str) else None
    return refusal(payload.upload_refused("invalid_upload", upload_id=known))


def finder(request: ListFinderReq) -> bytes:
    """No document."""
    return embed(request.req_id, documents=b"[]", total_count=b"0")


def document(request: GetDpeReq) -> bytes:
    """4012 for an invalid URI, else 4011: nobody registered a resolver (DEC-21, W-DOC-3)."""
    try:
        parse_dpe_uri(request.uri)
    except InvalidDpeUri as fault:
        return refusal(payload.invalid_dpe_uri(request.uri, fault.reason))
    return refusal(payload.resolver_missing(request.uri))
