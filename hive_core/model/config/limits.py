"""Quotas and time limits: tables of `hive.toml` beside those of settings.py."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from hive_core.model.agents.agent import Tier, Value
from hive_core.model.config.written_values import Bytes


class GraceSettings(Value):
    """Time limits, in seconds."""

    stop: float = Field(
        5.0, ge=0, le=30, description="Time between the request to stop a machine and the kill."
    )
    start: float = Field(120.0, gt=0, description="Time until a machine must run.")
    lease: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Time until an unacknowledged message returns to the inbox.",
    )
    bus: float = Field(10.0, gt=0, description="Time limit of one call to systemd.")
    privd: float = Field(60.0, gt=0, description="Time limit of one action of the root helper.")
    crash_lines: int = Field(
        20, ge=0, le=200, description="Number of log lines in a crash message (not a time)."
    )


class LifeSettings(Value):
    """How agents end, sleep and come back; in seconds."""

    reap: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="Time until a one-shot agent that has ended is destroyed.",
    )


class SubAgentSettings(Value):
    """Sub-agents inside the containers of agents that hold the capability `subagents`."""

    most: int = Field(4, ge=0, le=32, description="Maximum number of open sub-agents of one agent.")
    max_depth: int = Field(
        3, ge=1, le=16,
        description="Maximum depth of a sub-agent; those that the agent itself opens have depth 1.",
    )  # fmt: skip
    max_clone_fork_depth: int = Field(
        1, ge=0, le=16,
        description="Maximum number of clones in the line from the agent to a sub-agent; 0: no"
        " clones.",
    )  # fmt: skip


class TaskSettings(Value):
    """How many tasks one agent may have, and how long they may take."""

    deadline: float = Field(
        300.0,
        ge=0,
        description="Seconds of work for a task without a deadline of its own; 0: no limit.",
    )
    grace: float = Field(
        10.0,
        ge=0,
        le=300,
        description="Seconds that stopped work has to end, before its container is ended.",
    )
    begin_within: float = Field(
        300.0,
        ge=0,
        description="Seconds after which the assigner of an offered task is told that its agent,"
        " which runs, neither reads mail nor works on another task; 0: never.",
    )
    missing_credentials: Literal["drop", "refuse"] = Field(
        "drop",
        description="What `run_agent_with_input` does where credentials of the worker have no value"
        " or have expired: `drop` the tools that need them for the task, or `refuse` to run.",
    )
    open: int = Field(1000, ge=1, description="Maximum number of open tasks assigned to one agent.")
    given: int = Field(
        10_000, ge=1, description="Maximum number of open tasks that one agent assigned to others."
    )
    attempts: int = Field(
        5, ge=0, le=100, description="Maximum number of times that a task is tried again."
    )
    kept: float = Field(
        30 * 86_400.0, ge=3600, description="Seconds for which an ended task can be read."
    )


class WaitSettings(Value):
    """How long agents wait, and how many tasks run in parallel; in seconds."""

    deadline: float = Field(
        3600.0, gt=0, description="Time limit of a wait without a deadline of its own."
    )
    deadline_most: float = Field(7 * 86_400.0, gt=0, description="Longest time limit of any wait.")
    open: int = Field(
        64, ge=1, description="Maximum number of waits of one agent that have not ended."
    )
    batches: int = Field(
        8, ge=1, description="Maximum number of batches of one agent that have not ended."
    )
    batch: float = Field(
        600.0, gt=0, description="Time limit of a batch without a deadline of its own."
    )
    parallel: int = Field(4, ge=1, description="Workers of a batch that sets no number.")
    stop: float = Field(10.0, gt=0, le=60, description="Time that stopped work has to end.")


class TalkSettings(Value):
    """Questions, escalations and reminders."""

    open: int = Field(
        32, ge=1, description="Maximum number of open questions and escalations of one agent."
    )
    asked: int = Field(
        64,
        ge=1,
        description="Maximum number of open questions to one agent, or to the operator. When half"
        " of them are used, each other agent may have one more.",
    )
    reminders: int = Field(
        64, ge=1, description="Maximum number of pending reminders of one agent."
    )
    kept: float = Field(
        30 * 86_400.0, ge=60, description="Seconds for which an ended question can be read."
    )
    critical: float = Field(
        60.0,
        gt=0,
        description="Seconds until an escalation of severity `critical` goes one level up.",
    )
    error: float = Field(300.0, gt=0, description="The same for severity `error`.")
    warning: float = Field(1800.0, gt=0, description="The same for severity `warning`.")
    info: float = Field(14_400.0, gt=0, description="The same for severity `info`.")


class TriggerSettings(Value):
    """Triggers and webhooks."""

    fires: int = Field(100, ge=1, description="Maximum number of fires for one agent in a minute.")
    each: int = Field(100, ge=1, description="Maximum number of triggers that fire for one agent.")
    webhooks: bool = Field(default=False, description="Whether hived accepts webhooks.")
    webhook_group: str = Field(
        "hive-operator",
        pattern=r"^[a-z_][a-z0-9_-]*$",
        description="Group whose members may connect to hooks.sock; hived must be a member.",
    )


class ArtifactSettings(Value):
    """Artifact storage; sizes in bytes."""

    size: Bytes = Field(64 << 20, ge=1, description="Maximum size of one artifact.")
    agent: Bytes = Field(
        256 << 20, ge=1, description="Maximum size of all artifacts that one agent stored."
    )
    tree: Bytes = Field(
        2 << 30, ge=1, description="Maximum size of all artifacts of the agents under one root."
    )
    count: int = Field(2000, ge=1, description="Maximum number of versions that one agent stored.")
    tree_count: int = Field(
        50_000, ge=1, description="Maximum number of versions of the agents under one root."
    )
    versions: int = Field(
        10, ge=1, description="Versions kept of one name; older ones are deleted."
    )
    uploads: int = Field(4, ge=1, description="Maximum number of unfinished uploads of one agent.")


class MailCopies(StrEnum):
    """Whether a parent gets copies of the messages between its children."""

    OFF = "off"
    LOW = "low"


class QueueSettings(Value):
    """Named queues, topics and pipes, and copies of mail."""

    copies: MailCopies = Field(
        MailCopies.OFF,
        description="`low`: a parent gets copies of the messages between its children, with the"
        " lowest priority.",
    )
    open: int = Field(
        32, ge=1, description="Maximum number of queues of one agent, and of pipes of one parent."
    )
    things: int = Field(
        1000, ge=1, description="Capacity of a queue whose owner sets none, in items."
    )
    most: int = Field(
        100_000, ge=1, description="Largest capacity that the owner of a queue may set."
    )
    bytes: Bytes = Field(
        64 << 20, ge=1 << 16, description="Maximum size of all items in one queue."
    )
    follows: int = Field(64, ge=1, description="Maximum number of topics that one agent follows.")
    followers: int = Field(
        1000, ge=1, description="Maximum number of agents that one message to a topic reaches."
    )
    slots: int = Field(64, ge=1, description="Maximum number of unread chunks in a pipe.")


class BudgetSettings(Value):
    """Budgets and the currency."""

    warn: float = Field(
        0.8, gt=0, le=1, description="Share of a budget at which its owner gets a warning."
    )
    stop: float = Field(
        60.0, ge=0, description="Seconds until work on an exhausted budget is stopped; 0: never."
    )
    currency: str = Field(
        "USD",
        pattern=r"^[A-Z]{3}$",
        description="Currency of money, which is counted in millionths.",
    )
    kept: float = Field(
        400 * 86_400.0, ge=86_400, description="Seconds for which sums of usage are kept."
    )
    tokens_per_hour: int = Field(
        0,
        ge=0,
        le=1 << 43,
        description="Tokens that one agent may report in an hour, where no budget sets a number; 0:"
        " no limit.",
    )
    context: int = Field(
        0,
        ge=0,
        le=1 << 43,
        description="Maximum size of the context of one agent in tokens, where no budget sets one;"
        " 0: no limit.",
    )


class ModelSettings(Value):
    """The models of agents that set none. The programs that run models read the names."""

    strategic: str = Field("", max_length=200, description="Model of the strategic tier.")
    tactical: str = Field("", max_length=200, description="Model of the tactical tier.")
    operational: str = Field("", max_length=200, description="Model of the operational tier.")

    def of(self, tier: Tier) -> str:
        model: str = getattr(self, tier.value)
        return model


class LogSettings(Value):
    """The events as files beside the ledger, and in the journal."""

    rotate: Bytes = Field(64 << 20, ge=4096, description="Maximum size of one file in bytes.")
    age: float = Field(
        86_400.0, ge=60, description="Maximum time that one file covers, in seconds."
    )
    total: Bytes = Field(
        1 << 30, ge=8192, description="Maximum size of all files in bytes; the oldest are deleted."
    )
    journal: Literal["all", "most", "none"] = Field(
        "most",
        description="Which events go to the journal; `most`: all except calls that are only"
        " recorded.",
    )


class DeploySettings(Value):
    """How a new configuration is deployed."""

    window: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="Seconds for which an agent must stay healthy after a deploy.",
    )
    generations: int = Field(10, ge=2, le=1000, description="Generations kept of each agent.")
    first_wave: int = Field(1, ge=1, description="Number of agents in the first wave of a rollout.")
    second_wave: float = Field(
        0.1, gt=0, le=1, description="Share of the agents in the second wave of a rollout."
    )
    evaluation: float = Field(120.0, gt=0, description="Time limit of an evaluation, in seconds.")
    build: float = Field(1800.0, gt=0, description="Time limit of a build, in seconds.")
    switch: float = Field(120.0, gt=0, description="Time limit of a switch in place, in seconds.")


class BuiltInSettings(Value):
    """The built-in daemons, created at start when enabled."""

    queen: bool = Field(default=False, description="Whether there is a queen under the root agent.")
    maid: bool = Field(
        default=False,
        description="Whether there is a maid under the queen, or under the root agent.",
    )
    first: float = Field(10.0, ge=0, description="Seconds until the first survey of the maid.")
    every: float = Field(60.0, ge=1, description="Seconds between two surveys of the maid.")
    quiet: float = Field(
        300.0,
        ge=1,
        description="Seconds without a report after which the maid considers work stuck.",
    )


class BackOffSettings(Value):
    """How a failing machine is restarted, in seconds."""

    first: float = Field(1.0, gt=0, description="Pause after the first failure.")
    growth: Literal["double", "add"] = Field(
        "double",
        description="Whether each further failure doubles the pause, or adds the first one to it.",
    )
    most: float = Field(300.0, gt=0, description="Longest pause.")
    jitter: float = Field(
        0.2, ge=0, le=1, description="Share of the pause that is added at random."
    )
    failures: int = Field(
        5, ge=1, description="Number of failures within `window` that park an agent."
    )
    window: float = Field(600.0, gt=0, description="Time in which `failures` are counted.")
    healthy: float = Field(300.0, gt=0, description="Time up after which failures are forgotten.")


class IntakeSettings(Value):
    """Limits of a proposed commit (attack 18)."""

    pack: Bytes = Field(
        64 << 20, ge=1024, description="Maximum size of its history, packed, in bytes."
    )
    objects: int = Field(20_000, ge=10, description="Maximum number of objects in its history.")
    blob: Bytes = Field(5 << 20, ge=1024, description="Maximum size of one file in bytes.")
    depth: int = Field(64, ge=1, le=64, description="Maximum depth of its folders.")
    files: int = Field(15_000, ge=10, description="Maximum number of files.")
    tree: Bytes = Field(32 << 20, ge=1024, description="Maximum size of all files in bytes.")
    diff: Bytes = Field(
        4 << 20, ge=1024, description="Maximum size of the diff to review in bytes."
    )
    seconds: float = Field(60.0, gt=0, description="Time limit of the check, in seconds.")
