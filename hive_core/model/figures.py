"""How much work there may be, and how long it may take: tables of `hive.toml` beside those of
settings.py.
"""

from __future__ import annotations

from pydantic import Field

from hive_core.model.agent import Value


class Life(Value):
    """How agents end, sleep and come back; in seconds."""

    reap: float = Field(
        60.0, ge=0, le=86_400, description="After which a one-shot agent that ended is destroyed."
    )


class Tasks(Value):
    """How much one agent may be given, and for how long."""

    deadline: float = Field(300.0, gt=0, description="Seconds of a task for which nobody says.")


class Talk(Value):
    """Questions, escalations and reminders."""

    open: int = Field(32, ge=1, description="Open questions of one agent.")


class Triggers(Value):
    """What happens by itself."""

    fires: int = Field(100, ge=1, description="Fires of one agent in a minute.")


class Artifacts(Value):
    """What agents keep for each other, in bytes."""

    size: int = Field(64 << 20, ge=1, description="Of one artifact.")


class Queues(Value):
    """Named queues, topics and pipes."""

    slots: int = Field(64, ge=1, description="Chunks in a pipe that were not read yet.")


class Budgets(Value):
    """What may be spent."""

    warn: float = Field(0.8, gt=0, le=1, description="Share of a budget at which it is warned.")


class Log(Value):
    """The events as files beside the ledger."""

    rotate: int = Field(64 << 20, ge=4096, description="Bytes of one file.")


class BuiltIn(Value):
    """The built-in daemons, made at start when enabled."""

    queen: bool = Field(default=False, description="A queen under the root agent.")
    maid: bool = Field(default=False, description="A maid under the queen, or the root agent.")
