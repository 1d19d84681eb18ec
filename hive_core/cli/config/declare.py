"""`hive declare FILE`: create the agents of a file that do not exist yet.

The file is a JSON object with the parameters of the operation `spawn` for each name. NixOS writes
it from `services.hive.agents`; other tools may write one too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from hive_core.cli.core.output import echo, say
from hive_core.cli.core.session import Session
from hive_core.cli.core.units import parse_size
from hive_core.errors import Conflict, InvalidArgument
from hive_core.model.agents.capability import check_grantable
from hive_core.varlink import Message

SIZES: Final = frozenset({"memory_max", "memory_high", "disk"})
_RIGHTS: Final = ("capabilities", "add_capabilities")
COMPARED: Final = ("parent", "role", "title")  # what a listing shows of an agent
Wanted = Mapping[str, Message]


def read(path: Path) -> dict[str, Message]:
    """The agents of a file by name."""
    try:
        agents = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}", field="file") from error
    if not isinstance(agents, dict) or not all(isinstance(spec, dict) for spec in agents.values()):
        raise InvalidArgument(
            f"{path} must be a JSON object with one object for each name", field="file"
        )
    return {name: with_sizes(name, spec) for name, spec in agents.items()}


def with_sizes(name: str, spec: Message) -> Message:
    """The spec with limits in bytes: a file may have `"512M"`."""
    sized = dict(spec)
    for table in ("limits", "subtree"):
        bounds = spec.get(table)
        if isinstance(bounds, dict):
            try:
                sized[table] = {
                    key: parse_size(value) if key in SIZES and isinstance(value, str) else value
                    for key, value in bounds.items()
                }
            except ValueError as error:
                raise InvalidArgument(f"cannot declare {name}: {table}: {error}", "file") from error
    return sized


def check_rights(wanted: Wanted) -> None:
    """Refuse the whole file, before any change, when it has a right that no agent can have."""
    for name, params in wanted.items():
        asked, network = [params.get(key) for key in _RIGHTS], params.get("network")
        rights = [str(right) for some in asked if isinstance(some, list) for right in some]
        if isinstance(network, str) and network != "none":
            rights.append(f"network:{network}")
        try:
            check_grantable(rights)
        except InvalidArgument as error:
            raise InvalidArgument(f"cannot declare {name}: {error.reason}", "file") from error


def in_order(wanted: Wanted) -> Iterator[str]:
    """Names with every parent before its children."""
    left = sorted(wanted)
    while left:
        ready = [name for name in left if wanted[name].get("parent") not in left]
        if not ready:
            raise Conflict(
                f"cannot declare {', '.join(left)}: each has a descendant of its own as its parent"
            )
        yield from ready
        left = [name for name in left if name not in ready]


def differences(wanted: Message, agent: Message) -> Iterator[str]:
    """The declared properties whose values differ in an existing agent."""
    for key in COMPARED:
        said = agent.get(key) or ""
        if key in wanted and (wanted[key] or "") != said:
            yield f"{key} is {said or 'none'}, declared {wanted[key] or 'none'}"


@click.command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print what would be created; create nothing.")
@click.pass_obj
def declare(session: Session, *, file: Path, dry_run: bool) -> None:
    """Create the agents of a JSON file that do not exist yet, parents first.

    Existing agents are not changed, moved or destroyed; differences in parent, role or title are
    reported.
    """
    wanted = read(file)
    check_rights(wanted)
    known = {str(row.get("name")): row for row in session.rows("list_agents", "agents")}
    for name in in_order(wanted):
        if name in known:
            for difference in differences(wanted[name], known[name]):
                say(f"{name} is not changed: {difference}")
        elif dry_run:
            echo(f"would create {name}")
        else:
            session.change("spawn", **{**wanted[name], "name": name})
            echo(f"created {name}")
