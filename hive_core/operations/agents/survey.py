"""The state of all agents in one listing, and the removal of zombies by hand (row K36).

Both concern the caller and its descendants. The maid is not an ancestor of the agents that it looks
after: only these operations let it act on the descendants of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict
from hive_core.model.agents.agent import Profile
from hive_core.model.agents.machine import State
from hive_core.model.work.task import AWAITING, Task
from hive_core.operations.agents.archive import destroy_agents
from hive_core.operations.lifecycle.zombies import living_names
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.operations.tasks.offers import UNBEGUN
from hive_core.policy.rules import SELF

_UP = frozenset({State.RUNNING, State.DEGRADED})
_SHOWN = 50
_AT_ONCE = 20


class SurveyParams(Paged):
    limit: int = Field(
        100, ge=1, le=2000, description="Maximum number of agents in a page, at most 100."
    )


class SurveyRow(Result):
    name: str = Field(description="Name of the agent.")
    uuid: str = Field(description="UUID of the agent.")
    parent: str | None = Field(description="Name of the parent; null for a root.")
    role: str = Field(description="Role of the agent.")
    state: str = Field(description="State of the machine.")
    activity: str = Field(description="What the agent is doing: idle, running or blocked.")
    ended_at: float | None = Field(description="When it ended, of a zombie; null for others.")
    orphan: bool = Field(description="Whether it runs while its parent has failed or was stopped.")
    tasks: int = Field(description="Number of its open tasks.")
    quiet: float | None = Field(
        description="Seconds since the last report of the task with the oldest one; null: it works"
        " on no task."
    )
    unanswered: float | None = Field(
        description="Seconds for which its oldest unanswered question has waited."
    )


class CheckRow(Result):
    name: str = Field(description="Name of the check.")
    command: list[str] = Field(description="Command of the check.")
    every: float = Field(description="Seconds from the end of one run to the start of the next.")
    seconds: float = Field(description="Time limit of a run, in seconds.")


class Survey(Page):
    agents: list[SurveyRow] = Field(description="The agents; each is followed by its descendants.")
    left_overs: list[str] = Field(
        description="Orphaned units and files on this host; for the maid and the operator only."
    )
    first: float = Field(description="Seconds until the first survey of a maid.")
    every: float = Field(description="Seconds between two surveys.")
    quiet: float = Field(description="Seconds without a report after which work counts as stuck.")
    checks: list[CheckRow] = Field(
        description="Checks that the operator configured; for the maid, on the first page."
    )


class ReapZombiesParams(Mutation):
    older: float = Field(
        0.0, ge=0, description="Only zombies that ended at least this many seconds ago."
    )


class ReapedZombies(Result):
    agents: list[str] = Field(description="Names of the destroyed agents, at most 20.")


@operation(action="read", allow=SELF)
def survey(call: Call, params: SurveyParams) -> Survey:
    """Report the state of the caller and all its descendants; for the maid, those of its parent."""
    order = _scope(call)
    start = 0 if params.after is None else _page_start(call, order, params.after)
    chosen = order[start : start + params.most]
    rows = list(take_fitting(_rows(call, chosen), lambda row: reply_bytes(row.name)))
    end = start + len(rows) >= len(order)
    figures = call.settings.daemons
    return Survey(
        agents=rows, next=None if end else rows[-1].uuid, left_overs=_left_overs(call),
        first=figures.first, every=figures.every, quiet=figures.quiet,
        checks=_checks(call) if params.after is None else [],
    )  # fmt: skip


@operation(action="work", allow=SELF, destructive=True)
def reap_zombies(call: Call, params: ReapZombiesParams) -> Change[ReapedZombies] | ReapedZombies:
    """Destroy the zombies below the caller; the maid, those below its parent.

    The daemon destroys them after a while anyway. `wait_child` still returns how they ended.
    """
    most = call.now - params.older
    zombies = living_names(call, call.ledger.lives.zombies()).intersection(_scope(call))
    chosen = sorted(name for name in zombies if _end_time(call, name) <= most)[:_AT_ONCE]
    if not chosen:
        return ReapedZombies(agents=[])
    after = call
    for name in chosen:
        after = replace(after, hive=destroy_agents(after, name).hive)
    message = f"reap {', '.join(chosen)}"
    return Change(ReapedZombies(agents=chosen), after.hive, message, fields={"agents": chosen})


def _is_maid(call: Call) -> bool:
    spec = call.hive.specs.get(call.caller)
    return spec is not None and spec.profile is Profile.MAID


def _scope(call: Call) -> list[str]:
    """Names of the caller and its descendants, in the order of the tree."""
    tree = call.hive.topology
    if call.by_operator:
        return sorted(tree.parents, key=lambda name: tree.numbering[name])
    top = (tree.parent(call.caller) if _is_maid(call) else None) or call.caller
    return sorted(tree.subtree(top), key=lambda name: tree.numbering[name])


def _page_start(call: Call, order: list[str], after: str) -> int:
    name = call.hive.name(after)
    if name not in order:
        raise Conflict("the tree has changed since the previous page; list it again")
    return order.index(name) + 1


def _end_time(call: Call, name: str) -> float:
    end = call.ledger.lives.last_end(call.hive.spec(name).id)
    return call.now if end is None else end.at


def _rows(call: Call, chosen: list[str]) -> Iterable[SurveyRow]:
    uuids = {name: call.hive.spec(name).id for name in chosen}
    zombies = call.ledger.lives.zombies()
    asked = call.ledger.questions.oldest_held(uuids.values())
    tasks = call.ledger.tasks.open_counts(uuids.values())
    for name, uuid in uuids.items():
        parent, spec = call.hive.topology.parent(name), call.hive.spec(name)
        state = call.states.state(uuid)
        yield SurveyRow(
            name=name, uuid=uuid, parent=parent, role=spec.role.value, state=state.value,
            activity=call.states.activity(uuid),
            ended_at=_end_time(call, name) if uuid in zombies else None,
            orphan=state in _UP and parent is not None and not _is_available(call, parent),
            tasks=tasks.get(uuid, 0),
            quiet=_silence(call, call.ledger.tasks.offered_tasks(uuid)) if uuid in tasks else None,
            unanswered=call.now - asked[uuid] if uuid in asked else None,
        )  # fmt: skip


def _is_available(call: Call, parent: str) -> bool:
    """Whether the parent can serve its children: a sleeping parent can."""
    state = call.states.state(call.hive.spec(parent).id)
    return state not in (State.STOPPED, State.FAILED, State.PARKED)


def _silence(call: Call, tasks: Iterable[Task]) -> float | None:
    """Seconds without a report.

    A task that waits for an answer is not silent; an offered task that the agent has not begun
    is silent.
    """
    held = [task for task in tasks if task.held]
    counted = [task for task in held if task.begun] or held
    silent = (task for task in counted if task.state not in AWAITING)
    return max((call.now - _last_word(call, task) for task in silent), default=None)


def _last_word(call: Call, task: Task) -> float:
    """When something happened to the task last. That nothing happens is an event as well."""
    begun = task.started or task.created
    events = call.ledger.events.some(call.ledger.tasks.last_events(task.id, 2))
    return max([begun, *(event.time for event in events if event.operation != UNBEGUN)])


def _left_overs(call: Call) -> list[str]:
    if not (call.by_operator or _is_maid(call)):
        return []
    return [orphan.text for orphan in call.states.plan().reports[:_SHOWN]]


def _checks(call: Call) -> list[CheckRow]:
    """The operator's checks, for the maid only: a command may contain something confidential."""
    if not _is_maid(call):
        return []
    return [
        CheckRow(
            name=name, command=list(check.command), every=check.every, seconds=check.seconds
        )
        for name, check in call.settings.maid.checks.items()
    ]  # fmt: skip
