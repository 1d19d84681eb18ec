"""Artifacts are read, listed and deleted. What one may not read is not there."""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

from pydantic import Field

from hive_core.broker.call import Call, Later, Reads, Ready, Record
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.work.artifact import Artifact, ArtifactReader, Content, may_read
from hive_core.operations.artifacts.views import (
    ArtifactRow,
    Id,
    Name,
    Whom,
    keeps,
    newest_for,
    party_of,
    readable,
    reader,
    shown,
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


class Part(Page):
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


class Deleted(Result):
    name: str = Field(description="What it was called.")
    versions: list[int] = Field(description="Those that are gone.")


@operation(action="read_artifact", allow=SELF)
def get_artifact(call: Call, params: GetArtifactParams) -> Part | Later[Part]:
    """Read an artifact in parts of at most 256 KiB; with `more` they follow each other.

    Each part is compared with what was stored before it is given.
    """
    found = _found(call, params)
    content = call.ledger.artifacts.content(found.digest)
    at = int(params.after or 0)
    if content is None or at > content.size:
        raise InvalidArgument("there is no such part", field="after")
    data = _read(call, content, at)
    if isinstance(data, Later):
        return data
    end = at + len(data)
    more = str(end) if data and end < content.size else None
    return Part(artifact=shown(call, found), data=base64.b64encode(data).decode(), next=more)


class _Read(NamedTuple):
    """Bytes of a content from a place on, or why they are not what was stored."""

    digest: str
    at: int
    data: bytes | str


def _read(call: Call, content: Content, at: int) -> bytes | Later[Part]:
    """Read and compared beside the loop. Only then, what is still there and damaged is an alarm."""
    found = call.brought
    if isinstance(found, _Read) and (found.digest, found.at) == (content.digest, at):
        if isinstance(found.data, str):
            raise call.contents.damaged(found.digest, found.data)
        return found.data

    async def read(_reads: Reads) -> Ready:
        return Ready(value=_Read(content.digest, at, await call.contents.read(content, at)))

    return Later(read)


def _found(call: Call, params: GetArtifactParams) -> Artifact:
    if (params.id is None) == (params.name is None):
        raise InvalidArgument("say an id or a name", field="id")
    kept = call.ledger.artifacts
    if params.id is not None:
        return readable(call, kept.get(params.id), params.id)
    owner, name = party_of(call, params.owner), params.name or ""
    found = None
    if owner is not None and params.version is not None:
        found = kept.named(owner, name, params.version)
    elif owner is not None:
        found = newest_for(call, reader(call), owner, name)
    whose = f" of {params.owner}" if params.owner else ""
    return readable(call, found, f"{name}{whose}")


@operation(action="read_artifact", allow=SELF)
def list_artifacts(call: Call, params: ListArtifactsParams) -> ArtifactRows:
    """List the artifacts that the caller may read. A page may be empty and not the last."""
    owner = party_of(call, params.author) if params.author is not None else None
    if params.author is not None and owner is None:
        return ArtifactRows(artifacts=[])
    who, at, found = reader(call), int(params.after or 0) if _number(params.after) else 0, []
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
    return _page(call, found, at, whole=whole and len(found) < params.most)


def _is_newest_for(call: Call, each: Artifact, who: ArtifactReader) -> bool:
    """Whether the reader may have this version, and no newer one of its name."""
    if not may_read(each, who):
        return False
    return each.latest or newest_for(call, who, each.owner, each.name) == each


def _number(text: str | None) -> bool:
    return text is not None and text.isdecimal()


def _page(call: Call, found: list[Artifact], at: int, *, whole: bool) -> ArtifactRows:
    rows = list(fitting([shown(call, each) for each in found], _written))
    if len(rows) < len(found):
        return ArtifactRows(artifacts=rows, next=str(found[len(rows) - 1].number))
    return ArtifactRows(artifacts=rows, next=None if whole else str(at))


def _written(row: ArtifactRow) -> int:
    return written(row.name, row.type)


@operation(action="write_artifact", allow=SELF)
def delete_artifact(call: Call, params: DeleteArtifactParams) -> Record[Deleted]:
    """Delete a version of an artifact, or all of its name.

    The owner may, who is above it, and, when it is gone, who was when this was stored.
    """
    kept = call.ledger.artifacts
    found = kept.get(params.id)
    if found is None or not (keeps(call, found) or may_read(found, reader(call))):
        found = readable(call, None, params.id)
    if not keeps(call, found):
        reason = f"cannot delete {found.name}: it is neither yours nor of one below you"
        raise NotAllowed(reason, rule="keeper")
    gone = kept.versions(found.owner, found.name) if params.all else [found]
    for each in gone:
        kept.remove(each)
    fields = {"artifact": found.id, "name": found.name, "versions": len(gone)}
    result = Deleted(name=found.name, versions=sorted(each.version for each in gone))
    return Record(result, frozenset({"artifact", f"artifact:{found.owner}"}), fields)
