"""Types of options and arguments that several commands share: durations, times, limits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from hive_core.cli.core.units import parse_duration, parse_percent, parse_size

if TYPE_CHECKING:
    from typing_extensions import override

    FloatType = click.ParamType[float]
    TextType = click.ParamType[str]
else:  # importing typing_extensions would cost a tenth of the start
    FloatType = TextType = click.ParamType

    def override(method: object) -> object:
        return method


class DurationType(FloatType):
    """Seconds, written as `90`, `90s`, `2h` or `1h30m`, within bounds."""

    name = "duration"

    def __init__(self, least: float = 0, most: float | None = None) -> None:
        self.least, self.most = least, most

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < self.least or (self.most is not None and seconds > self.most):
            bounds = f"at least {self.least:g}s" + (
                "" if self.most is None else f", at most {self.most:g}s"
            )
            self.fail(f"{value} is out of range: {bounds}", param, ctx)
        return seconds


class TimeType(FloatType):
    """A time, converted to seconds since 1970: a date, such a number, or a duration before now."""

    name = "time"

    def __init__(self, *, ago: bool) -> None:
        self.ago = ago

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        try:
            return float(text)
        except ValueError:
            pass
        if self.ago and text[:1].isdigit() and text[-1:].isalpha():
            try:
                return time.time() - parse_duration(text)
            except ValueError:
                pass
        from datetime import datetime  # noqa: PLC0415 - slow to load

        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            wanted = "2030-01-31T09:00" + (", or 30m, 2h or 1d ago" if self.ago else "")
            self.fail(f"{text!r} is not a time; write it as {wanted}", param, ctx)


DURATION: Final = DurationType()
TIME: Final = TimeType(ago=False)
SINCE: Final = TimeType(ago=True)


def parse_limits(pairs: object) -> dict[str, int]:
    """Read `KEY=VALUE` words, such as `memory_max=512M`, as operations take them."""
    bounds = {}
    for pair in pairs if isinstance(pairs, tuple) else ():
        key, equals, value = str(pair).partition("=")
        if not equals:
            raise click.UsageError(
                f"{pair!r} is not a limit; write KEY=VALUE, such as memory_max=512M"
            )
        try:
            parse = parse_percent if key.strip() == "cpu_quota" else parse_size
            bounds[key.strip()] = parse(value)
        except ValueError as error:
            raise click.UsageError(f"{key.strip()}: {error}") from error
    return bounds


class CommitDigits(TextType):
    """The digits that show which commit the operator has read."""

    name = "hex8"

    @override
    def get_missing_message(
        self,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        ctx: click.Context | None,  # noqa: ARG002 - click's signature
    ) -> str:
        return "`hive approval show ID` ends with the whole command."
