"""Artifacts as readers see them, and which agents may read and delete them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.errors import NotFound
from hive_core.model.names import is_uuid
from hive_core.model.work.artifact import Artifact, ArtifactReader, may_read
from hive_core.policy.relationship import ABOVE, ITSELF, relationship

Id = Annotated[str, Field(max_length=64)]
Whom = Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(max_length=520)]
VisibilityName = Literal["private", "subtree", "user", "global"]


class ArtifactRow(Result):
    id: str = Field(description="The id of this version; never used again.")
    name: str = Field(description="The name of the artifact.")
    version: int = Field(description="The number of this version of the name, from 1 on.")
    owner: str = Field(description="The name of the owner; its last name after it is destroyed.")
    owner_uuid: str = Field(description="The UUID of the owner.")
    author: str = Field(
        description="The party that stored it: a name, the UUID of a destroyed agent, or"
        " `operator`."
    )
    type: str = Field(description="The media type, as the author gave it.")
    visibility: str = Field(description="private, subtree, user or global.")
    size: int = Field(description="The size in bytes.")
    digest: str = Field(description="SHA-256 of the bytes, in hex.")
    created: float = Field(description="When it was stored, in seconds since 1970.")
    latest: bool = Field(description="Whether it is the newest version.")


def artifact_row(call: Call, artifact: Artifact) -> ArtifactRow:
    return ArtifactRow(
        id=artifact.id, name=artifact.name, version=artifact.version,
        owner=call.hive.name(artifact.owner) or artifact.owner_name, owner_uuid=artifact.owner,
        author=call.hive.name(artifact.author) or artifact.author, type=artifact.type,
        visibility=artifact.visibility.value, size=artifact.size, digest=artifact.digest,
        created=artifact.created, latest=artifact.latest,
    )  # fmt: skip


def ancestor_uuids(call: Call, name: str) -> tuple[str, ...]:
    """UUIDs of the ancestors of an agent as they are now, the root first."""
    tree, uuids, at = call.hive.topology, list[str](), call.hive.topology.parent(name)
    while at is not None:
        uuids.append(call.hive.spec(at).id)
        at = tree.parent(at)
    return tuple(reversed(uuids))


def caller_as_reader(call: Call) -> ArtifactReader:
    """The caller, with its present ancestors and the destroyed ones."""
    if call.by_operator:
        return ArtifactReader(call.uuid, frozenset(), everything=True)
    line = (*ancestor_uuids(call, call.caller), call.uuid)
    former = call.ledger.artifacts.former_ancestors(line)
    return ArtifactReader(call.uuid, frozenset(line) | former)


def newest_readable(call: Call, reader: ArtifactReader, owner: str, name: str) -> Artifact | None:
    """The newest version of a name that this reader may read.

    A former ancestor of the owner may read what was stored before a move, and nothing later.
    """
    versions = call.ledger.artifacts.newest(owner, name)
    return next((version for version in versions if may_read(version, reader)), None)


def can_delete(call: Call, artifact: Artifact) -> bool:
    """Whether the caller may delete it: as the owner, or as an ancestor of the owner.

    If the owner is destroyed, those that were its ancestors when this was stored may.
    """
    if call.by_operator or call.uuid == artifact.owner:
        return True
    owner = call.hive.name(artifact.owner)
    if owner is None:
        return call.uuid in artifact.lineage
    return relationship(call.hive, call.caller, owner) in (ITSELF, *ABOVE)


def owner_uuid(call: Call, owner: str | None) -> str | None:
    """The UUID of an owner by name or UUID; None when no owner, or more than one, had the name.

    None stands for the caller; for the operator, for all owners.
    """
    if owner is None:
        return None if call.by_operator else call.uuid
    spec = call.hive.specs.get(owner)
    if spec is not None:
        return spec.id
    if is_uuid(owner):
        return owner
    owners = call.ledger.artifacts.owners(owner)
    destroyed = [uuid for uuid in owners if call.hive.name(uuid) is None]
    return destroyed[0] if len(destroyed) == 1 else None


def require_readable(call: Call, artifact: Artifact | None, label: str) -> Artifact:
    """The artifact; NotFound when there is none, or when the caller may not read it."""
    if artifact is None or not may_read(artifact, caller_as_reader(call)):
        raise NotFound(f"no artifact {label[:200]}")
    return artifact
