"""The built-in queen: takes a task, chooses a strategy, delegates it, and reports (rows K33, K35).

She assigns a short task to a new one-shot agent and a longer one to a lead; a task that requests an
architect is planned first. When no plan succeeds, a lead works without one. A recurring task
becomes a trigger of the daemon. A model may replace `strategy` later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hive_core.agent import language
from hive_core.agent.agent_loop import StateFile, advance_tasks
from hive_core.agent.task_client import ChildAgent, TaskClient, TaskSnapshot
from hive_core.errors import HiveError, NotFound

SIMPLE, COMPLEX, ARCHITECT = "simple", "complex", "architect"
SHORT, LONG, COMPLEX_WORDS = 80, 200, 2
SIMPLE_SECONDS, LEAD_SECONDS = 120, 300
POOL_SECONDS: Final = 300.0  # for which an idle lead is kept
HISTORY: Final = 20
ALIKE: Final = 0.5
TRIES: Final = 2
REVISIONS: Final = 3
_ARCHITECT: Final = frozenset({"architect", "architecture", "blueprint"})
_SIMPLE: Final = frozenset(
    {"check", "count", "echo", "fail", "find", "get", "list", "max", "show", "sleep", "sort",
     "sum", "upper", "wc", "crash"}
)  # fmt: skip
_COMPLEX: Final = frozenset(
    {"analyze", "and", "build", "combine", "compare", "group", "implement", "research", "then",
     "workers"}
)  # fmt: skip


def words(text: str) -> set[str]:
    """The words of a task, without numbers, for comparing tasks."""
    return {word for word in text.lower().split() if word.isalpha()}


def strategy(text: str, history: list[dict[str, Any]]) -> tuple[str, str]:
    """The strategy, and the reason for it.

    The one that the task requests; otherwise that of a similar, successful task; otherwise by its
    words; otherwise complex, without a reason.
    """
    task_words = words(text)
    if language.asks_for_plan(text):
        return ARCHITECT, "asked for"
    for before in reversed(history[-HISTORY:]):
        known = set(before["words"])
        alike = len(task_words & known) / len(task_words | known) if task_words | known else 0.0
        if before["well"] and alike >= ALIKE:
            return str(before["strategy"]), "history"
    return _by_words(text, task_words)


def _by_words(text: str, task_words: set[str]) -> tuple[str, str]:
    many = len(task_words & _COMPLEX) >= COMPLEX_WORDS
    if task_words & _ARCHITECT:
        return ARCHITECT, "words"
    if len(text) < SHORT and task_words & _SIMPLE and not many:
        return SIMPLE, "words"
    return COMPLEX, "words" if many or len(text) > LONG else "default"


class Queen:
    """The queen: one on each host, below the root agent."""

    def __init__(self, client: TaskClient, memory: StateFile) -> None:
        self._client = client
        self._memory = memory
        self._idle: dict[str, float] = {}

    def on_message(self, letter: dict[str, Any]) -> None:
        """Nothing: the tasks say what to do."""

    def step(self) -> None:
        """Advance each task, then destroy leads that have been idle for long."""
        advance_tasks(self._client, self._advance)
        self._reap()

    def _advance(self, row: TaskSnapshot) -> None:
        text, _ = self._client.description(row)
        when, job = language.schedule_of(text)
        if when:
            self._set_trigger(row, when, job)
            return
        parts = self._client.parts(row)
        way = _strategy_of(parts) or self._choose_strategy(row, text)
        last = _last_try(parts, way)
        if last is not None and last.open:
            self._await_part(row, last)
        elif last is not None and last.succeeded:
            self._report_success(row, text, parts, last)
        elif way == ARCHITECT:
            self._advance_planned_task(row, text, parts)
        elif last is None or _count_tries(parts, way) < TRIES:
            self._delegate(row, way, text, _count_tries(parts, way) + 1)
        else:
            self._report_failure(row, text, parts, last)

    def _await_part(self, row: TaskSnapshot, part: TaskSnapshot) -> None:
        """Withdraw a part whose agent was stopped: it counts as a try, and there may be another."""
        if self._client.take_back(part):
            self._advance(row)

    def _choose_strategy(self, row: TaskSnapshot, text: str) -> str:
        way, why = strategy(text, self._memory.read().get("history", []))
        self._client.try_change("report_progress", task=row.id, text=f"{way} ({why})")
        return way

    def _set_trigger(self, row: TaskSnapshot, when: dict[str, object], job: str) -> None:
        """Set a trigger: the daemon assigns the job to the queen each time.

        A trigger that is set again under its name replaces the old one.
        """
        action = {"kind": "task", "text": job}
        try:
            made = self._client.change(
                "set_trigger", name=f"job-{row.id}", when=when, action=action
            )
        except HiveError as error:
            self._client.finish(row, "failed", f"cannot set a trigger: {error.reason}")
            return
        data = {"strategy": "recurring", "trigger": made["id"], "next": made["next"]}
        self._client.finish(row, "success", f"by a trigger, {made['explained']}", data=data)

    def _delegate(
        self, row: TaskSnapshot, way: str, text: str, number: int, **more: object
    ) -> None:
        title = f"{'lead' if way == ARCHITECT else way}.{number}"
        self._client.try_change("report_progress", task=row.id, text=f"{way}, try {number}")
        if way == SIMPLE:
            name = f"task-{row.id[:8]}-{number}"
            self._client.ensure_child(
                name, role="task", command=["hive-agent", "worker"], title="task"
            )
            more = {**more, "budget": language.parse(text).line_budget}
            seconds = SIMPLE_SECONDS
        else:
            name, seconds = self._lead_for(row, text), LEAD_SECONDS
        self._client.assign_part(
            row, name, title, text, deadline=seconds, context=row.context or None, **more
        )

    def _advance_planned_task(
        self, row: TaskSnapshot, text: str, parts: Mapping[str, TaskSnapshot]
    ) -> None:
        """The architect plans, the lead executes, and a failed plan returns to the architect.

        Without a plan, or after the last one failed, a lead works without a plan.
        """
        plans, runs = _count_tries(parts, "plan"), _count_tries(parts, "lead")
        plan = parts.get(f"plan.{plans}")
        if plan is not None and plan.open:
            self._await_part(row, plan)
        elif plan is not None and plan.succeeded and runs < plans:
            self._delegate(row, ARCHITECT, text, plans, **self._pass_plan_on(row, plan, plans))
        elif plans < REVISIONS and (plan is None or plan.succeeded):
            self._order_plan(row, text, parts, plans)
        else:
            self._delegate(row, COMPLEX, text, 1)

    def _pass_plan_on(self, row: TaskSnapshot, plan: TaskSnapshot, number: int) -> dict[str, Any]:
        """Store the architect's plan as an artifact of the queen, for all her descendants."""
        data, stored = {"plan": plan.data.get("result", plan.summary)}, list[str]()
        with suppress(NotFound):
            for artifact in plan.artifacts[:1]:
                text, key = (
                    self._client.read_artifact(artifact),
                    f"{row.id}:kept-plan.{number}",
                )
                stored = self._client.store(f"plan-{row.id}", text, "subtree", idempotency_key=key)
        if not stored:
            return {"data": data}
        return {"data": {"plan_artifact": stored[0]}, "artifacts": stored}

    def _order_plan(
        self, row: TaskSnapshot, text: str, parts: Mapping[str, TaskSnapshot], number: int
    ) -> None:
        """Assign a plan to the architect, which sleeps when idle; the mail wakes it.

        It has the highest tier that she may give. To revise a plan it reads the last one, which the
        queen keeps: so another architect can continue when the first one was destroyed.
        """
        name = f"architect-{row.id[:8]}"
        self._client.ensure_child(
            name, role="architect", command=["hive-agent", "worker"], wakes=True,
            title="architect", tier=self._client.tier(),
        )  # fmt: skip
        data: dict[str, object] = {"make": "plan"}
        if number:
            before, run = parts[f"plan.{number}"], parts[f"lead.{number}"]
            data |= {"faults": run.data.get("faults", [])}
            data |= self._pass_plan_on(row, before, number)["data"]
        self._client.assign_part(
            row, name, f"plan.{number + 1}", text, data=data, deadline=LEAD_SECONDS
        )

    def _lead_for(self, row: TaskSnapshot, text: str) -> str:
        """Choose an idle lead of the same domain; idle leads of other domains are destroyed."""
        domain = language.parse(text).domain
        title = f"lead {domain}".strip()
        busy = {lead.agent for lead in self._client.delegated_tasks()}
        idle = [lead for lead in self._leads() if lead.name not in busy]
        same = next((lead for lead in idle if lead.title == title), None)
        for lead in idle:
            if lead.title != title:
                self._client.destroy_child(lead.name)
        name = same.name if same is not None else f"lead-{row.id[:8]}"
        self._client.ensure_child(
            name, role="lead", command=["hive-agent", "lead"], title=title, parallel=1
        )
        return name

    def _report_success(
        self, row: TaskSnapshot, text: str, parts: Mapping[str, TaskSnapshot], last: TaskSnapshot
    ) -> None:
        result = str(last.data.get("result", last.summary))
        self._remember(row, text, parts, well=True)
        stored = self._client.store(f"result-{row.id}", result)
        data = {"result": result, **_strategy_data(parts), "by": last.agent}
        self._client.finish(row, last.status, result, data=data, artifacts=stored or None)
        self._close_task(row, last.status, result)

    def _report_failure(
        self, row: TaskSnapshot, text: str, parts: Mapping[str, TaskSnapshot], last: TaskSnapshot
    ) -> None:
        self._remember(row, text, parts, well=False)
        data = {**_strategy_data(parts), "by": last.agent, "faults": last.data.get("faults", [])}
        self._client.finish(row, "failed", last.why, data=data)
        self._close_task(row, "failed", last.why)

    def _close_task(self, row: TaskSnapshot, status: str, said: str) -> None:
        """Report the result of a triggered task to the parent, and destroy the architect."""
        if row.assigner == self._client.name and (above := self._client.ask("whoami")["parent"]):
            body = f"task: {row.id}\nstatus: {status}\n\n{said[:_TOLD]}"
            key = f"{row.id}:told"
            self._client.try_change("send", to=above, body=body, kind="result", idempotency_key=key)
        name = f"architect-{row.id[:8]}"
        if name in self._client.children():
            self._client.destroy_child(name)

    def _leads(self) -> list[ChildAgent]:
        return [child for child in self._client.children().values() if child.role == "lead"]

    def _reap(self) -> None:
        """Destroy leads that were idle for a while, and architects whose task has ended."""
        open_ = {item.id[:8] for item in self._client.own_tasks()}
        for name in self._client.children():
            stem, _, task = name.partition("-")
            if stem == "architect" and task not in open_:
                self._client.destroy_child(name)
        busy = {item.agent for item in self._client.delegated_tasks()}
        now = time.monotonic()
        idle = {item.name for item in self._leads() if item.name not in busy}
        self._idle = {name: self._idle.get(name, now) for name in idle}
        for name, since in self._idle.items():
            if now - since >= POOL_SECONDS:
                self._client.destroy_child(name)

    def _remember(
        self, row: TaskSnapshot, text: str, parts: Mapping[str, TaskSnapshot], *, well: bool
    ) -> None:
        """Record the strategy of a task, its success and its cost, for similar tasks.

        A failed plan is recorded too. Nothing is recorded twice.
        """
        state = self._memory.read()
        took: dict[str, Any] = {
            "task": row.id, "words": sorted(words(text)),
            "seconds": round(max(0.0, time.time() - row.created), 1),
            "tokens": sum(item.tokens for item in parts.values()),
            "cost": sum(item.cost for item in parts.values()),
        }  # fmt: skip
        strategy_data = _strategy_data(parts)
        new = [{**took, "strategy": strategy_data["strategy"], "well": well}]
        if "instead_of" in strategy_data:
            new.insert(0, {**took, "strategy": strategy_data["instead_of"], "well": False})
        before = [item for item in state.get("history", []) if item.get("task") != row.id]
        state["history"] = [*before, *new][-HISTORY:]
        self._memory.write(state)


