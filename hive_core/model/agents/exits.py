"""Starts and exits of machines: which were reported last, and which happened since. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from hive_core.model.agents.machine import Exit, Machine

# Exits of a version that did not report exits: they are no longer reported.
BEFORE: Final = "*"
HOST_DOWN: Final = "the host went down"
DESTROYED: Final = "destroyed"


class Activity(StrEnum):
    """What an agent is doing (row K5)."""

    IDLE = "idle"
    RUNNING = "running"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class LifeRecord:
    """What was reported last of one agent.

    `up`: no exit of the start `invocation` was reported yet. `ended` is the last exit of which
    systemd left a record. At `due` the agent leaves, as `next` says, because its last task has
    ended.
    """

    agent: str
    nonce: int = 0
    invocation: str = ""
    up: bool = False
    ended: str = ""
    activity: str = Activity.IDLE
    next: str = ""
    due: float | None = None


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """One exit as the ledger stores it.

    `stays`: the machine does not come back by itself. `parent`: the parent at that time.
    """

    id: int
    agent: str
    name: str
    parent: str
    invocation: str
    nonce: int
    code: int | None
    reason: str
    clean: bool
    asked: bool
    wanted: str
    stays: bool
    output: str
    at: float
    reap: float | None = None
    collected: float | None = None


class StartEvent(NamedTuple):
    """A start that was not reported yet."""

    invocation: str
    nonce: int


class ExitEvent(NamedTuple):
    """An exit that was not reported yet. `exit` None: no record of the exit exists."""

    invocation: str
    nonce: int
    exit: Exit | None


def unreported_events(
    life: LifeRecord, machine: Machine, *, alive: bool, healthy: bool
) -> Iterator[ExitEvent | StartEvent]:
    """What happened to a machine since its last report, in order.

    A machine that was up and no longer exists has ended, with or without a record: after a power
    failure there is none. A record of an older start than the last one was reported already.
    """
    there, end = machine.invocation if alive else "", machine.exit
    if life.up and life.invocation != there:
        known = end is not None and end.invocation == life.invocation
        yield ExitEvent(life.invocation, life.nonce, end if known else None)
    if (
        end is not None
        and end.nonce >= life.nonce
        and not _is_reported(life, end.invocation, there)
    ):
        yield ExitEvent(end.invocation, end.nonce, end)
    if there and healthy and there != life.invocation:
        yield StartEvent(there, machine.nonce)


def has_unreported_exit(life: LifeRecord, machine: Machine) -> bool:
    """Whether the last observation shows an exit that is not reported yet."""
    end = machine.exit
    return (
        end is not None and end.nonce >= life.nonce and not _is_reported(life, end.invocation, "")
    )


def _is_reported(life: LifeRecord, invocation: str, there: str) -> bool:
    old = life.ended == BEFORE and not life.invocation
    return old or invocation in (life.ended, life.invocation, there)
