"""What an agent may be asked to be: by `spawn`, and by a definition that a `spawn` names."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hive_core.broker.operation import Params
from hive_core.model.agents.agent import Limits, SubtreeLimits
from hive_core.model.work.budget import AMOUNT_MOST, MILLI

# As JSON, with which a spec stays within what the meta repo reads back (64 KiB).
ARGV_MOST = 32 * 1024


def check_command(words: list[str]) -> list[str]:
    if any("\0" in word for word in words):
        raise ValueError("must not contain NUL")
    if words and not words[0]:
        raise ValueError("must start with a program")
    if len(json.dumps(words)) > ARGV_MOST:
        raise ValueError(f"is longer than {ARGV_MOST} bytes")
    return words


class SpawnLimits(Limits, Params):
    """Bounds of one machine. Absent: the host's default."""


class SpawnSubtree(SubtreeLimits, Params):
    """Bounds of an agent with all its descendants together."""


class Funds(Params):
    """Budgets that an agent begins with, out of what its creator has or draws on."""

    tokens: int | None = Field(None, ge=1, le=AMOUNT_MOST // MILLI, description="Tokens.")
    money: int | None = Field(
        None, ge=1, le=AMOUNT_MOST // MILLI,
        description="Money, in millionths of the host's currency.",
    )  # fmt: skip
    usd: float | None = Field(
        None, ge=0.000001, le=1_000_000_000,
        description="Money in dollars, where that is the host's currency.",
    )  # fmt: skip


class Traits(Params):
    """What an agent is like; everything may be left out."""

    role: Literal["daemon", "agent", "architect", "lead", "worker", "task"] = Field(
        "agent", description="What it is for."
    )
    tier: Literal["strategic", "tactical", "operational"] = Field(
        "operational", description="At most the creator's."
    )
    title: str = Field("", max_length=200, description="Free text, such as Software Engineer.")
    image: str | None = Field(
        None, max_length=4096,
        description="Name of an image that this host offers; a path is the operator's to give.",
    )  # fmt: skip
    boot: bool = Field(default=False, description="Whether an init runs inside.")
    command: Annotated[list[str], AfterValidator(check_command)] = Field(
        [], max_length=1024, description="What it runs; empty: it holds, and mail waits."
    )
    capabilities: list[str] | None = Field(
        None, max_length=64,
        description="A subset of the creator's; absent: the role's usual ones that it holds.",
    )  # fmt: skip
    limits: SpawnLimits = Field(
        SpawnLimits.model_construct(),
        description="Bounds of its machine, within what the creator has left.",
    )
    subtree: SpawnSubtree | None = Field(
        None, description="Bounds of the agent with all its descendants together."
    )
    max_children: int | None = Field(None, ge=0, le=10_000, description="Children at most.")
    max_depth: int | None = Field(None, ge=0, le=64, description="Levels below it at most.")
    after_task: Literal["stays", "sleeps", "exits"] | None = Field(
        None, description="What it does when its last task has ended; absent: as its role does."
    )
    wakes: bool = Field(default=False, description="Whether mail wakes it when it sleeps.")
    parallel: int | None = Field(
        None, ge=1, le=1000,
        description="Tasks that it has at once. Absent: as many as its program begins, of at most 5"
        " that it is offered; `hive-agent serve` begins one.",
    )  # fmt: skip
    require_plan: bool = Field(
        default=False,
        description="Nothing of its tasks is executed before a plan is approved, whoever gives one"
        " and whatever is asked for.",
    )
    max_turns: int | None = Field(
        None, ge=1, le=1_000_000,
        description="Turns of each of its tasks at most, as it reports them (`iterations`).",
    )  # fmt: skip
    network: Literal["none", "egress-allowlist", "host"] | None = Field(
        None,
        description="Network profile: `none` for none. The others are refused while hosts have no"
        " network profiles. Absent: as `capabilities` says.",
    )
    funds: Funds | None = Field(
        None, description="Budgets of its own from the beginning; absent: it draws on its creator."
    )
    tools: list[str] | None = Field(
        None, max_length=256,
        description="Its tools, each `tool` or `tool(argument)`, within what the creator hands on;"
        " absent: the creator's list, or as its role may.",
    )  # fmt: skip
    model: str | None = Field(
        None, min_length=1, max_length=200,
        description="Name of its model, for the program that it runs; absent: that of its tier.",
    )  # fmt: skip
