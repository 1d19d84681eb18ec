"""The loop of the built-in agents: something came, so look at what there is to do, and do it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from hive_core.agent.desk import OPEN, POLL, Desk, Row, say
from hive_core.agent.link import Link
from hive_core.agent.serve import until_stopped
from hive_core.errors import HiveError, InvalidArgument, NotAllowed

_FAULTS: Final = 5.0  # seconds after something that the daemon refused


class Mind(Protocol):
    """What an agent makes of its tasks."""

    def heard(self, letter: dict[str, Any]) -> None:
        """A message came."""
        ...

    def step(self) -> None:
        """Take everything as far as it goes now."""
        ...


def advance(desk: Desk, act: Callable[[Row], None]) -> None:
    """Each task of the agent as far as it goes now, whatever becomes of the others.

    What the daemon will never allow ends a task; what it may allow later is tried again.
    """
    later: HiveError | None = None
    for row in desk.mine():
        try:
            if row.state == "stopping":
                desk.finish(row, "stopped", "ended before it was done")
            elif row.state in OPEN:
                act(row)
        except (NotAllowed, InvalidArgument) as error:
            desk.finish(row, "failed", error.reason)
        except HiveError as error:
            say(f"task {row.id} cannot go on: {error.reason}")
            later = error
    if later is not None:
        raise later


def turn(desk: Desk, mind: Mind, wait: float) -> None:
    """Hear what came, then do what can be done."""
    for letter in desk.letters(wait):
        mind.heard(letter)
    mind.step()


def follow(desk: Desk, mind: Mind) -> None:
    """For ever. At first without waiting: there may be work from before."""
    wait = 0.0
    while True:
        try:
            turn(desk, mind, wait)
            wait = POLL
        except HiveError as error:
            say(f"cannot go on: {error.reason}")
            wait = _FAULTS


class Memory:
    """A little that is kept over restarts: a file of JSON in the state folder of the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, name: str) -> Memory:
        """Where the built-in agent of this name keeps it."""
        return cls(Path(f"/agents/{name}/state/built-in.json"))

    def read(self) -> dict[str, Any]:
        """What was kept; nothing when there is none, or when it is damaged."""
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, value: dict[str, Any]) -> None:
        """Keep this in its place: all of it or what was there before."""
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(value))
            new.replace(self._path)
        except OSError as error:
            say(f"cannot keep what was learned: {error}")


def name_of() -> str:
    """The name of this agent, as its container was told."""
    return os.environ.get("HIVE_NAME", "")


def run(path: str, mind: type[Any]) -> int:
    """What `hive-agent worker|lead|queen` does."""
    name = name_of()
    with Link(path, answer=POLL) as link:
        desk = Desk(link, name)
        return until_stopped(lambda: follow(desk, mind(desk, Memory.of(name))))