_TOLD: Final = 4000


def _strategy_of(parts: Mapping[str, TaskSnapshot]) -> str:
    """The present strategy of a task; without a plan after a plan failed."""
    kinds = {title.partition(".")[0] for title in parts}
    way = next((way for way in (SIMPLE, COMPLEX) if way in kinds), "")
    return way or (ARCHITECT if "plan" in kinds else "")


def _strategy_data(parts: Mapping[str, TaskSnapshot]) -> dict[str, str]:
    """The strategy of a task, and the one that failed before it."""
    way = _strategy_of(parts)
    planned = any(title.startswith("plan.") for title in parts)
    return {"strategy": way, **({"instead_of": ARCHITECT} if planned and way == COMPLEX else {})}


def _count_tries(parts: Mapping[str, TaskSnapshot], kind: str) -> int:
    """The number of tries of this kind."""
    return sum(title.partition(".")[0] == kind for title in parts)


def _last_try(parts: Mapping[str, TaskSnapshot], way: str) -> TaskSnapshot | None:
    """The last try of this strategy; leads execute plans."""
    kind = "lead" if way == ARCHITECT else way
    plans = _count_tries(parts, "plan") if way == ARCHITECT else 0
    number = max(_count_tries(parts, kind), plans)
    return parts.get(f"{kind}.{number}")
