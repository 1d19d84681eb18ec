"""The table `[otel]` of `hive.toml`: where traces go, and what of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.model.agents.agent import Value
from hive_core.model.config.addresses import HttpAddress


class OtelSettings(Value):
    """Traces of tasks, turns, model calls and tools, sent by hive-otel."""

    url: HttpAddress = Field(
        "", description="The receiver of OTLP over HTTP, such as http://localhost:4318/v1/traces;"
        " empty: no traces.",
    )  # fmt: skip
    service: Annotated[str, Field(pattern=r"^[-._A-Za-z0-9]{1,64}$")] = Field(
        "hive", description="What this host is called in the traces (`service.name`)."
    )
    texts: bool = Field(
        default=False,
        description="Whether spans have titles of tasks, arguments of tools and reasons, which"
        " agents wrote.",
    )
