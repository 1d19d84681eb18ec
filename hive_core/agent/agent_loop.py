"""The loop of the built-in agents: something came, so look at what there is to do, and do it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from hive_core.agent import language
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import until_stopped
from hive_core.agent.task_client import OPEN, POLL, TaskClient, TaskSnapshot, say
from hive_core.errors import HiveError, InvalidArgument, NotAllowed

_PLANS: Final = 3  # that may be rejected
_STEPS, _TITLE = 100, 200  # of a plan at most, and characters of each
_FAULTS: Final = 5.0  # seconds after something that the daemon refused


class AgentBehaviour(Protocol):
    """The behaviour of one kind of agent."""

    def on_message(self, letter: dict[str, Any]) -> None:
        """Note a message that came."""
        ...

    def step(self) -> None:
        """Take everything as far as it goes now."""
        ...


def advance_tasks(desk: TaskClient, act: Callable[[TaskSnapshot], None]) -> None:
    """Advance each task of the agent; a failure of one does not stop the others.

    What needs a plan waits for it. What the daemon will never allow ends a task; what it may allow
    later is tried again.
    """
    later: HiveError | None = None
    for row in desk.own_tasks():
        try:
            if row.state == "stopping":
                desk.finish(row, "stopped", "ended before it was done")
            elif _is_begun(desk, row) and not _awaits_plan(desk, row):
                act(row)
        except (NotAllowed, InvalidArgument) as error:
            desk.finish(row, "failed", error.reason)
        except HiveError as error:
            say(f"task {row.id} cannot go on: {error.reason}")
            later = error
    if later is not None:
        raise later


def _is_begun(desk: TaskClient, row: TaskSnapshot) -> bool:
    """Whether it may be worked on now; what was only offered is begun with this."""
    return desk.begin(row) if row.offered else row.state in OPEN


def _awaits_plan(desk: TaskClient, row: TaskSnapshot) -> bool:
    """Whether the task has to wait for a plan; makes one when there is none to be decided."""
    if not row.plan_required or row.plan:
        return False
    plans = desk.ask("list_plans", task=row.id)["plans"]
    made = plans if isinstance(plans, list) else []
    if any(plan["state"] == "submitted" for plan in made):
        return True
    if len(made) >= _PLANS:
        desk.finish(row, "failed", f"{len(made)} plans were rejected: {made[0]['reason']}")
        return True
    text, _ = desk.description(row)
    lines = language.parse(language.schedule_of(text)[1]).lines or ("-",)
    steps = [_plan_step(line) for line in lines]
    if len(steps) > _STEPS:
        steps[_STEPS - 1 :] = [{"title": f"{len(steps) - _STEPS + 1} more lines of the task"}]
    note = f"after: {made[0]['reason']}" if made else ""
    desk.try_change("create_plan", task=row.id, steps=steps, note=note)
    return True


def _plan_step(line: str) -> dict[str, str]:
    """A plan step with the text of a line, which is cut where it is too long."""
    return {"title": line if len(line) <= _TITLE else f"{line[: _TITLE - 3]}..."}


def run_once(desk: TaskClient, mind: AgentBehaviour, wait: float) -> None:
    """Hear what came, then do what can be done."""
    for letter in desk.receive(wait):
        mind.on_message(letter)
    mind.step()


def run_forever(desk: TaskClient, mind: AgentBehaviour) -> None:
    """Run for ever; the first round does not wait, because work may be there from before."""
    wait = 0.0
    while True:
        try:
            run_once(desk, mind, wait)
            wait = POLL
        except HiveError as error:
            say(f"cannot go on: {error.reason}")
            wait = _FAULTS


class StateFile:
    """A small state that survives restarts: a JSON file in the state folder of the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, name: str) -> StateFile:
        """The state file of the built-in agent of this name."""
        return cls(Path(f"/agents/{name}/state/built-in.json"))

    def read(self) -> dict[str, Any]:
        """The saved state; empty when there is none, or when it is damaged."""
        try:
            value = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, value: dict[str, Any]) -> None:
        """Keep this in its place: all of it or what was there before."""
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(value))
            new.replace(self._path)
        except OSError as error:
            say(f"cannot keep what was learned: {error}")


def agent_name() -> str:
    """The name of this agent, as its container was told."""
    return os.environ.get("HIVE_NAME", "")


def run(path: str, mind: type[Any]) -> int:
    """Run `hive-agent worker`, `lead` or `queen`."""
    name = agent_name()
    with Link(path, answer=POLL) as link:
        desk = TaskClient(link, name)
        return until_stopped(lambda: run_forever(desk, mind(desk, StateFile.of(name))))
