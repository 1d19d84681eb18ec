"""The table `[notify]` of `hive.toml`: which notices hive-notify sends, where, and when."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from hive_core.errors import InvalidArgument
from hive_core.model.agents.agent import AgentName, Value
from hive_core.model.config.addresses import HttpAddress
from hive_core.model.config.validation import find_faults

NoticeClass = Literal["needs-input", "failed", "budget", "done", "urgent"]
CLASSES: Final[tuple[NoticeClass, ...]] = ("needs-input", "failed", "budget", "done", "urgent")
_QUIET: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d) (\S{1,64})")
_DAY: Final = timedelta(days=1)
_KEY_LEAST, _KEY_MOST = 24, 64  # bytes, after Standard Webhooks
_WEBHOOK_SECRET: Final = "whsec_"  # noqa: S105 - how a secret begins
_WANTED: Final = {
    "webhook": "it has to have the key, whsec_ and 24 to 64 bytes in base64",
    "apprise": "it has to have the addresses of apprise, one a line",
}
# The file of secrets with this name has the token of hive-notify.
_TOKEN: Final = "login"  # noqa: S105 - a name


class QuietHours:
    """A part of each day in a time zone, such as `22:00-07:00 Europe/Berlin`."""

    def __init__(self, text: str) -> None:
        match = _QUIET.fullmatch(text)
        if match is None:
            raise ValueError("is not HH:MM-HH:MM ZONE, such as 22:00-07:00 Europe/Berlin")
        numbers = [int(part) for part in match.groups()[:4]]
        self._start, self._end = tuple(numbers[:2]), tuple(numbers[2:])
        if self._start == self._end:
            raise ValueError("has no hours: it starts when it ends")
        try:
            self._zone = ZoneInfo(match[5])
        except (OSError, ValueError, LookupError) as error:
            raise ValueError(f"names no time zone of this host: {match[5]}") from error

    def contains(self, now: float) -> bool:
        """Whether this moment is in the quiet hours."""
        at = datetime.fromtimestamp(now, self._zone)
        clock = (at.hour, at.minute)
        if self._start < self._end:
            return self._start <= clock < self._end
        return clock >= self._start or clock < self._end

    def end_after(self, now: float) -> float:
        """When the quiet hours of this moment end; the moment itself outside of them.

        The clock on the wall counts, so a night in which clocks change is longer or shorter.
        """
        if not self.contains(now):
            return now
        at = datetime.fromtimestamp(now, self._zone)
        end = at.replace(hour=self._end[0], minute=self._end[1], second=0, microsecond=0, fold=0)
        if end.timestamp() <= now:
            end = (at + _DAY).replace(
                hour=self._end[0], minute=self._end[1], second=0, microsecond=0, fold=0
            )
        return max(end.timestamp(), now)


def _check_quiet(text: str) -> str:
    if text:
        QuietHours(text)
    return text


class NotifyRoute(Value):
    """One receiver of notifications. Its secret is the file `/etc/hive/notify/NAME`."""

    type: Literal["ntfy", "webhook", "apprise"] = Field(description="ntfy, webhook or apprise.")
    url: HttpAddress = Field(
        "", description="The server of ntfy, or the address of the webhook. apprise has its"
        " addresses in the secret, as they contain passwords.",
    )  # fmt: skip
    topic: Annotated[str, Field(pattern=r"^[-_A-Za-z0-9]{0,64}$")] = Field(
        "", description="Topic of ntfy. Any person who knows it can read the notices."
    )
    classes: tuple[NoticeClass, ...] = Field(
        CLASSES, min_length=1,
        description="needs-input (questions, plans, approvals), failed (agents), budget, done"
        " (tasks of the operator), urgent (critical escalations, alarms, hived silent for 60 s).",
    )  # fmt: skip
    agents: tuple[AgentName, ...] = Field(
        (), description="Only what is about these agents; empty: all. Alarms are always sent."
    )
    quiet: Annotated[str, Field(max_length=80), AfterValidator(_check_quiet)] = Field(
        "", description="Hours in which only urgent notices are sent, as"
        " `22:00-07:00 Europe/Berlin`; empty: none.",
    )  # fmt: skip
    text: Literal["none", "title", "full"] = Field(
        "title",
        description="What leaves the host: none (the class), title (kind and agent, nothing that an"
        " agent wrote), full (the subject too, which agents wrote).",
    )

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if self.type != "apprise" and not self.url:
            raise ValueError(f"a route of type {self.type} needs `url`")
        if self.type == "ntfy" and not self.topic:
            raise ValueError("a route of type ntfy needs `topic`")
        if self.type == "apprise" and self.url:
            raise ValueError("a route of type apprise has its addresses in the secret, not `url`")
        return self

    @property
    def quiet_hours(self) -> QuietHours | None:
        return QuietHours(self.quiet) if self.quiet else None


class NotifySettings(Value):
    """Notifications to phones and programs, sent by hive-notify."""

    routes: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")], NotifyRoute] = Field(
        {}, max_length=32, description="The receivers, by name."
    )


@dataclass(frozen=True, slots=True)
class CheckedRoutes:
    """The routes that can be used, and the first fault of each other one, by name."""

    routes: Mapping[str, NotifyRoute]
    faults: Mapping[str, str]


def check_routes(table: object) -> CheckedRoutes:
    """The routes of the parsed table `[notify]`.

    InvalidArgument: the fault is in the table itself, and not in one route.
    """
    tables = table if isinstance(table, dict) else {"notify": table}
    faults: dict[str, str] = {}
    for fault in find_faults(NotifySettings, tables):
        key = f"notify.{fault.key}"
        if fault.place[:1] != ("routes",) or len(fault.place) == 1:
            raise InvalidArgument(f"{key}: {fault.reason}", field=key)
        faults.setdefault(str(fault.place[1]), f"{key}: {fault.reason}")
    table_of_routes = tables.get("routes")
    rows = table_of_routes if isinstance(table_of_routes, dict) else {}
    good = {name: NotifyRoute.model_validate(rows[name]) for name in rows if name not in faults}
    return CheckedRoutes(good, faults)


def check_secret(name: str, route: NotifyRoute, secret: str) -> None:
    """Raise InvalidArgument where a route cannot be used with this secret."""
    if name == _TOKEN:
        reason = "no route can have this name: the file has the token of hive-notify"
        raise InvalidArgument(reason, field="secret")
    if route.type != "ntfy" and not secret:
        raise InvalidArgument(
            f"this file is missing or empty: {_WANTED[route.type]}", field="secret"
        )
    if route.type == "webhook":
        webhook_key(secret)


def webhook_key(secret: str) -> bytes:
    """The key in `whsec_BASE64`."""
    try:
        key = base64.b64decode(secret.removeprefix(_WEBHOOK_SECRET), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not (secret.startswith(_WEBHOOK_SECRET) and _KEY_LEAST <= len(key) <= _KEY_MOST):
        raise InvalidArgument(
            "the secret of a webhook is whsec_ and 24 to 64 bytes in base64", field="secret"
        )
    return key
