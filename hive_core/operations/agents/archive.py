"""Destroying agents, and restoring them while their archive is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from hive_core.broker.call import Call, Change, EventTarget
from hive_core.broker.hooks import AgentDestroyed, emit
from hive_core.broker.login_rule import EACH, FRESH
from hive_core.broker.operation import Result, operation
from hive_core.errors import Expired, NotAllowed, NotFound
from hive_core.ledger.agents.archives import Archive
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.operations.agents.revocation import (
    RevocationOptions,
    running_agents,
    start_revocation,
)
from hive_core.operations.approvals.outcome import end_approvals_of, spec_without_trial
from hive_core.operations.budgets.payer_changes import former_payers, rebill_adopted_children
from hive_core.operations.fields import WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.lifecycle.child_exits import tell_parents
from hive_core.operations.lifecycle.operations import ScopeParams, agents_in_scope
from hive_core.operations.notices import ADOPTED, RESTORED, inbox, send_notice, senders
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.plan.revocation import losing
from hive_core.policy.grants import restored_spec
from hive_core.policy.rules import ANCESTOR, OPERATOR


class Destroyed(Result):
    agents: list[str] = Field(description="Names of the destroyed agents, leaves first.")
    adopted: list[str] = Field(description="Children that remain, now one level higher.")
    adopter: str | None = Field(description="Their new parent; null when they are roots now.")
    job: str = Field(
        description="The job; it ends when none of the agents runs and their storage is archived."
    )


class RestoreParams(WaitParams):
    id: str = Field(max_length=64, description="The archive: the UUID of the agent.")


class Restored(Result):
    name: str = Field(description="The name, as before.")
    uuid: str = Field(description="The UUID, as before.")
    parent: str | None = Field(
        description="The old parent, or the root agent if the old parent was destroyed."
    )
    lost: list[str] = Field(
        description="Capabilities that the agent lost: its parent does not hold them, or an"
        " ancestor lost them meanwhile."
    )
    disallowed: list[str] = Field(
        description="Agents removed from its allow-list, because its parent may not write to them:"
        " names, or UUIDs of destroyed ones."
    )
    restarts: list[str] = Field(
        description="Agents that are restarted: former ancestors that are no longer ancestors,"
        " with all agents below them."
    )
    job: str = Field(
        description="The job; it ends when the agent runs and no agent that lost access holds a"
        " file of it open."
    )


class ListArchivesParams(Paged):
    after: str | None = Field(
        None,
        pattern=r"^[0-9]{1,12}(\.[0-9]{1,20})?:[0-9a-f-]{36}$",
        description="`next` of the page before; absent: the first page.",
    )


class ArchiveRow(Result):
    id: str = Field(description="The UUID of the agent; `restore` takes it.")
    name: str = Field(description="The name of the agent when it was destroyed.")
    parent: str | None = Field(
        description="Name of the parent, or its UUID if the parent was destroyed too."
    )
    destroyed_at: float = Field(description="When it was destroyed, in seconds since 1970.")
    expires_at: float = Field(
        description="When its storage will be deleted, in seconds since 1970."
    )


class ArchivePage(Page):
    archives: list[ArchiveRow] = Field(description="The archives, the oldest first.")


@operation(
    action="destroy",
    allow=ANCESTOR | OPERATOR,
    target="agent",
    urgent=True,
    idempotent=True,
    login=FRESH,
)
def destroy(call: Call, params: ScopeParams) -> Change[Destroyed]:
    """Destroy an agent. Its storage is archived for a day; the operator can restore it.

    Children that are not destroyed with it go to the nearest living ancestor. Its unread messages
    become dead letters of their senders. Its name is free again; its UUID is never used again.
    """
    return destroy_agents(call, params.agent, recursive=params.recursive)


def destroy_agents(
    call: Call, agent: str, *, recursive: bool = False, why: str = ""
) -> Change[Destroyed]:
    """Destroy an agent, and with `recursive` its descendants; every removal of an agent calls this.

    The storage is archived, and remaining children are adopted.
    """
    _check_not_the_root_agent(call, agent)
    gone = agents_in_scope(call, agent, recursive=recursive)
    orphans = () if recursive else call.hive.topology.children(agent)
    hive = call.hive.without(*gone)
    paying = former_payers(call, call.hive.spec(agent).id) if orphans else []
    for name in gone:
        _archive_agent(call, name)
    rebill_adopted_children(replace(call, hive=hive), orphans, paying)
    adopter = call.hive.topology.parent(agent) if orphans else None
    _tell_family(call, hive, agent, orphans)
    goals = {call.hive.spec(name).id: "absent" for name in gone}
    job = create_job(call, "destroy", goals)
    others = f" and {len(gone) - 1} below it" if len(gone) > 1 else ""
    return Change(
        Destroyed(agents=list(gone), adopted=list(orphans), adopter=adopter, job=job),
        hive,
        why or f"destroy {agent}{others}",
        fields={"agents": list(gone), "uuids": list(goals), "adopted": list(orphans)},
    )


@operation(action="administer", allow=OPERATOR, login=EACH)
def restore(call: Call, params: RestoreParams) -> Change[Restored]:
    """Restore a destroyed agent from its archive, and start it.

    It keeps its UUID, spec, storage and dead letters. Its name must be free. Its parent is the old
    parent, or the root agent when the old parent was destroyed; its children stay with the agents
    that adopted them. Rights that its family lost meanwhile are not restored: the agent holds no
    capability that its parent does not hold or that an ancestor lost, and its allow-list has no
    agent to which its parent may not write. The reply and a message to the agent list what was
    removed.
    """
    archive = call.ledger.archives.get(params.id)
    if archive is None:
        raise NotFound(
            f"no destroyed agent {params.id}; `hive restore` lists those that can be restored"
        )
    if archive.expires <= call.now:
        raise Expired(f"cannot restore {archive.name}: its archive has expired")
    spec = AgentSpec.model_validate_json(archive.spec)
    parent = _restored_parent(call, archive)
    restored = restored_spec(call.hive, parent, spec)
    lost, disallowed = _lost_rights(call.hive, spec, restored)
    hive = call.hive.with_agent(archive.name, parent, restored)
    if lost:
        call.ledger.archives.strike_capabilities({archive.uuid: lost})
    lost = sorted({*lost, *archive.struck})
    job = create_job(call, "restore", {archive.uuid: "running"})
    apart = _former_ancestors(hive, archive)
    start_revocation(call, hive, archive.name, apart, RevocationOptions(job, came_back=True))
    _reopen_agent(call, archive.uuid)
    _tell_lost_rights(call, hive, archive.name, _without_phrase(lost, disallowed))
    call.notify(f"run:{archive.uuid}")
    return Change(
        Restored(
            name=archive.name, uuid=archive.uuid, parent=parent, lost=lost, disallowed=disallowed,
            restarts=running_agents(call, hive, losing(hive, apart, archive.name)), job=job,
        ),
        hive, f"restore {archive.name}{_without_phrase(lost, disallowed)}",
        fields={"uuid": archive.uuid, "lost": lost, "disallowed": disallowed},
        target=EventTarget(archive.uuid, archive.name),
    )  # fmt: skip


def _former_ancestors(hive: Hive, archive: Archive) -> list[str]:
    """The living agents that were above the agent when it was destroyed, and are not now."""
    above = [name for uuid in archive.above if (name := hive.name(uuid)) is not None]
    return [name for name in above if name not in hive.topology.lineage(archive.name)]


def _reopen_agent(call: Call, uuid: str) -> None:
    """Replace the archive of an agent in the ledger by what a living agent has there."""
    ledger = call.ledger
    ledger.archives.drop(uuid)
    ledger.messages.reopen(uuid)
    ledger.ranges.allocate(uuid, call.settings.uid_start, call.now)
    ledger.runs.want(uuid, DesiredState.RUNNING, call.now, reason="restored")


@operation(action="administer", allow=OPERATOR)
def list_archives(call: Call, params: ListArchivesParams) -> ArchivePage:
    """List the destroyed agents that can still be restored, the oldest first."""
    at, _, uuid = (params.after or "").partition(":")
    after = (float(at), uuid) if at else None
    archives = call.ledger.archives.page(call.now, params.most + 1, after)
    shown = (_archive_row(call, archive) for archive in archives[: params.most])
    rows = list(take_fitting(shown, lambda row: reply_bytes(row.name)))
    last = rows[-1] if len(rows) < len(archives) else None
    return ArchivePage(archives=rows, next=f"{last.destroyed_at!r}:{last.id}" if last else None)


def _archive_row(call: Call, archive: Archive) -> ArchiveRow:
    return ArchiveRow(
        id=archive.uuid,
        name=archive.name,
        parent=call.hive.name(archive.parent or "") or archive.parent,
        destroyed_at=archive.at,
        expires_at=archive.expires,
    )


def _check_not_the_root_agent(call: Call, name: str) -> None:
    root = call.settings.root
    if name == root.name and root.autostart and call.hive.topology.parent(name) is None:
        raise NotAllowed(
            f"cannot destroy {name}: hived keeps the root agent running (`[root] autostart`)"
        )


def _archive_agent(call: Call, name: str) -> None:
    """Archive one agent in the ledger.

    The row in `runs` stays until the archive is deleted, so that a restored agent never gets the
    nonce of an old exit again.
    """
    spec = spec_without_trial(call, call.hive.spec(name))
    lineage = [call.hive.spec(ancestor).id for ancestor in call.hive.topology.lineage(name)]
    ends = call.now + call.settings.retention.archive
    call.ledger.archives.put(Archive(
        spec.id, name, spec.model_dump_json(), lineage[0] if lineage else None, call.now, ends,
        above=tuple(reversed(lineage)),
    ))  # fmt: skip
    call.ledger.runs.want(spec.id, DesiredState.STOPPED, call.now, reason="destroyed")
    end_approvals_of(call, spec.id)
    emit(call, AgentDestroyed(spec.id, name))
    dead = call.ledger.messages.dead_letter(spec.id, f"{name} was destroyed", call.now)
    call.notify(*senders(dead), f"run:{spec.id}", inbox(spec.id))


def _tell_family(call: Call, hive: Hive, gone: str, orphans: Sequence[str]) -> None:
    """Notify the adopter and the adopted children (row K9); roots have no adopter."""
    adopter = call.hive.topology.parent(gone)
    for name in orphans:
        body = f"{gone} was destroyed; {_parent_phrase(adopter)}"
        send_notice(call, hive, name, ADOPTED, body)
    if orphans and adopter is not None:
        names = ", ".join(orphans)
        body = f"{gone} was destroyed; its children are yours now: {names}"
        send_notice(call, hive, adopter, ADOPTED, body)
    else:
        tell_parents(call, hive, [gone], "destroyed")


def _parent_phrase(adopter: str | None) -> str:
    return "you are a root now" if adopter is None else f"your parent is {adopter} now"


def _lost_rights(hive: Hive, before: AgentSpec, after: AgentSpec) -> tuple[list[str], list[str]]:
    """Capabilities, and agents of the allow-list, that a restored agent loses."""
    lost = [word for word in before.capabilities if word not in after.capabilities]
    gone = [str(uuid) for uuid in before.allow if uuid not in after.allow]
    return lost, sorted(hive.name(uuid) or uuid for uuid in gone)


def _without_phrase(lost: Sequence[str], disallowed: Sequence[str]) -> str:
    parts = [*lost, *(f"writing to {agent}" for agent in disallowed)]
    return f" without {', '.join(parts)}" if parts else ""


def _tell_lost_rights(call: Call, hive: Hive, name: str, without: str) -> None:
    if without:
        send_notice(call, hive, name, RESTORED, f"you were restored{without}")


def _restored_parent(call: Call, archive: Archive) -> str | None:
    if archive.parent is None:
        return None
    root = call.settings.root.name
    return call.hive.name(archive.parent) or (root if root in call.hive.topology else None)
