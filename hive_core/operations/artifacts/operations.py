"""Artifacts are read, listed and deleted. What one may not read is not there."""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

from pydantic import Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.work.artifact import Artifact, ArtifactReader, Content, may_read
from hive_core.operations.artifacts.views import (
    ArtifactRow,
    Id,
    Name,
    Whom,
    artifact_row,
    caller_as_reader,
    can_delete,
    newest_readable,
    owner_uuid,
    require_readable,
)
from hive_core.operations.fields import also
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.policy.rules import SELF

_SCAN: Final = 250
_SCANS: Final = 4


class GetArtifactParams(Params):
    id: Id | None = Field(None, description="The version; or else a name.")
    name: Name | None = Field(
        None, validation_alias=also("name", "key"), description="Its name. Also `key`."
    )
    owner: Whom | None = Field(
        None, description="Whose: name or UUID; yours when absent. The UUID finds who is gone."
    )
    version: int | None = Field(
        None, ge=1, description="The newest that the caller may read when absent."
    )
    after: str | None = Field(
        None, max_length=20, pattern=r"^[0-9]+$", description="`next` of the part before."
    )


class ArtifactPart(Page):
    artifact: ArtifactRow = Field(description="What it is.")
    data: str = Field(description="Some of the bytes, in base64.")


class ListArtifactsParams(Paged):
    prefix: str = Field("", max_length=520, description="How the names begin.")
    author: Whom | None = Field(None, description="Whose: name or UUID; of all when absent.")


class ArtifactRows(Page):
    artifacts: list[ArtifactRow] = Field(
        description="The newest version of each that the caller may read, by age."
    )


class DeleteArtifactParams(Mutation):
    id: Id = Field(description="The version.")
    all: bool = Field(default=False, description="With all other versions of its name.")


class DeletedArtifact(Result):
    name: str = Field(description="What it was called.")
    versions: list[int] = Field(description="Those that are gone.")


@operation(action="read_artifact", allow=SELF)
def get_artifact(call: Call, params: GetArtifactParams) -> ArtifactPart | Later[ArtifactPart]:
    """Read an artifact in parts of at most 256 KiB; with `more` they follow each other.

    Each part is compared with what was stored before it is given.
    """
    found = _requested_artifact(call, params)
    content = call.ledger.artifacts.content(found.digest)
    at = int(params.after or 0)
    if content is None or at > content.size:
        raise InvalidArgument("there is no such part", field="after")
    data = _read_content(call, content, at)
    if isinstance(data, Later):
        return data
    end = at + len(data)
    more = str(end) if data and end < content.size else None
    return ArtifactPart(
        artifact=artifact_row(call, found), data=base64.b64encode(data).decode(), next=more
    )


class _ReadBytes(NamedTuple):
    """Bytes of a content from a place on, or why they are not what was stored."""

    digest: str
    at: int
    data: bytes | str


def _read_content(call: Call, content: Content, at: int) -> bytes | Later[ArtifactPart]:
    """Read and compared beside the loop. Only then, what is still there and damaged is an alarm."""
    found = call.read_result
    if isinstance(found, _ReadBytes) and (found.digest, found.at) == (content.digest, at):
        if isinstance(found.data, str):
            raise call.contents.damaged(found.digest, found.data)
        return found.data

    async def read(_reads: SlowReadSources) -> Ready:
        return Ready(value=_ReadBytes(content.digest, at, await call.contents.read(content, at)))

    return Later(read)


def _requested_artifact(call: Call, params: GetArtifactParams) -> Artifact:
    if (params.id is None) == (params.name is None):
        raise InvalidArgument("say an id or a name", field="id")
    kept = call.ledger.artifacts
    if params.id is not None:
        return require_readable(call, kept.get(params.id), params.id)
    owner, name = owner_uuid(call, params.owner), params.name or ""
    found = None
    if owner is not None and params.version is not None:
        found = kept.get_version(owner, name, params.version)
    elif owner is not None:
        found = newest_readable(call, caller_as_reader(call), owner, name)
    whose = f" of {params.owner}" if params.owner else ""
    return require_readable(call, found, f"{name}{whose}")


@operation(action="read_artifact", allow=SELF)
def list_artifacts(call: Call, params: ListArtifactsParams) -> ArtifactRows:
    """List the artifacts that the caller may read. A page may be empty and not the last."""
    owner = owner_uuid(call, params.author) if params.author is not None else None
    if params.author is not None and owner is None:
        return ArtifactRows(artifacts=[])
    who, at, found = (
        caller_as_reader(call),
        int(params.after or 0) if _is_number(params.after) else 0,
        [],
    )
    whole = False
    for _ in range(_SCANS):
        page = call.ledger.artifacts.page(owner, at, _SCAN)
        for each in page:
            at = each.number
            if each.name.startswith(params.prefix) and _is_newest_for(call, each, who):
                found.append(each)
            if len(found) >= params.most:
                break
        whole = len(page) < _SCAN
        if whole or len(found) >= params.most:
            break
    return _artifact_page(call, found, at, whole=whole and len(found) < params.most)


def _is_newest_for(call: Call, each: Artifact, who: ArtifactReader) -> bool:
    """Whether the reader may have this version, and no newer one of its name."""
    if not may_read(each, who):
        return False
    return each.latest or newest_readable(call, who, each.owner, each.name) == each


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdecimal()


def _artifact_page(call: Call, found: list[Artifact], at: int, *, whole: bool) -> ArtifactRows:
    rows = list(fitting([artifact_row(call, each) for each in found], _row_size))
    if len(rows) < len(found):
        return ArtifactRows(artifacts=rows, next=str(found[len(rows) - 1].number))
    return ArtifactRows(artifacts=rows, next=None if whole else str(at))


def _row_size(row: ArtifactRow) -> int:
    return written(row.name, row.type)


@operation(action="write_artifact", allow=SELF)
def delete_artifact(call: Call, params: DeleteArtifactParams) -> Record[DeletedArtifact]:
    """Delete a version of an artifact, or all of its name.

    The owner may, who is above it, and, when it is gone, who was when this was stored.
    """
    kept = call.ledger.artifacts
    found = kept.get(params.id)
    if found is None or not (can_delete(call, found) or may_read(found, caller_as_reader(call))):
        found = require_readable(call, None, params.id)
    if not can_delete(call, found):
        reason = f"cannot delete {found.name}: it is neither yours nor of one below you"
        raise NotAllowed(reason, rule="keeper")
    gone = kept.versions(found.owner, found.name) if params.all else [found]
    for each in gone:
        kept.remove(each)
    fields = {"artifact": found.id, "name": found.name, "versions": len(gone)}
    result = DeletedArtifact(name=found.name, versions=sorted(each.version for each in gone))
    return Record(result, frozenset({"artifact", f"artifact:{found.owner}"}), fields)
