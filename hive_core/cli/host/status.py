"""`hive status`: the state of the hive on one page."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

import click

from hive_core.cli.core.output import Row, colour, one, output_option, stamp, words
from hive_core.cli.core.session import Session, entries
from hive_core.cli.core.units import format_size, quantity
from hive_core.cli.host.install import layout
from hive_core.cli.work.budgets import pivot

STORAGE: Final = "/var/lib/hive"
_DAY: Final = 86_400
_SHOWN: Final = 5  # failed agents; `hive todo` lists all
_PERCENT: Final = 100
_PATIENCE: Final = 5.0  # seconds for systemd to answer


@dataclass(frozen=True)
class HostFigures:
    """What the command reads of this host itself."""

    disk: dict[str, int] | None
    models: dict[str, str]
    egress: str


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _agents(row: Row) -> str:
    counts = sorted(_table(row.get("agents")).items())
    parts = [f"{number} {colour(words(state))}" for state, number in counts if number]
    return ", ".join(parts) or "none"


def _tasks(row: Row) -> str:
    counts = {state: n for state, n in _table(row.get("tasks")).items() if isinstance(n, int)}
    running = counts.pop("in_progress", 0) + counts.pop("stopping", 0)
    queued = counts.pop("queued", 0)
    waiting = sum(counts.values())
    return f"{running} running, {queued} queued" + (f", {waiting} waiting" if waiting else "")


def disk_use(path: str = STORAGE) -> dict[str, int] | None:
    """Bytes of the disk of the agents, and those that are free; None: not readable."""
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    return {"total": facts.f_blocks * facts.f_frsize, "free": facts.f_bavail * facts.f_frsize}


def _disk(use: dict[str, int] | None) -> str:
    """The use of the disk in words."""
    if use is None:
        return "-"
    total, free = use["total"], use["free"]
    percent = round(_PERCENT * (total - free) / total) if total else 0
    return f"{percent} % used, {format_size(free >> 20 << 20)} free"


def _usage_today(session: Session) -> Row:
    """The usage since midnight (UTC)."""
    return session.ask("get_usage", by="day", since=time.time() // _DAY * _DAY)


def _usage(reply: Row) -> str:
    """The usage in words."""
    rows = pivot(entries(reply, "sums"))
    if not rows:
        return "nothing today"
    row = rows[-1]
    parts = [f"{words(row['money'])} {words(reply.get('currency'))}"] if "money" in row else []
    parts += [quantity(row[f"{noun}s"], noun) for noun in ("token", "message") if f"{noun}s" in row]
    return f"{', '.join(parts) or 'nothing'} today (UTC)"


def model_services() -> dict[str, str]:
    """The states of the services of models; the embedded one runs only while it is called."""
    states = service_states("hive-model", "hive-small")
    if states.get("hive-small") == "inactive":
        states["hive-small"] = "idle" if layout.has_small() else "not installed"
    return states


def service_states(*services: str) -> dict[str, str]:
    """The states of these services of systemd; empty where it does not answer."""
    try:
        done = subprocess.run(
            ["systemctl", "is-active", *services],
            capture_output=True, text=True, check=False, timeout=_PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(zip(services, done.stdout.split(), strict=False))


def _models(states: dict[str, str]) -> str:
    return ", ".join(f"{name} {colour(state)}" for name, state in states.items()) or "-"


def _failure_lines(row: Row) -> Iterator[str]:
    failed = entries(row, "failed")
    for agent in failed[:_SHOWN]:
        reason = f": {words(agent.get('why'))}" if agent.get("why") else ""
        yield f"{colour(words(agent.get('state')))} {words(agent.get('agent'))}{reason}"
    if len(failed) > _SHOWN:
        yield f"and {len(failed) - _SHOWN} more"


def _lines(row: Row, host: HostFigures, usage: Row) -> Iterator[str]:
    """The status for people."""
    hived = _table(row.get("hived"))
    yield f"hived    {words(hived.get('version'))}, since {stamp(hived.get('since'))}"
    yield f"commit   {words(row.get('commit'))}"
    yield f"agents   {_agents(row)}"
    for line in _failure_lines(row):
        yield f"         {line}"
    for held in entries(row, "quarantines"):
        reason = f": {words(held.get('reason'))}" if held.get("reason") else ""
        name, count = words(held.get("agent")), quantity(held.get("agents"), "agent")
        yield f"held     {name} is in quarantine, {count} in all{reason}"
    yield f"tasks    {_tasks(row)}"
    yield f"todo     {row.get('waiting') or 'nothing'} waiting for you (`hive todo`)"
    yield f"models   {_models(host.models)}"
    yield f"network  hive-egress {colour(host.egress) if host.egress else '-'}"
    yield f"disk     {_disk(host.disk)}"
    yield f"used     {_usage(usage)}"
    for refused in entries(row, "refused"):
        text = f"{words(refused.get('commit'))}: {words(refused.get('reason'))}"
        yield f"{click.style('refused', fg='red')}  {text}"
    alarms = row.get("alarms")
    for alarm in alarms if isinstance(alarms, list) else []:
        yield f"{click.style('alarm', fg='red')}    {words(alarm)}"


@click.command
@output_option
@click.pass_obj
def status(session: Session, style: str) -> None:
    """Show the daemon, agents by state, failures, tasks, open requests, models, disk and usage.

    The page also has the commit in force, refused commits, alarms and quarantines. -o json adds
    `models`, `egress`, `disk` and `used` to the report of the daemon.
    """
    row, usage = session.ask("status"), _usage_today(session)
    egress = service_states(layout.EGRESS_USER).get(layout.EGRESS_USER, "")
    host = HostFigures(disk_use(), model_services(), egress)
    used = {"sums": entries(usage, "sums"), "currency": usage.get("currency")}
    whole = {**row, **asdict(host), "used": used}
    one(whole, style, "commit", lambda: _lines(row, host, usage))
