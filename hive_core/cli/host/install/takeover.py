"""What has to be done to take over an older install, step by step, and doing it.

A journal in the old folder says which agents were made by it, so that it can go on after a kill and
never takes an agent for one of its own that is not. Nothing there is deleted.
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
    """`source` goes to `into` in the state of the agent; without, the agent is created."""

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
    """All that is to be done, in an order that works; the root agent is there already."""
    for agent in old.agents:
        if agent.name != root:
            yield Step(agent)
        for into, source in agent.folders.items():
            yield Step(agent, source, into)


class Takeover:
    """`tell` hears every step that was done; `step` is called between the parts."""

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
        """Add what speaks against it here to the faults; Conflict without a root agent.

        Whatever a step would be refused for later is said before the first one.
        """
        rows = {str(row["name"]): row for row in self._session.rows("list_agents", "agents")}
        self._there = frozenset(rows)
        if root not in rows:
            raise Conflict(f"the root agent {root} is not there: `hive setup` makes it")
        made = self._made()
        for agent in self._old.agents:
            if agent.name in rows and agent.name not in made and agent.name != root:
                self._old.faults.append(f"{agent.name!r}: there is an agent of this name here")
        self._check_room(bounds)
        for each in steps(self._old, root):
            if each.source is not None and not str(each.source).isprintable():
                self._old.faults.append(f"{str(each.source)!r}: a path that cannot be written down")

    def _check_room(self, bounds: HostLimits) -> None:
        coming = [each for each in self._old.agents if each.name not in self._there]
        if len(self._there) + len(coming) > bounds.agents:
            there, most = len(self._there), bounds.agents
            reason = f"this host has {there} agents and takes {most} (limits.agents)"
            self._old.faults.append(f"{len(coming)} agents: {reason}")
        for agent in self._old.agents:
            if (level := self._level(agent)) > bounds.depth:
                reason = f"{level} levels deep, of {bounds.depth} (limits.depth)"
                self._old.faults.append(f"{agent.name!r}: {reason}")

    def _level(self, agent: OldAgent) -> int:
        parents = {each.name: each.parent for each in self._old.agents}
        level, parent = 1, agent.parent
        while parent is not None:
            level, parent = level + 1, parents[parent]
        return level

    def has_made(self, step: Step) -> bool:
        """Whether an earlier try, that was killed, made this agent."""
        return step.source is None and step.agent.name in self._made() & self._there

    def run(self, root: str) -> None:
        """Do what is left to do, then write the marker."""
        done: list[dict[str, object]] = []
        for each in steps(self._old, root):
            if each.source is None:
                self._create(each)
            else:
                done.append(self._copy(each, each.source))
        self._mark(done)

    def _create(self, step: Step) -> None:
        """Noted before it is done: who is there then was made by us."""
        agent = step.agent
        if agent.name in self._made():
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
        with imports.entered(source, self._table) as name:
            reply = self._session.change(
                "import_state", agent=step.agent.name, source=name, into=step.into
            )
            self._session.finish(reply, f"copying {source}")
        self.step(f"copied {source}")
        progress = self._session.ask("get_job", id=reply["job"]).get("progress")
        aside = progress.get("kept_aside") if isinstance(progress, dict) else 0
        kept = f"; {aside} of it lie in /agents/{step.agent.name}/state/.imported" if aside else ""
        self._tell(step.text + kept)
        return {"from": str(source), "to": step.target, "was": step.agent.was, **_dict(progress)}

    def _made(self) -> set[str]:
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
        """Last of all, as a whole."""
        agents = {each.name: {"was": each.was, "parent": each.parent} for each in self._old.agents}
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
