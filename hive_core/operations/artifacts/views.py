"""Artifacts as their readers see them, and who reads and keeps which."""

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
    id: str = Field(description="This version; never used again.")
    name: str = Field(description="What it is called.")
    version: int = Field(description="Which one of that name, from 1 on.")
    owner: str = Field(description="Whose it is: its name now, or the last one of who is gone.")
    owner_uuid: str = Field(description="The identity of the owner.")
    author: str = Field(description="Who stored it: name, UUID of who is gone, or `operator`.")
    type: str = Field(description="What the author says that it is: a media type.")
    visibility: str = Field(description="private, subtree, user or global.")
    size: int = Field(description="Bytes.")
    digest: str = Field(description="SHA-256 of the bytes, in hex.")
    created: float = Field(description="When it was stored, in seconds since 1970.")
    latest: bool = Field(description="Whether no newer version is there.")


def artifact_row(call: Call, each: Artifact) -> ArtifactRow:
    return ArtifactRow(
        id=each.id, name=each.name, version=each.version,
        owner=call.hive.name(each.owner) or each.owner_name, owner_uuid=each.owner,
        author=call.hive.name(each.author) or each.author, type=each.type,
        visibility=each.visibility.value, size=each.size, digest=each.digest,
        created=each.created, latest=each.latest,
    )  # fmt: skip


def ancestor_uuids(call: Call, name: str) -> tuple[str, ...]:
    """UUIDs of the ancestors of an agent as they are now, the root first."""
    tree, found, at = call.hive.topology, list[str](), call.hive.topology.parent(name)
    while at is not None:
        found.append(call.hive.spec(at).id)
        at = tree.parent(at)
    return tuple(reversed(found))


def caller_as_reader(call: Call) -> ArtifactReader:
    """The caller, with all whose part of the tree it is in."""
    if call.by_operator:
        return ArtifactReader(call.uuid, frozenset(), everything=True)
    line = (*ancestor_uuids(call, call.caller), call.uuid)
    return ArtifactReader(call.uuid, frozenset(line) | call.ledger.artifacts.former_ancestors(line))


def newest_readable(call: Call, who: ArtifactReader, owner: str, name: str) -> Artifact | None:
    """The newest version of a name that this reader may read.

    Who stood above the owner keeps what was stored then, and not what was stored after a move.
    """
    versions = call.ledger.artifacts.newest(owner, name)
    return next((each for each in versions if may_read(each, who)), None)


def can_delete(call: Call, each: Artifact) -> bool:
    """Whether the caller may delete it: the owner, who is above it, and, when it is gone, who was
    above it when this was stored."""
    if call.by_operator or call.uuid == each.owner:
        return True
    owner = call.hive.name(each.owner)
    if owner is None:
        return call.uuid in each.lineage
    return relationship(call.hive, call.caller, owner) in (ITSELF, *ABOVE)


def owner_uuid(call: Call, who: str | None) -> str | None:
    """The UUID of an agent by name or UUID; of those who are gone, who had the name alone."""
    if who is None:
        return None if call.by_operator else call.uuid
    spec = call.hive.specs.get(who)
    if spec is not None:
        return spec.id
    if is_uuid(who):
        return who
    found = call.ledger.artifacts.owners(who)
    gone = [each for each in found if call.hive.name(each) is None]
    return gone[0] if len(gone) == 1 else None


def require_readable(call: Call, found: Artifact | None, called: str) -> Artifact:
    """What the caller may not read is not there."""
    if found is None or not may_read(found, caller_as_reader(call)):
        raise NotFound(f"no artifact {called[:200]}")
    return found
