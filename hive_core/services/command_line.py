"""The command line of a service: `--help`, `--version`, and the same word for the same thing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hive_core import VERSION


class ServiceOption(NamedTuple):
    """`--NAME`, a field of the service's options. `formerly` is its name in older releases."""

    name: str
    metavar: str
    text: str
    kind: type[Path | float] = Path
    formerly: str = ""


class ServiceProgram(NamedTuple):
    """The name of a service, what it does, and its options."""

    name: str
    description: str
    options: Iterable[ServiceOption]


# The settings of this host, and the socket at which hived takes logins.
SETTINGS = ServiceOption("settings", "FILE", "settings of hive", formerly="config")
LOGIN_SOCKET = ServiceOption("socket", "SOCKET", "where hived takes logins", formerly="login")


def parse_arguments(
    program: ServiceProgram, defaults: object, arguments: Sequence[str]
) -> dict[str, Any]:
    """The values of a command line. Help, the version and a wrong option end the program here."""
    parser = argparse.ArgumentParser(
        program.name, description=program.description, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"{program.name} {VERSION}")
    for option in program.options:
        default = getattr(defaults, option.name)
        parser.add_argument(
            f"--{option.name}", type=option.kind, default=default, metavar=option.metavar,
            help=f"{option.text} (default: {default})",
        )  # fmt: skip
        if option.formerly:
            parser.add_argument(
                f"--{option.formerly}", type=option.kind, dest=option.name,
                default=argparse.SUPPRESS, help=argparse.SUPPRESS,
            )  # fmt: skip
    return vars(parser.parse_args(arguments))
