"""How everybody is, in one listing; and zombies that are cleared away by hand (row K36).

Both are about the caller and what is below it. The maid is no ancestor of those whom it looks
after: what it may here is bounded by the place of its parent, and no more of it than this.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.errors import Conflict
from hive_core.model.agents.agent import Profile
from hive_core.model.agents.machine import State
from hive_core.model.work.task import AWAITING, Task
from hive_core.operations.agents.archive import destroy_agents
from hive_core.operations.lifecycle.zombies import living_names
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.policy.rules import SELF

_UP = frozenset({State.RUNNING, State.DEGRADED})
_SHOWN = 50
_AT_ONCE = 20


class SurveyParams(Paged):
    limit: int = Field(
        100, ge=1, le=2000, description="Agents in a page at most; no page has more than 100."
    )


class SurveyRow(Result):
    name: str = Field(description="Name among the living.")
    uuid: str = Field(description="The identity.")
    parent: str | None = Field(description="Name of the parent; null for a root.")
    role: str = Field(description="What the agent is for.")
    state: str = Field(description="State of the machine.")
    activity: str = Field(description="What the agent is at: idle, running or blocked.")
    ended_at: float | None = Field(description="When it ended, of a zombie; null of all others.")
    orphan: bool = Field(description="Whether it runs, and its parent failed or was stopped.")
    tasks: int = Field(description="Open tasks that it has.")
    quiet: float | None = Field(
        description="Seconds since the last word of the task that it says least of; null: none"
        " that it works at."
    )
    unanswered: float | None = Field(
        description="Seconds since the oldest question was put to it that it did not answer."
    )


class CheckRow(Result):
    name: str = Field(description="What the operator called it.")
    command: list[str] = Field(description="What it runs.")
    every: float = Field(description="Seconds from the end of one to the next.")
    seconds: float = Field(description="Seconds that it may take.")


class Survey(Page):
    agents: list[SurveyRow] = Field(description="Each agent, then what is below it.")
    left_overs: list[str] = Field(
        description="What is on this host and belongs to nobody: for the maid and the operator."
    )
    first: float = Field(description="Seconds after which a maid looks around first.")
    every: float = Field(description="Seconds between two looks.")
    quiet: float = Field(description="Seconds without a word after which work seems stuck.")
    checks: list[CheckRow] = Field(
        description="What the operator wants to have checked: for the maid, on the first page."
    )


class ReapZombiesParams(Mutation):
    older: float = Field(0.0, ge=0, description="Only who ended this many seconds ago, or earlier.")


class ReapedZombies(Result):
    agents: list[str] = Field(description="Who is gone, at most 20 of them.")


@operation(action="read", allow=SELF)
def survey(call: Call, params: SurveyParams) -> Survey:
    """Tell how the caller and everybody below it are; the maid, how all below its parent are."""
    order = _scope(call)
    start = 0 if params.after is None else _page_start(call, order, params.after)
    chosen = order[start : start + params.most]
    rows = list(fitting(_rows(call, chosen), lambda row: written(row.name)))
    end = start + len(rows) >= len(order)
    figures = call.settings.daemons
    return Survey(
        agents=rows, next=None if end else rows[-1].uuid, left_overs=_left_overs(call),
        first=figures.first, every=figures.every, quiet=figures.quiet,
        checks=_checks(call) if params.after is None else [],
    )  # fmt: skip


@operation(action="work", allow=SELF)
def reap_zombies(call: Call, params: ReapZombiesParams) -> Change[ReapedZombies] | ReapedZombies:
    """Clear away the zombies below the caller; the maid, those below its parent.

    That is what happens to them after a while anyway. How they ended can still be asked for.
    """
    most = call.now - params.older
    zombies = living_names(call, call.ledger.lives.zombies()).intersection(_scope(call))
    chosen = sorted(name for name in zombies if _end_time(call, name) <= most)[:_AT_ONCE]
    if not chosen:
        return ReapedZombies(agents=[])
    now, wakes = call, frozenset[str]()
    for name in chosen:
        change = destroy_agents(now, name)
        now, wakes = now._replace(hive=change.hive), wakes | change.wakes
    message = f"reap {', '.join(chosen)}"
    return Change(ReapedZombies(agents=chosen), now.hive, message, wakes, {"agents": chosen})


def _is_maid(call: Call) -> bool:
    spec = call.hive.specs.get(call.caller)
    return spec is not None and spec.profile is Profile.MAID


def _scope(call: Call) -> list[str]:
    """Names below the caller and its own, in the order of the tree."""
    tree = call.hive.topology
    if call.by_operator:
        return sorted(tree.parents, key=lambda name: tree.numbering[name])
    top = (tree.parent(call.caller) if _is_maid(call) else None) or call.caller
    return sorted(tree.subtree(top), key=lambda name: tree.numbering[name])


def _page_start(call: Call, order: list[str], after: str) -> int:
    name = call.hive.name(after)
    if name not in order:
        raise Conflict("the tree has changed since the page before; list it again")
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
    """Whether somebody is there for its children: asleep is there."""
    state = call.states.state(call.hive.spec(parent).id)
    return state not in (State.STOPPED, State.FAILED, State.PARKED)


def _silence(call: Call, tasks: Iterable[Task]) -> float | None:
    """Waiting for an answer is no silence of its own; not to begin what was offered is one."""
    held = [each for each in tasks if each.held]
    counted = [each for each in held if each.begun] or held
    silent = (each for each in counted if each.state not in AWAITING)
    return max((call.now - _last_word(call, each) for each in silent), default=None)


def _last_word(call: Call, task: Task) -> float:
    numbers = call.ledger.tasks.last_events(task.id, 1)
    event = call.ledger.events.get(numbers[-1]) if numbers else None
    begun = task.started or task.created
    return begun if event is None else max(begun, event.time)


def _left_overs(call: Call) -> list[str]:
    if not (call.by_operator or _is_maid(call)):
        return []
    return [each.text for each in call.states.plan().reports[:_SHOWN]]


def _checks(call: Call) -> list[CheckRow]:
    """The maid's business alone: a command may say what not everybody should know."""
    if not _is_maid(call):
        return []
    return [
        CheckRow(
            name=name, command=list(each.command), every=each.every, seconds=each.seconds
        )
        for name, each in call.settings.maid.checks.items()
    ]  # fmt: skip
