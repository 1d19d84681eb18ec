"""The table `[egress]` of `hive.toml`: where agents with a network profile may connect to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.model.agents.agent import EgressRuleText, Value
from hive_core.model.config.written_values import Bytes


class EgressSettings(Value):
    """Connections of agents that have a network profile (the capability `network:PROFILE`)."""

    allow: Annotated[tuple[EgressRuleText, ...], Field(max_length=1000)] = Field(
        (),
        description="Where agents with the profile `egress-allowlist` may connect to: `NAME:PORT`,"
        " or `*.NAME:PORT` for all names with one or more labels before NAME. An agent may have a"
        " narrower list of its own.",
    )
    idle: float = Field(
        300.0,
        ge=1,
        le=86_400,
        description="Seconds without a byte in either direction, after which a connection ends.",
    )
    longest: float = Field(
        86_400.0, ge=1, le=30 * 86_400, description="Seconds after which any connection ends."
    )
    bytes: Bytes = Field(
        16 << 30,
        ge=1 << 20,
        description="Bytes in both directions together, after which a connection ends.",
    )
