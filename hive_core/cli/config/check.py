"""`hive config`: what the settings of the host, and the configuration of an agent, may be.

Asked before the daemon is told to use the one, and before anybody is asked to approve the other.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from hive_core.agent.output import plain
from hive_core.cli.core.lazy import Group
from hive_core.cli.core.output import Column, Listing, echo, output_option, say
from hive_core.cli.core.progress import working
from hive_core.cli.host.install.layout import CONFIG
from hive_core.errors import NotFound

_SEED: Final = Path(__file__).parents[2] / "seed"
_TEMPLATE: Final = {
    "agent.toml": "host", "AGENTS.md": "host", "agent.nix": "nix", "prompts/system.md": "host",
    "skills/README.md": "host",
}  # fmt: skip
_SETTINGS: Final = Listing("key", (), "no fault was found")
_LISTING: Final = Listing("place", (Column("place"), Column("fault")), "no fault was found")


@click.group(cls=Group)
def config() -> None:
    """Check the settings of this host and the configuration of an agent; show what they may say."""


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path), default=CONFIG)
@output_option
def check_settings(file: Path, style: str) -> int:
    """Say what is wrong in the settings of this host, FILE (/etc/hive/hive.toml).

    It is the judgement of the daemon, which does not start with a file that has a fault, and does
    not reload one. Exit status 1 when there is a fault.
    """
    # Imported here: pydantic costs what the other commands do not need.
    from hive_core.host.config.settings import check  # noqa: PLC0415

    if not file.exists() and str(file) != CONFIG:
        raise NotFound(f"{file}: no such file")
    findings = check(file)
    if style == "table":
        for each in findings:
            echo(plain(each.text))
        if not findings:
            say(f"{file}: no fault was found")
    else:
        rows = [{**asdict(each), "file": str(each.file)} for each in findings]
        _SETTINGS.show(rows, style)
    return int(bool(findings))


@config.command
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@output_option
def lint(folder: Path, style: str) -> int:
    """Say what would be refused of a configuration: hive config lint DIR.

    Reads the files as they lie there, committed or not, and runs no git. Exit status 1 when there
    is a fault.
    """
    # Imported here: pydantic costs what the other commands do not need.
    from hive_core.cli.config.lint import found  # noqa: PLC0415

    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder")
    with working(f"reading {folder}"):
        rows = [{"place": place, "fault": fault} for place, fault in found(folder)]
    _LISTING.show(rows, style)
    return int(bool(rows))


@config.command
def schema() -> None:
    """Print the JSON schema of agent.toml, for editors."""
    from hive_core.surfaces.config import config_schema  # noqa: PLC0415

    echo(config_schema().rstrip())


@config.command
@click.argument("file", type=click.Choice(tuple(_TEMPLATE)), default="agent.toml")
def template(file: str) -> None:
    """Print a file that a new agent starts with."""
    echo((_SEED / _TEMPLATE[file] / file).read_text(encoding="utf-8").rstrip())
