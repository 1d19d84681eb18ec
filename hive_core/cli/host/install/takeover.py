"""The steps that import an older installation, and their execution.

A journal in the old folder records the created agents, so that an interrupted import can continue
and does not mistake another agent for one of its own. Nothing in the old folder is deleted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hive_core.cli.core.session import Session
from hive_core.cli.host.install import imports
from hive_core.cli.host.install.older_install import Old, OldAgent
from hive_core.errors import Conflict
from hive_core.varlink import Message

if TYPE_CHECKING:
    from hive_core.model.config.settings import HostLimits


@dataclass(frozen=True, slots=True)
class Step:
    """Copy `source` to `into` in the state of the agent; without a source, create the agent."""

    agent: OldAgent
    source: Path | None = None
    into: str = ""

    @property
    def text(self) -> str:
        agent = self.agent
        if self.source is None:
            return f"create {agent.name} {f'below {agent.parent}' if agent.parent else 'as a root'}"
        return f"copy {self.source} to {self.target}"

    @property
    def target(self) -> str:
        return f"/agents/{self.agent.name}/state" + (f"/{self.into}" if self.into else "")


def steps(old: Old, root: str) -> Iterator[Step]:
    """All steps in a valid order; the root agent exists already."""
    for agent in old.agents:
        if agent.name != root:
            yield Step(agent)
        for into, source in agent.folders.items():
            yield Step(agent, source, into)


class Takeover:
    """Executes the steps; it calls `tell` for every finished step, and `step` between parts."""

    def __init__(
        self,
        session: Session,
        old: Old,
        tell: Callable[[str], None],
        table: Path = imports.FILE,
    ) -> None:
        self._session, self._old, self._tell, self._table = session, old, tell, table
        self.step: Callable[[str], None] = lambda _: None
        self._there = frozenset[str]()

    def check(self, root: str, bounds: HostLimits) -> None:
        """Add the faults of this host; raise Conflict without a root agent.

        It finds every reason to refuse a step before the first step.
        """
        rows = {str(row["name"]): row for row in self._session.rows("list_agents", "agents")}
        self._there = frozenset(rows)
        if root not in rows:
            raise Conflict(f"the root agent {root} does not exist; `hive setup` creates it")
        made = self._made_names()
        for agent in self._old.agents:
            if agent.name in rows and agent.name not in made and agent.name != root:
                self._old.faults.append(f"{agent.name!r}: an agent of this name exists")
        self._check_room(bounds)
        for step in steps(self._old, root):
            if step.source is not None and not str(step.source).isprintable():
                self._old.faults.append(
                    f"{str(step.source)!r}: the path has characters that cannot be stored"
                )

    def _check_room(self, bounds: HostLimits) -> None:
        coming = [agent for agent in self._old.agents if agent.name not in self._there]
        if len(self._there) + len(coming) > bounds.agents:
            there, most = len(self._there), bounds.agents
            reason = f"this host has {there} agents, and its limit is {most} (limits.agents)"
            self._old.faults.append(f"{len(coming)} agents: {reason}")
        for agent in self._old.agents:
            if (level := self._level(agent)) > bounds.depth:
                reason = f"{level} levels deep, of {bounds.depth} (limits.depth)"
                self._old.faults.append(f"{agent.name!r}: {reason}")

    def _level(self, agent: OldAgent) -> int:
        parents = {other.name: other.parent for other in self._old.agents}
        level, parent = 1, agent.parent
        while parent is not None:
            level, parent = level + 1, parents[parent]
        return level

    def has_made(self, step: Step) -> bool:
        """Whether an earlier, killed run created this agent."""
        return step.source is None and step.agent.name in self._made_names() & self._there

    def run(self, root: str) -> None:
        """Execute the remaining steps, then write the marker."""
        done: list[dict[str, object]] = []
        for step in steps(self._old, root):
            if step.source is None:
                self._create(step)
            else:
                done.append(self._copy(step, step.source))
        self._mark(done)

    def _create(self, step: Step) -> None:
        """Record the name first, so that a later run knows that this run created the agent."""
        agent = step.agent
        if agent.name in self._made_names():
            there = {str(row["name"]) for row in self._session.rows("list_agents", "agents")}
            if agent.name in there:
                return
        self._note(agent.name)
        self.step(f"noted {agent.name}")
        reply = self._session.change("spawn", name=agent.name, parent=agent.parent or "")
        self._session.finish(reply, f"creating {agent.name}")
        self.step(f"created {agent.name}")
        self._tell(step.text)

    def _copy(self, step: Step, source: Path) -> dict[str, object]:
        with imports.import_entry(source, self._table) as name:
            reply = self._session.change(
                "import_state", agent=step.agent.name, source=name, into=step.into
            )
            self._session.finish(reply, f"copying {source}")
        self.step(f"copied {source}")
        progress = self._session.ask("get_job", id=reply["job"]).get("progress")
        aside = progress.get("kept_aside") if isinstance(progress, dict) else 0
        aside_note = (
            f"; {aside} files are in /agents/{step.agent.name}/state/.imported" if aside else ""
        )
        self._tell(step.text + aside_note)
        return {"from": str(source), "to": step.target, "was": step.agent.was, **_dict(progress)}

    def _made_names(self) -> set[str]:
        try:
            lines = self._old.journal.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return set()
        return {line.strip() for line in lines if line.strip()}

    def _note(self, name: str) -> None:
        with self._old.journal.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())

    def _mark(self, done: list[dict[str, object]]) -> None:
        """Write the marker atomically, after everything else."""
        agents = {
            agent.name: {"was": agent.was, "parent": agent.parent} for agent in self._old.agents
        }
        text = json.dumps({"when": int(time.time()), "agents": agents, "copied": done}, indent=2)
        new = self._old.marker.with_name(f"{self._old.marker.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        self.step("marking")
        new.replace(self._old.marker)
        self.step("marked")
        self._old.journal.unlink(missing_ok=True)


def _dict(value: object) -> Message:
    return value if isinstance(value, dict) else {}
