"""`hive migrate`: bring storage and agents of an older version up to date."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from hive_core.cli.core.output import Column, Listing, Row, echo, output_option, say
from hive_core.cli.core.progress import working
from hive_core.cli.core.session import Session
from hive_core.cli.host.install import layout
from hive_core.cli.host.install.machine import HostMachine, settings
from hive_core.cli.host.install.older_install import Old
from hive_core.cli.host.install.takeover import Takeover, steps
from hive_core.cli.host.setup import need_root, root_agent
from hive_core.errors import Conflict

if TYPE_CHECKING:
    from hive_core.model.config.settings import HostLimits

MARKER: Final = Path(layout.HOME, "layout")
ROWS: Final = Listing("what", tuple(map(Column, ("kind", "number", "what", "state"))))
DUE: Final = "due"


def _states() -> list[Row]:
    """The states of migrations, from modules of the daemon that are slow to import."""
    versions = importlib.import_module("hive_core.cli.host.install.versions")
    rows: list[Row] = versions.states(MARKER)
    return rows


def _own(style: str, *, dry_run: bool) -> int:
    """Restart the daemon, which migrates before it serves."""
    rows = _states()
    if not dry_run and any(row["state"] == DUE for row in rows):
        need_root("migrate")
        with working("migrating"):
            HostMachine(echo).restart("hived.service")
        rows = _states()
    ROWS.show(rows, style)
    return int(any(row["state"] == "newer" for row in rows))


def _from(session: Session, folder: Path, *, dry_run: bool) -> None:
    """Import an older installation. A dry run makes all checks of a real run."""
    config = Path(layout.CONFIG)
    root = root_agent(config)[0] if config.exists() else "root"
    old = Old(folder, root)
    if old.marker.exists():
        echo(f"nothing to do: {old.marker} lists what was copied")
        return
    _refuse(old)
    for path in old.left:
        say(f"not copied: {path}")
    need_root("migrate")
    takeover = Takeover(session, old, echo)
    takeover.check(root, _bounds(config))
    _refuse(old)
    if dry_run:
        for step in steps(old, root):
            if not takeover.has_made(step):
                echo(f"would {step.text}")
        echo(f"would write {old.marker}")
        return
    takeover.run(root)
    echo(f"wrote {old.marker}")


def _bounds(config: Path) -> HostLimits:
    """The limits in the settings of this host, whose module is slow to import."""
    limits = settings(config).get("limits") if config.exists() else None
    module = importlib.import_module("hive_core.model.config.settings")
    bounds: HostLimits = module.HostLimits.model_validate(
        limits if isinstance(limits, dict) else {}
    )
    return bounds


def _refuse(old: Old) -> None:
    """Print every fault on its own line, and refuse."""
    for fault in old.faults:
        say(f"fault: {fault}")
    if old.faults:
        count = len(old.faults)
        faults = "a fault" if count == 1 else f"{count} faults"
        raise Conflict(f"cannot migrate {old.folder}: {faults}; nothing was changed")


@click.command
@click.option("--from", "folder", type=click.Path(path_type=Path),
              help="Folder of an older installation, such as /var/lib/hyperhive.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print each step; change nothing.")
@output_option
@click.pass_obj
def migrate(session: Session, folder: Path | None, style: str, *, dry_run: bool) -> int:
    """Bring the storage and the agents of an older version up to date.

    Without --from the command migrates the storage and the ledger of this hive, as the daemon does
    at each start. With --from it imports the agents of an older installation, whose `manager`
    becomes the root agent. It copies their files, and deletes nothing of the old installation.
    """
    if folder is None:
        return _own(style, dry_run=dry_run)
    _from(session, folder, dry_run=dry_run)
    return 0
