"""The parameters of a new agent, for `spawn` and for definitions."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hive_core.broker.operation import Params
from hive_core.model.agents.agent import Limits, SubtreeLimits
from hive_core.model.work.budget import AMOUNT_MOST, MILLI

# As JSON, so that a spec stays within the size that the meta repo reads back (64 KiB).
ARGV_MOST = 32 * 1024


Runtimes = Literal["builtin", "scripted", "claude", "codex", "opencode", "acp"]


def check_command(words: list[str]) -> list[str]:
    if any("\0" in word for word in words):
        raise ValueError("must not contain NUL")
    if words and not words[0]:
        raise ValueError("must start with a program")
    if len(json.dumps(words)) > ARGV_MOST:
        raise ValueError(f"is longer than {ARGV_MOST} bytes")
    return words


class SpawnLimits(Limits, Params):
    """Limits of one machine. Absent: the host's default."""


class SpawnSubtree(SubtreeLimits, Params):
    """Limits of an agent together with all its descendants."""


class Funds(Params):
    """Budgets of a new agent, taken from its creator's budget or account."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST // MILLI, description="Tokens.")
    money: int | None = Field(
        None,
        ge=1,
        le=AMOUNT_MOST // MILLI,
        description="Money, in millionths of the host's currency.",
    )
    usd: float | None = Field(
        None,
        ge=0.000001,
        le=1_000_000_000,
        description="Money in dollars, where that is the host's currency.",
    )


class Traits(Params):
    """The properties of an agent; all are optional."""

    role: Literal["daemon", "agent", "architect", "lead", "worker", "task"] = Field(
        "agent", description="Role of the agent."
    )
    tier: Literal["strategic", "tactical", "operational"] = Field(
        "operational", description="Tier of the agent, at most the creator's."
    )
    title: str = Field(
        "", max_length=200, description="Title of the agent: free text, such as Software Engineer."
    )
    image: str | None = Field(
        None,
        max_length=4096,
        description="Name of an image that this host offers; only the operator may name a path.",
    )
    boot: bool = Field(default=False, description="Whether an init system runs in the container.")
    command: Annotated[list[str], AfterValidator(check_command)] = Field(
        [],
        max_length=1024,
        description="Command of the agent; with an empty command nothing runs, and mail waits.",
    )
    capabilities: list[str] | None = Field(
        None,
        max_length=64,
        description="Capabilities, a subset of the creator's; absent: those of the role that the"
        " creator holds.",
    )
    limits: SpawnLimits = Field(
        SpawnLimits.model_construct(),
        description="Limits of its machine, within what the creator has left.",
    )
    subtree: SpawnSubtree | None = Field(
        None, description="Limits of the agent together with all its descendants."
    )
    max_children: int | None = Field(
        None, ge=0, le=10_000, description="Maximum number of children."
    )
    max_depth: int | None = Field(
        None, ge=0, le=64, description="Maximum number of levels below the agent."
    )
    after_task: Literal["stays", "sleeps", "exits"] | None = Field(
        None,
        description="What the agent does when its last task has ended; absent: the default of its"
        " role.",
    )
    wakes: bool = Field(default=False, description="Whether mail wakes the agent when it sleeps.")
    parallel: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of tasks at once. Absent: the daemon offers 5, and the program"
        " decides how many it takes; `hive-agent serve` takes one.",
    )
    require_plan: bool = Field(
        default=False,
        description="Whether a plan must be approved before any work on its tasks starts, whatever"
        " the assigner requests.",
    )
    max_turns: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Maximum number of turns of each task, as the agent reports them"
        " (`iterations`).",
    )
    network: Literal["none", "egress-allowlist", "host"] | None = Field(
        None,
        description="Network profile: `none`, `egress-allowlist` (what `[egress]` of hive.toml"
        " allows) or `host` (any host and port; only the operator gives it). Absent: decided by"
        " `capabilities`.",
    )
    profile: Literal["queen", "maid"] | None = Field(
        None,
        description="Which built-in agent of the role `daemon` it is. Only the operator creates"
        " one, and a host has at most one of each.",
    )
    funds: Funds | None = Field(
        None, description="Own budgets of the agent; absent: it draws on its creator's."
    )
    tools: list[str] | None = Field(
        None,
        max_length=256,
        description="Tools, each `tool` or `tool(argument)`, within the creator's own list; absent:"
        " the creator's list, or the tools of the role.",
    )
    runtime: Runtimes | None = Field(
        None,
        description="What runs its model: `builtin`, `claude`, `codex`, `opencode`, `acp` for the"
        " program of `[acp]` in agent.toml, or `scripted` for tests. Absent: nothing, only its"
        " command runs. With a runtime and without a command the agent runs its session.",
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Alias of its model in models.toml, one that the creator may use; absent: the"
        " model of its tier.",
    )
