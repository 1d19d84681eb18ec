"""`hive config`: check the settings of the host and the configuration of an agent before use."""

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
from hive_core.cli.host.install.steps import NIXOS
from hive_core.errors import NotFound

_SEED: Final = Path(__file__).parents[2] / "seed"
_TEMPLATE: Final = {
    "agent.toml": "host", "AGENTS.md": "host", "agent.nix": "nix", "prompts/system.md": "host",
    "skills/README.md": "host",
}  # fmt: skip
_SETTINGS: Final = Listing("key", (), "no faults")
_LISTING: Final = Listing("place", (Column("place"), Column("fault")), "no faults", fold=True)


@click.group(cls=Group)
def config() -> None:
    """Check the settings of this host and the configuration of an agent.

    Print schema and template.
    """


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path), default=CONFIG)
@output_option
def check_settings(file: Path, style: str) -> int:
    """Check the settings of this host, FILE (/etc/hive/hive.toml), and print each fault.

    The daemon checks them in the same way: it neither starts with nor reloads a file that has a
    fault. It also checks models.toml in the same folder; with a fault there the daemon starts, and
    no agent may use a model. And it checks the secret of each route of hive-notify, in the folder
    notify; without it nothing is sent by that route. The exit status is 1 when there is a fault.
    """
    # Imported here: pydantic is slow to import, and other commands do not need it.
    from hive_core.host.config.models import MODELS, check_models  # noqa: PLC0415
    from hive_core.host.config.routes import check_secrets  # noqa: PLC0415
    from hive_core.host.config.settings import check  # noqa: PLC0415

    if not file.exists() and str(file) != CONFIG:
        raise NotFound(f"{file}: no such file")
    findings = [*check(file), *check_models(file.parent / MODELS)]
    if not NIXOS.exists():  # there the secrets of routes may lie anywhere
        findings += check_secrets(file)
    if style == "table":
        for finding in findings:
            echo(plain(finding.text))
        if not findings:
            say(f"{file}: no faults")
    else:
        rows = [{**asdict(finding), "file": str(finding.file)} for finding in findings]
        _SETTINGS.show(rows, style)
    return int(bool(findings))


@config.command
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@output_option
def lint(folder: Path, style: str) -> int:
    """Check the configuration of an agent in FOLDER, and print what the daemon would refuse.

    The command reads the files of the folder, committed or not, and does not run git. The exit
    status is 1 when there is a fault.
    """
    # Imported here: pydantic is slow to import, and other commands do not need it.
    from hive_core.cli.config.lint import find_lint  # noqa: PLC0415

    if not folder.is_dir():
        raise NotFound(f"{folder}: no such folder")
    with working(f"reading {folder}"):
        rows = [{"place": place, "fault": fault} for place, fault in find_lint(folder)]
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
    """Print a file of the template for a new agent."""
    echo((_SEED / _TEMPLATE[file] / file).read_text(encoding="utf-8").rstrip())
