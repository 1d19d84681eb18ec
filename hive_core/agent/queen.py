"""The built-in queen: takes a task, chooses a way, has it done, and reports (rows K33, K35).

A short task goes to an agent that is there for this one alone, a longer one to a lead, and one that
asks for an architect is planned first. A model in place of `strategy` comes later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from hive_core.agent import language
from hive_core.agent.desk import OPEN, Child, Desk, Row
from hive_core.agent.duty import Memory

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
    """What tells one task from another: its words, without numbers."""
    return {each for each in text.lower().split() if each.isalpha()}


def strategy(text: str, history: list[dict[str, Any]]) -> str:
    """As a task that was much alike and went well; else by its words; else complex."""
    found = words(text)
    if found & _ARCHITECT:
        return ARCHITECT
    for before in reversed(history[-HISTORY:]):
        known = set(before["words"])
        alike = len(found & known) / len(found | known) if found | known else 0.0
        if before["well"] and alike >= ALIKE:
            return str(before["strategy"])
    if len(text) < SHORT and found & _SIMPLE and len(found & _COMPLEX) < COMPLEX_WORDS:
        return SIMPLE
    return COMPLEX


class Queen:
    """One on each host, below the root agent."""

    def __init__(self, desk: Desk, memory: Memory) -> None:
        self._desk = desk
        self._memory = memory
        self._idle: dict[str, float] = {}

    def heard(self, letter: dict[str, Any]) -> None:
        """What came is seen in the tasks."""

    def step(self) -> None:
        """Each task as far as it goes now; then the leads that nobody needs any more go."""
        for row in self._desk.mine():
            if row.state == "stopping":
                self._desk.finish(row, "stopped", "ended before it was done")
            elif row.state in OPEN:
                self._advance(row)
        self._reap()

    def _advance(self, row: Row) -> None:
        text, _ = self._desk.text(row)
        parts = self._desk.parts(row)
        way = _begun(parts) or strategy(text, self._memory.read().get("history", []))
        last = _last(parts, way)
        if last is not None and last.open:
            return
        if last is not None and last.well:
            self._collected(row, text, way, last)
        elif way == ARCHITECT:
            self._planned(row, text, parts)
        elif last is None or _count(parts, way) < TRIES:
            self._delegate(row, way, text, _count(parts, way) + 1)
        else:
            self._failed(row, text, way, last)

    def _delegate(self, row: Row, way: str, text: str, number: int, **more: object) -> None:
        title = f"{'lead' if way == ARCHITECT else way}.{number}"
        self._desk.quietly("report_progress", task=row.id, text=f"{way}, try {number}")
        if way == SIMPLE:
            name = f"task-{row.id[:8]}-{number}"
            self._desk.hire(name, role="task", command=["hive-agent", "worker"], title="task")
            seconds = SIMPLE_SECONDS
        else:
            name, seconds = self._lead(row, text), LEAD_SECONDS
        self._desk.give(row, name, title, text, deadline=seconds, **more)

    def _planned(self, row: Row, text: str, parts: Mapping[str, Row]) -> None:
        """The architect plans; the lead carries out; what fails goes back to be revised."""
        plans, runs = _count(parts, "plan"), _count(parts, "lead")
        plan = parts.get(f"plan.{plans}")
        if plan is not None and plan.open:
            return
        if plan is not None and not plan.well:
            self._failed(row, text, ARCHITECT, plan)
        elif plan is not None and runs < plans:
            data = {"plan": plan.data.get("result", plan.summary)}
            if plan.artifacts:
                data = {"plan_artifact": plan.artifacts[0]}
            self._delegate(
                row, ARCHITECT, text, plans, data=data, artifacts=list(plan.artifacts) or None
            )
        elif plans < REVISIONS:
            self._draw(row, text, parts, plans)
        else:
            self._failed(row, text, ARCHITECT, parts[f"lead.{runs}"])

    def _draw(self, row: Row, text: str, parts: Mapping[str, Row], number: int) -> None:
        """A task for the architect, who sleeps when it has none; the mail wakes it."""
        name = f"architect-{row.id[:8]}"
        if not number:
            self._desk.hire(
                name, role="architect", command=["hive-agent", "worker"], wakes=True,
                title="architect",
            )  # fmt: skip
        data: dict[str, object] = {"plan_of": text}
        if number:
            before, run = parts[f"plan.{number}"], parts[f"lead.{number}"]
            data = {"plan_of": before.data.get("result", ""), "faults": run.data.get("faults", [])}
        what = "revise the plan" if number else "plan this job"
        self._desk.give(row, name, f"plan.{number + 1}", what, data=data, deadline=LEAD_SECONDS)

    def _lead(self, row: Row, text: str) -> str:
        """An idle lead of the same domain; one of another domain makes room for a new one."""
        domain = language.parse(text).domain
        title = f"lead {domain}".strip()
        busy = {each.agent for each in self._desk.given()}
        idle = [each for each in self._leads() if each.name not in busy]
        same = next((each for each in idle if each.title == title), None)
        for each in idle:
            if each.title != title:
                self._desk.dismiss(each.name)
        name = same.name if same is not None else f"lead-{row.id[:8]}"
        self._desk.hire(name, role="lead", command=["hive-agent", "lead"], title=title, parallel=1)
        return name

    def _collected(self, row: Row, text: str, way: str, last: Row) -> None:
        result = str(last.data.get("result", last.summary))
        self._remember(row, text, way, well=True)
        stored = self._desk.keep(f"result-{row.id}", result)
        data = {"result": result, "strategy": way, "by": last.agent}
        self._desk.finish(row, last.status, result, data=data, artifacts=stored or None)
        self._clear(row)

    def _failed(self, row: Row, text: str, way: str, last: Row) -> None:
        self._remember(row, text, way, well=False)
        data = {"strategy": way, "by": last.agent, "faults": last.data.get("faults", [])}
        self._desk.finish(row, "failed", last.why, data=data)
        self._clear(row)

    def _clear(self, row: Row) -> None:
        """An architect whose job is over is needed no more."""
        name = f"architect-{row.id[:8]}"
        if name in self._desk.children():
            self._desk.dismiss(name)

    def _leads(self) -> list[Child]:
        return [each for each in self._desk.children().values() if each.role == "lead"]

    def _reap(self) -> None:
        """Leads that had nothing to do for a while go."""
        busy = {each.agent for each in self._desk.given()}
        now = time.monotonic()
        idle = {each.name for each in self._leads() if each.name not in busy}
        self._idle = {name: self._idle.get(name, now) for name in idle}
        for name, since in self._idle.items():
            if now - since >= POOL_SECONDS:
                self._desk.dismiss(name)

    def _remember(self, row: Row, text: str, way: str, *, well: bool) -> None:
        """Which way a task went, how well, and how long it took: for the next one like it."""
        kept = self._memory.read()
        seconds = round(max(0.0, time.time() - row.created), 1)
        new = {"words": sorted(words(text)), "strategy": way, "well": well, "seconds": seconds}
        kept["history"] = [*kept.get("history", []), new][-HISTORY:]
        self._memory.write(kept)


def _begun(parts: Mapping[str, Row]) -> str:
    """The way on which a task is already."""
    kinds = {title.partition(".")[0] for title in parts}
    if "plan" in kinds:
        return ARCHITECT
    return next((way for way in (SIMPLE, COMPLEX) if way in kinds), "")


def _count(parts: Mapping[str, Row], kind: str) -> int:
    """How often this was tried."""
    return sum(title.partition(".")[0] == kind for title in parts)


def _last(parts: Mapping[str, Row], way: str) -> Row | None:
    """The last try on this way; what was planned is carried out by leads."""
    kind = "lead" if way == ARCHITECT else way
    plans = _count(parts, "plan") if way == ARCHITECT else 0
    number = max(_count(parts, kind), plans)
    return parts.get(f"{kind}.{number}")
