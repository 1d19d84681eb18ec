"""How much work there may be, and how long it may take: tables of `hive.toml` beside those of
settings.py.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hive_core.model.agents.agent import Tier, Value
from hive_core.model.config.written_values import Bytes


class LifeSettings(Value):
    """How agents end, sleep and come back; in seconds."""

    reap: float = Field(
        60.0, ge=0, le=86_400, description="After which a one-shot agent that ended is destroyed."
    )


class TaskSettings(Value):
    """How much one agent may be given, and for how long."""

    deadline: float = Field(
        300.0, ge=0, description="Seconds of work for a task of which nobody says; 0: no end."
    )
    grace: float = Field(
        10.0, ge=0, le=300,
        description="Seconds in which stopped work has to end before its container is ended.",
    )  # fmt: skip
    open: int = Field(1000, ge=1, description="Open tasks of one agent.")
    given: int = Field(10_000, ge=1, description="Open tasks that one agent gave to others.")
    attempts: int = Field(5, ge=0, le=100, description="How often a task is done again at most.")
    kept: float = Field(
        30 * 86_400.0, ge=3600, description="Seconds for which an ended task can be read."
    )


class WaitSettings(Value):
    """How long agents wait, and how many tasks run beside each other; in seconds."""

    deadline: float = Field(3600.0, gt=0, description="Of a wait for which nobody says.")
    deadline_most: float = Field(7 * 86_400.0, gt=0, description="Of any wait.")
    open: int = Field(64, ge=1, description="Waits of one agent that have not ended.")
    batches: int = Field(8, ge=1, description="Batches of one agent that have not ended.")
    batch: float = Field(600.0, gt=0, description="Of a batch for which nobody says.")
    parallel: int = Field(4, ge=1, description="Workers of a batch for which nobody says.")
    stop: float = Field(10.0, gt=0, le=60, description="In which stopped work has to have ended.")


class TalkSettings(Value):
    """Questions, escalations and reminders."""

    open: int = Field(32, ge=1, description="Open questions and escalations of one agent.")
    asked: int = Field(
        64, ge=1, description="Open questions to one agent, or to the operator. When half of them"
        " are there, each other agent may have one more.",
    )  # fmt: skip
    reminders: int = Field(64, ge=1, description="Reminders that one agent waits for to come.")
    kept: float = Field(
        30 * 86_400.0, ge=60, description="Seconds for which an ended question can be read."
    )
    critical: float = Field(60.0, gt=0, description="Seconds until an escalation goes a level up.")
    error: float = Field(300.0, gt=0, description="The same for one of severity `error`.")
    warning: float = Field(1800.0, gt=0, description="The same for one of severity `warning`.")
    info: float = Field(14_400.0, gt=0, description="The same for one of severity `info`.")


class TriggerSettings(Value):
    """What happens by itself."""

    fires: int = Field(100, ge=1, description="Fires of one agent in a minute.")
    each: int = Field(100, ge=1, description="Triggers that fire for one agent.")
    webhooks: bool = Field(default=False, description="Whether hived takes webhooks.")
    webhook_group: str = Field(
        "hive-operator", pattern=r"^[a-z_][a-z0-9_-]*$",
        description="Who may connect to hooks.sock; hived has to be a member.",
    )  # fmt: skip


class ArtifactSettings(Value):
    """What agents keep for each other, in bytes."""

    size: Bytes = Field(64 << 20, ge=1, description="Of one artifact.")
    agent: Bytes = Field(256 << 20, ge=1, description="Of all that one agent has stored.")
    tree: Bytes = Field(2 << 30, ge=1, description="Of all that the agents under one root have.")
    count: int = Field(2000, ge=1, description="Versions that one agent has stored.")
    tree_count: int = Field(50_000, ge=1, description="Versions of the agents under one root.")
    versions: int = Field(10, ge=1, description="Kept of one name; older ones go.")
    uploads: int = Field(4, ge=1, description="That one agent has begun and not stored.")


class MailCopies(StrEnum):
    """Whether a parent gets what its children write to each other."""

    OFF = "off"
    LOW = "low"


class QueueSettings(Value):
    """Named queues, topics and pipes, and copies of mail."""

    copies: MailCopies = Field(
        MailCopies.OFF,
        description="`low`: a parent gets what its children write to each other, with"
        " the lowest priority.",
    )
    open: int = Field(32, ge=1, description="Queues of one agent, and pipes of one parent.")
    things: int = Field(1000, ge=1, description="What one queue takes when its owner does not say.")
    most: int = Field(100_000, ge=1, description="What the owner of a queue may say at most.")
    bytes: Bytes = Field(64 << 20, ge=1 << 16, description="Of all that is in one queue.")
    follows: int = Field(64, ge=1, description="Topics that one agent follows.")
    followers: int = Field(1000, ge=1, description="Agents that one message to a topic reaches.")
    slots: int = Field(64, ge=1, description="Chunks in a pipe that were not read yet.")


class BudgetSettings(Value):
    """What may be spent."""

    warn: float = Field(0.8, gt=0, le=1, description="Share of a budget at which it is warned.")
    stop: float = Field(
        60.0, ge=0, description="Seconds after which work on an empty budget is stopped; 0: never."
    )
    currency: str = Field(
        "USD", pattern=r"^[A-Z]{3}$", description="What money is counted in, in millionths."
    )
    kept: float = Field(
        400 * 86_400.0, ge=86_400, description="Seconds that sums of what was used are kept."
    )
    tokens_per_hour: int = Field(
        0, ge=0, le=1 << 43,
        description="Tokens that one agent may report in an hour, where no budget says so; 0: any.",
    )  # fmt: skip
    context: int = Field(
        0, ge=0, le=1 << 43,
        description="Tokens that the context of one agent may have, where no budget says so;"
        " 0: any.",
    )  # fmt: skip


class ModelSettings(Value):
    """Which model an agent has that names none. Plain names: who runs models reads them."""

    strategic: str = Field("", max_length=200, description="Of the strategic tier.")
    tactical: str = Field("", max_length=200, description="Of the tactical tier.")
    operational: str = Field("", max_length=200, description="Of the operational tier.")

    def of(self, tier: Tier) -> str:
        found: str = getattr(self, tier.value)
        return found


class LogSettings(Value):
    """The events as files beside the ledger, and in the journal."""

    rotate: Bytes = Field(64 << 20, ge=4096, description="Bytes of one file.")
    age: float = Field(86_400.0, ge=60, description="Seconds that one file covers at most.")
    total: Bytes = Field(1 << 30, ge=8192, description="Bytes of all files; the oldest go.")
    journal: Literal["all", "most", "none"] = Field(
        "most", description="What goes to the journal; most: all but calls that only record."
    )


class DeploySettings(Value):
    """How a new configuration is put in place."""

    window: float = Field(30.0, ge=0, le=3600, description="Seconds it must stay healthy.")
    generations: int = Field(10, ge=2, le=1000, description="Generations kept of each agent.")
    first_wave: int = Field(1, ge=1, description="Agents of the first wave of many.")
    second_wave: float = Field(0.1, gt=0, le=1, description="Share of the second wave.")
    evaluation: float = Field(120.0, gt=0, description="Seconds an evaluation may take.")
    build: float = Field(1800.0, gt=0, description="Seconds a build may take.")
    switch: float = Field(120.0, gt=0, description="Seconds a switch in place may take.")


class BuiltInSettings(Value):
    """The built-in daemons, made at start when enabled."""

    queen: bool = Field(default=False, description="A queen under the root agent.")
    maid: bool = Field(default=False, description="A maid under the queen, or the root agent.")
    first: float = Field(10.0, ge=0, description="Seconds until the maid looks around first.")
    every: float = Field(60.0, ge=1, description="Seconds between two looks of the maid.")
    quiet: float = Field(
        300.0, ge=1, description="Seconds without a word after which work seems stuck to the maid."
    )


class BackOffSettings(Value):
    """How a machine that fails is started again, in seconds."""

    first: float = Field(1.0, gt=0, description="Pause after the first failure.")
    growth: Literal["double", "add"] = Field(
        "double", description="Whether each further one doubles the pause, or adds the first to it."
    )
    most: float = Field(300.0, gt=0, description="Longest pause.")
    jitter: float = Field(0.2, ge=0, le=1, description="Share of the pause that chance may add.")
    failures: int = Field(5, ge=1, description="Failures that park an agent...")
    window: float = Field(600.0, gt=0, description="...when they fall into this time.")
    healthy: float = Field(300.0, gt=0, description="Time up after which failures are forgotten.")


class IntakeSettings(Value):
    """How much a proposed commit may bring (attack 18)."""

    pack: Bytes = Field(64 << 20, ge=1024, description="Bytes of its history, packed.")
    objects: int = Field(20_000, ge=10, description="Objects of its history.")
    blob: Bytes = Field(5 << 20, ge=1024, description="Bytes of one file.")
    depth: int = Field(64, ge=1, le=64, description="Levels of folders.")
    files: int = Field(15_000, ge=10, description="Files of the commit.")
    tree: Bytes = Field(32 << 20, ge=1024, description="Bytes of all its files.")
    diff: Bytes = Field(4 << 20, ge=1024, description="Bytes of what has to be read to approve it.")
    seconds: float = Field(60.0, gt=0, description="Until it must be judged.")
