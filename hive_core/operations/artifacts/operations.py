"""Reading, listing and deleting artifacts. A caller that may not read an artifact gets NotFound."""

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
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.policy.rules import SELF

_SCAN: Final = 250
_SCANS: Final = 4


class GetArtifactParams(Params):
    id: Id | None = Field(None, description="The id of a version; or use a name.")
    name: Name | None = Field(
        None, validation_alias=also("name", "key"), description="The name. Also `key`."
    )
    owner: Whom | None = Field(
        None,
        description="The owner, by name or UUID; the caller when absent. Use the UUID for a"
        " destroyed owner.",
    )
    version: int | None = Field(
        None, ge=1, description="The version; the newest that the caller may read when absent."
    )
    after: str | None = Field(
        None, max_length=20, pattern=r"^[0-9]+$", description="`next` of the part before."
    )


class ArtifactPart(Page):
    artifact: ArtifactRow = Field(description="The artifact.")
    data: str = Field(description="Some of the bytes, in base64.")


class ListArtifactsParams(Paged):
    prefix: str = Field("", max_length=520, description="Prefix of the names.")
    author: Whom | None = Field(
        None, description="The owner, by name or UUID; all owners when absent."
    )


class ArtifactRows(Page):
    artifacts: list[ArtifactRow] = Field(
        description="The newest version of each name that the caller may read, by age."
    )


class DeleteArtifactParams(Mutation):
    id: Id = Field(description="The id of the version.")
    all: bool = Field(default=False, description="Delete all other versions of its name too.")


class DeletedArtifact(Result):
    name: str = Field(description="The name of the artifact.")
    versions: list[int] = Field(description="The versions that were deleted.")


@operation(action="read_artifact", allow=SELF)
def get_artifact(call: Call, params: GetArtifactParams) -> ArtifactPart | Later[ArtifactPart]:
    """Read an artifact in parts of at most 256 KiB; use `next` for the part that follows.

    Each part is compared with the stored digest before it is returned.
    """
    artifact = _requested_artifact(call, params)
    content = call.ledger.artifacts.content(artifact.digest)
    at = int(params.after or 0)
    if content is None or at > content.size:
        raise InvalidArgument("the artifact has no such part", field="after")
    data = _read_content(call, content, at)
    if isinstance(data, Later):
        return data
    end = at + len(data)
    more = str(end) if data and end < content.size else None
    text = base64.b64encode(data).decode()
    return ArtifactPart(artifact=artifact_row(call, artifact), data=text, next=more)


class _ReadBytes(NamedTuple):
    """Bytes of a content from an offset on, or why they differ from what was stored."""

    digest: str
    at: int
    data: bytes | str


def _read_content(call: Call, content: Content, at: int) -> bytes | Later[ArtifactPart]:
    """Read and compare outside the event loop.

    An alarm is raised only when a second read finds the content still stored, and damaged.
    """
    result = call.read_result
    if isinstance(result, _ReadBytes) and (result.digest, result.at) == (content.digest, at):
        if isinstance(result.data, str):
            raise call.contents.report_damage(result.digest, result.data)
        return result.data

    async def read(_sources: SlowReadSources) -> Ready:
        return Ready(value=_ReadBytes(content.digest, at, await call.contents.read(content, at)))

    return Later(read)


def _requested_artifact(call: Call, params: GetArtifactParams) -> Artifact:
    if (params.id is None) == (params.name is None):
        raise InvalidArgument("set either `id` or `name`", field="id")
    artifacts = call.ledger.artifacts
    if params.id is not None:
        return require_readable(call, artifacts.get(params.id), params.id)
    owner, name = owner_uuid(call, params.owner), params.name or ""
    artifact = None
    if owner is not None and params.version is not None:
        artifact = artifacts.get_version(owner, name, params.version)
    elif owner is not None:
        artifact = newest_readable(call, caller_as_reader(call), owner, name)
    whose = f" of {params.owner}" if params.owner else ""
    return require_readable(call, artifact, f"{name}{whose}")


@operation(action="read_artifact", allow=SELF)
def list_artifacts(call: Call, params: ListArtifactsParams) -> ArtifactRows:
    """List the artifacts that the caller may read. A page may be empty and not the last."""
    owner = owner_uuid(call, params.author) if params.author is not None else None
    if params.author is not None and owner is None:
        return ArtifactRows(artifacts=[])
    reader, artifacts = caller_as_reader(call), list[Artifact]()
    at = int(params.after or 0) if _is_number(params.after) else 0
    whole = False
    for _ in range(_SCANS):
        page = call.ledger.artifacts.page(owner, at, _SCAN)
        for artifact in page:
            at = artifact.number
            if artifact.name.startswith(params.prefix) and _is_newest_for(call, artifact, reader):
                artifacts.append(artifact)
            if len(artifacts) >= params.most:
                break
        whole = len(page) < _SCAN
        if whole or len(artifacts) >= params.most:
            break
    return _artifact_page(call, artifacts, at, whole=whole and len(artifacts) < params.most)


def _is_newest_for(call: Call, artifact: Artifact, reader: ArtifactReader) -> bool:
    """Whether the reader may read this version, and no newer one of its name."""
    if not may_read(artifact, reader):
        return False
    return artifact.latest or (
        newest_readable(call, reader, artifact.owner, artifact.name) == artifact
    )


def _is_number(text: str | None) -> bool:
    return text is not None and text.isdecimal()


def _artifact_page(call: Call, artifacts: list[Artifact], at: int, *, whole: bool) -> ArtifactRows:
    rows = list(take_fitting([artifact_row(call, artifact) for artifact in artifacts], _row_size))
    if len(rows) < len(artifacts):
        return ArtifactRows(artifacts=rows, next=str(artifacts[len(rows) - 1].number))
    return ArtifactRows(artifacts=rows, next=None if whole else str(at))


def _row_size(row: ArtifactRow) -> int:
    return reply_bytes(row.name, row.type)


@operation(action="write_artifact", allow=SELF, destructive=True, idempotent=True)
def delete_artifact(call: Call, params: DeleteArtifactParams) -> Record[DeletedArtifact]:
    """Delete a version of an artifact, or all versions of its name.

    The owner and its ancestors may do so. If the owner is destroyed, those that were its ancestors
    when the version was stored may.
    """
    artifacts = call.ledger.artifacts
    artifact = artifacts.get(params.id)
    if artifact is None or not (
        can_delete(call, artifact) or may_read(artifact, caller_as_reader(call))
    ):
        artifact = require_readable(call, None, params.id)
    if not can_delete(call, artifact):
        reason = (
            f"cannot delete {artifact.name}: it belongs neither to you nor to a descendant of yours"
        )
        raise NotAllowed(reason, rule="keeper")
    to_delete = artifacts.versions(artifact.owner, artifact.name) if params.all else [artifact]
    for version in to_delete:
        artifacts.remove(version)
    call.notify("artifact", f"artifact:{artifact.owner}")
    fields = {"artifact": artifact.id, "name": artifact.name, "versions": len(to_delete)}
    numbers = sorted(version.version for version in to_delete)
    return Record(DeletedArtifact(name=artifact.name, versions=numbers), fields=fields)
