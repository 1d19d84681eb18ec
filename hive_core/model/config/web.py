"""Settings of the dashboard: `[web]` in hive.toml."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from hive_core.model.agents.agent import Value
from hive_core.model.config.origins import browser_origin

Origin = Annotated[
    str, Field(pattern=r"^(https://[a-z0-9.-]{1,253}|http://localhost)(:[0-9]{1,5})?$"),
    AfterValidator(browser_origin),
]  # fmt: skip


class WebSettings(Value):
    """The dashboard and its HTTP API."""

    enable: bool = Field(
        default=True, description="Whether `hive setup` starts the dashboard. On NixOS the option"
        " `services.hive.web.enable` decides.",
    )  # fmt: skip
    origins: tuple[Origin, ...] = Field(
        ("http://localhost:4483",), min_length=1,
        description="Web addresses under which browsers reach hive-web. A passkey belongs to the"
        " host of one; links have the last.",
    )  # fmt: skip


def host_of(origin: str) -> str:
    """The host of a web address, to which passkeys belong."""
    return urlsplit(origin).hostname or ""
