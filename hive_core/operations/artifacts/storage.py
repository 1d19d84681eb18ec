"""Storing artifacts: files that agents keep for later and for each other, by name and version."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Later, Ready, Record, SlowReadSources
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.ledger.artifacts.storage import NewArtifact
from hive_core.model.agents.capability import covers
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.artifact import Artifact, UploadLimits, Visibility, name_fault
from hive_core.operations.artifacts.views import Id, Name, VisibilityName, ancestor_uuids
from hive_core.operations.fields import Agent, also, bounded_text
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF, holds

INLINE: Final = 512 * 1024
_BASE64: Final = (INLINE + 2) // 3 * 4


def _check_name(name: str) -> str:
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


Data = Annotated[str, Field(max_length=_BASE64, description="Bytes in base64.")]


class BeginArtifactParams(Params):
    """Nothing.

    This is not a mutation: an upload does not outlive the daemon, so a repeated call has no first
    result to return.
    """


class BegunUpload(Result):
    upload: str = Field(
        description="The id of the upload; the daemon drops an upload that gets no part for long."
    )


class AppendArtifactParams(Params):
    """The offset tells a new part from a repeated one."""

    upload: Id = Field(description="The id of the upload.")
    offset: int = Field(ge=0, description="The number of bytes before this part.")
    data: Data = Field(description="The next bytes in base64, at most 512 KiB of them.")


class AppendedPart(Result):
    size: int = Field(description="The number of bytes in the upload now.")


class StoreArtifactParams(Mutation):
    name: Annotated[Name, AfterValidator(_check_name)] = Field(
        validation_alias=also("name", "key"),
        description="The name, such as reports/today.md. An existing name gets a new version."
        " Also `key`.",
    )
    owner: Agent | None = Field(None, description="The owner; the caller when absent.")
    type: str = Field(
        "application/octet-stream", max_length=100,
        pattern=r"^[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*$", description="The media type.",
    )  # fmt: skip
    visibility: VisibilityName = Field(
        "private",
        description="Other agents that may read it: none (private), the ancestors and descendants"
        " of the owner (subtree), all agents under the same root (user), or all agents (global).",
    )
    text: Annotated[str, bounded_text(INLINE)] | None = Field(
        None, description="The content as text, at most 512 KiB."
    )
    data: Data | None = Field(None, description="Or its bytes in base64, at most 512 KiB of them.")
    upload: Id | None = Field(None, description="Or the id of a complete upload.")


class StoredArtifact(Result):
    id: str = Field(description="The id of this version.")
    name: str = Field(description="The name of the artifact.")
    version: int = Field(description="The number of this version of the name.")
    size: int = Field(description="The size in bytes.")
    digest: str = Field(description="SHA-256 of the bytes, in hex.")


_WRITER: Final = OPERATOR | (SELF | ANCESTOR) & holds("artifact.write")


@operation(action="write_artifact", allow=SELF)
def begin_artifact(call: Call, _params: BeginArtifactParams) -> BegunUpload:
    """Begin an upload in parts. `append_artifact` sends the parts, `store_artifact` names it.

    An upload that was not stored is lost when the daemon restarts.
    """
    _check_capability(call, "send an artifact", "artifact.write")
    most = call.settings.artifacts.uploads
    return BegunUpload(upload=call.contents.begin(call.uuid, most))


@operation(action="write_artifact", allow=SELF)
def append_artifact(call: Call, params: AppendArtifactParams) -> Later[AppendedPart]:
    """Send the next part of an upload. The last part may be sent again."""
    _check_capability(call, "send an artifact", "artifact.write")
    data, limits = _decode(params.data), call.settings.artifacts
    size = params.offset + len(data)
    if size > limits.size:
        raise LimitReached(f"cannot append: an artifact has at most {limits.size} bytes")
    _check_agent_quota(
        call, call.uuid, call.contents.pending_bytes(call.uuid) + len(data), "append"
    )
    if call.contents.pending_bytes() + len(data) > limits.tree:
        raise LimitReached(
            "cannot append: the uploads of all agents together are too large; try again later",
            retry_after=60,
        )
    room = UploadLimits(limits.agent - call.ledger.artifacts.usage(call.uuid)[0], limits.tree)

    async def append(_sources: SlowReadSources) -> AppendedPart:
        part = call.uuid, params.upload, params.offset, data, room
        return AppendedPart(size=await call.contents.append(*part))

    return Later(append)


@operation(action="write_artifact", allow=_WRITER, target="owner", preposition="of")
def store_artifact(
    call: Call, params: StoreArtifactParams
) -> Record[StoredArtifact] | Later[StoredArtifact]:
    """Store a content under a name. It stays after its author is destroyed.

    An existing name gets a new version, and the oldest versions beyond a limit are deleted. The
    owner, its ancestors and the operator may store under the owner's names.
    """
    owner = params.owner or call.caller
    if owner == THE_OPERATOR:
        raise InvalidArgument("name the agent that owns it", field="owner")
    visibility = Visibility(params.visibility)
    if visibility is Visibility.GLOBAL:
        _check_capability(call, "store for all agents", "artifact.global")
    size = _content_size(call, params)
    new = NewArtifact(
        call.hive.spec(owner).id, owner, call.uuid, params.name, params.type, visibility,
        ancestor_uuids(call, owner),
    )  # fmt: skip
    _check_room(call, new, size)
    upload = params.upload if params.upload is not None else call.read_result
    content = call.contents.place(call.uuid, upload) if isinstance(upload, str) else None
    if content is None:
        return _settle_content(call, params)
    stored = call.ledger.artifacts.store(new, content, call.now)
    _remove_old_versions(call, stored)
    call.notify(f"artifact:{stored.owner}", "artifact")
    result = StoredArtifact(
        id=stored.id, name=stored.name, version=stored.version, size=stored.size,
        digest=stored.digest,
    )  # fmt: skip
    fields = {
        "artifact": stored.id, "name": stored.name, "version": stored.version,
        "size": stored.size, "visibility": stored.visibility.value,
    }  # fmt: skip
    return Record(result, fields=fields)


def _check_capability(call: Call, intent: str, capability: str) -> None:
    if call.by_operator or covers(call.hive.spec(call.caller).capabilities, capability):
        return
    reason = f"cannot {intent}: you do not hold the capability {capability}"
    raise NotAllowed(reason, rule=f"holds({capability})")


def _content_size(call: Call, params: StoreArtifactParams) -> int:
    sources = [name for name in ("text", "data", "upload") if getattr(params, name) is not None]
    if len(sources) != 1:
        raise InvalidArgument("set one of text, data and upload", field="data")
    if params.upload is not None:
        return call.contents.size(call.uuid, params.upload)
    return len(_inline_content(params))


def _inline_content(params: StoreArtifactParams) -> bytes:
    return params.text.encode() if params.text is not None else _decode(params.data or "")


def _settle_content(call: Call, params: StoreArtifactParams) -> Later[StoredArtifact]:
    """Write the bytes to disk outside the event loop; then run the call again."""
    limits, store = call.settings.artifacts, call.contents
    room = UploadLimits(limits.agent, limits.tree)

    async def settle(_sources: SlowReadSources) -> Ready:
        if params.upload is not None:
            return Ready(value=await store.settle(call.uuid, params.upload))
        return Ready(value=await store.keep(call.uuid, _inline_content(params), room))

    return Later(settle)


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("is not base64", field="data") from None
    if len(data) > INLINE:
        raise InvalidArgument(f"is longer than {INLINE} bytes", field="data")
    return data


def _check_agent_quota(call: Call, uuid: str, size: int, verb: str) -> None:
    most, (used, _) = call.settings.artifacts.agent, call.ledger.artifacts.usage(uuid)
    if used + size > most:
        raise LimitReached(f"cannot {verb}: {used} of {most} bytes are used; delete some first")


def _check_room(call: Call, new: NewArtifact, size: int) -> None:
    """Bound the bytes and versions of the owner, and of the tree that it is in."""
    limits, artifacts = call.settings.artifacts, call.ledger.artifacts
    if size > limits.size:
        raise LimitReached(f"cannot store {new.name}: it has more than {limits.size} bytes")
    for party, most, count in (
        (new.owner, limits.agent, limits.count),
        (f"tree:{new.root}", limits.tree, limits.tree_count),
    ):
        used, versions = artifacts.usage(party)
        whose = f"all under the root of {new.owner_name} have" if ":" in party else (
            f"{new.owner_name} has"
        )  # fmt: skip
        if used + size > most:
            raise LimitReached(f"cannot store {new.name}: {whose} {used} of {most} bytes")
        if versions >= count:
            raise LimitReached(f"cannot store {new.name}: {whose} {versions} versions")


def _remove_old_versions(call: Call, stored: Artifact) -> None:
    """Delete the oldest versions of a name, beyond the limit."""
    versions = call.ledger.artifacts.versions(stored.owner, stored.name)
    for version in versions[call.settings.artifacts.versions :]:
        call.ledger.artifacts.remove(version)
