"""The loop of the built-in agents: on each message, advance all open tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from hive_core.agent import language
from hive_core.agent.reconnect import Link
from hive_core.agent.serve import run_until_stop
from hive_core.agent.task_client import OPEN, POLL, TaskClient, TaskSnapshot, say
from hive_core.errors import HiveError, InvalidArgument, NotAllowed

_PLANS: Final = 3  # that may be rejected
_STEPS, _TITLE = 100, 200  # of a plan at most, and characters of each
_FAULTS: Final = 5.0  # seconds after something that the daemon refused


class AgentBehaviour(Protocol):
    """The behaviour of one kind of agent."""

    def on_message(self, letter: dict[str, Any]) -> None:
        """Handle a message that arrived."""
        ...

    def step(self) -> None:
        """Advance all work as far as possible now."""
        ...


def advance_tasks(client: TaskClient, act: Callable[[TaskSnapshot], None]) -> None:
    """Advance each task of the agent; a failure of one does not stop the others.

    A task that needs a plan waits for it. A refusal that the daemon will not withdraw ends a task;
    any other refusal is retried later.
    """
    later: HiveError | None = None
    for row in client.own_tasks():
        try:
            if row.state == "stopping":
                client.finish(row, "stopped", "ended before it was done")
            elif _is_begun(client, row) and not _awaits_plan(client, row):
                act(row)
        except (NotAllowed, InvalidArgument) as error:
            client.finish(row, "failed", error.reason)
        except HiveError as error:
            say(f"task {row.id} cannot continue: {error.reason}")
            later = error
    if later is not None:
        raise later


def _is_begun(client: TaskClient, row: TaskSnapshot) -> bool:
    """Whether the agent may work on the task now; begins an offered task."""
    return client.begin(row) if row.offered else row.state in OPEN


def _awaits_plan(client: TaskClient, row: TaskSnapshot) -> bool:
    """Whether the task has to wait for a plan; makes a plan when none waits for a decision."""
    if not row.plan_required or row.plan:
        return False
    plans = client.ask("list_plans", task=row.id)["plans"]
    made = plans if isinstance(plans, list) else []
    if any(plan["state"] == "submitted" for plan in made):
        return True
    if len(made) >= _PLANS:
        client.finish(row, "failed", f"{len(made)} plans were rejected: {made[0]['reason']}")
        return True
    text, _ = client.description(row)
    lines = language.parse(language.schedule_of(text)[1]).lines or ("-",)
    steps = [_plan_step(line) for line in lines]
    if len(steps) > _STEPS:
        steps[_STEPS - 1 :] = [{"title": f"{len(steps) - _STEPS + 1} more lines of the task"}]
    note = f"after: {made[0]['reason']}" if made else ""
    client.try_change("create_plan", task=row.id, steps=steps, note=note)
    return True


def _plan_step(line: str) -> dict[str, str]:
    """A plan step with the text of a line, cut if too long."""
    return {"title": line if len(line) <= _TITLE else f"{line[: _TITLE - 3]}..."}


def run_once(client: TaskClient, mind: AgentBehaviour, wait: float) -> None:
    """Receive messages, then advance the work."""
    for letter in client.receive(wait):
        mind.on_message(letter)
    mind.step()


def run_forever(client: TaskClient, mind: AgentBehaviour) -> None:
    """Run forever; the first round does not wait, because there may be earlier work."""
    wait = 0.0
    while True:
        try:
            run_once(client, mind, wait)
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
        """The saved state; empty when none is saved or it is damaged."""
        try:
            value = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, value: dict[str, Any]) -> None:
        """Replace the state atomically."""
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(value))
            new.replace(self._path)
        except OSError as error:
            say(f"cannot save the state: {error}")


def agent_name() -> str:
    """The name of this agent, from the environment of its container."""
    return os.environ.get("HIVE_NAME", "")


def run(path: str, mind: type[Any]) -> int:
    """Run `hive-agent worker`, `lead` or `queen`."""
    name = agent_name()
    with Link(path, answer=POLL) as link:
        client = TaskClient(link, name)
        return run_until_stop(lambda: run_forever(client, mind(client, StateFile.of(name))))
