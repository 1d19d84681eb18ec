"""`hive cost` and `hive budget`: what was used, and what may be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, Row, echo, output_option, say
from hive_core.cli.core.session import Session, complete_agent
from hive_core.cli.work.group_usage import group_of, seconds

KINDS: Final = (
    "tokens", "money", "time", "messages", "tasks", "children", "calls", "tokens_per_hour",
    "context",
)  # fmt: skip
TIERS: Final = ("strategic", "tactical", "operational")
BY: Final = ("agent", "subtree", "task", "day", "model", "tier", "user", "node")
MILLION: Final = 1_000_000
REPORTED: Final = "~"
_COLUMNS: Final = {
    "tokens": "tokens", "tokens_in": "tokens", "tokens_out": "tokens", "money": "money",
    "time": "time", "cpu": "cpu", "tool_calls": "tools", "messages": "messages", "tasks": "tasks",
    "children": "agents", "calls": "calls",
}  # fmt: skip


def clock(seconds: int) -> str:
    """Seconds as `12:03:04`."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def money(amount: int) -> str:
    """Millionths as `1.50`; to the last digit that is not 0, at least two."""
    whole, part = divmod(abs(amount), MILLION)
    digits = f"{part:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{digits}"


def amount(kind: str, value: object) -> str:
    """An amount as people say it."""
    number = value if isinstance(value, int) else 0
    return {"money": money, "time": clock, "cpu": seconds}.get(kind, str)(number)


def pivoted(sums: Iterable[Row]) -> list[Row]:
    """One row for each key. What agents reported has a mark; what is mixed has it too."""
    found: dict[str, dict[str, int]] = {}
    reported: set[tuple[str, str]] = set()
    for each in sums:
        key, column = str(each["key"]), _COLUMNS.get(str(each["kind"]))
        if column is None:
            continue
        row, value = found.setdefault(key, {}), each["amount"]
        row[column] = row.get(column, 0) + (value if isinstance(value, int) else 0)
        if each["source"] == "reported":
            reported.add((key, column))
    return [
        {"key": key, **{
            name: f"{REPORTED if (key, name) in reported else ''}{amount(name, value)}"
            for name, value in row.items()
        }}
        for key, row in found.items()
    ]  # fmt: skip


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option("--by", type=click.Choice(BY), default="agent", show_default=True,
              help="What the sums are of.")  # fmt: skip
@click.option("--days", type=click.IntRange(1), help="Only the last so many days (of UTC).")
@output_option
@click.pass_obj
def cost(session: Session, name: str | None, by: str, days: int | None, style: str) -> None:
    """Sum up what NAME and all below it have used; without NAME, everybody.

    The daemon measures time, CPU, messages, tasks, agents, tools and calls. Tokens and money are
    what agents report; such figures begin with ~.

    Those who live come first, then a line for all gone children of each, then those who are gone
    last.
    """
    since = None if days is None else time.time() - (days - 1) * 86_400
    reply = session.ask("get_usage", agent=name, by=by, since=since)
    sums = _rows(reply.get("sums"))
    if not reply.get("whole"):
        say("not everything fits: ask for less (NAME, --days, --by)")
    if style != "table":
        _SUMS.show(sums, style)
        return
    heading = f"money {reply.get('currency')}"
    order = dict.fromkeys(_COLUMNS.values())
    columns = (Column(each, heading if each == "money" else "") for each in order)
    Listing("key", (Column("key", by), *columns), "nothing was used").show(pivoted(sums), style)


_SUMS: Final = Listing(
    "key", (Column("key"), Column("kind"), Column("source"), Column("amount")), "nothing was used"
)


@click.group(cls=ListGroup)
def budget() -> None:
    """Give agents budgets, and look at what is left."""


def _cells(row: Row) -> Row:
    kind = str(row["kind"])
    mark = REPORTED if row.get("source") == "reported" else ""
    spent = {each: f"{mark}{amount(kind, row[each])}" for each in ("spent", "owed")}
    return {**row, **spent, "left": amount(kind, row["left"]), "task": row.get("task") or "-"}


_BALANCES: Final = Listing(
    "agent",
    tuple(map(Column, ("agent", "kind", "tier", "task", "left", "spent", "owed", "unit"))),
    "no budgets",
)


@budget.command
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def show(session: Session, name: str | None, style: str) -> None:
    """Show what pays for NAME: its own budgets, or those of ancestors. Without NAME, all.

    A task that was given something of its own has a line by itself. What agents report, and the
    daemon cannot see, begins with ~.
    """
    rows = _rows(session.ask("get_usage", agent=name).get("budgets"))
    _BALANCES.show(map(_cells, rows) if style == "table" else rows, style)


budget.add_command(show, "list")


_WRITTEN: Final = {
    "money": re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?"),
    "time": re.compile(r"(\d{1,12})([smhd]?)"),
}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def written(kind: str, text: str) -> int:
    """Money as `12.50`, time as seconds, `15m` or `2h`; all else is a number."""
    found = _WRITTEN.get(kind, re.compile(r"(\d{1,15})()")).fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text} is no amount of {kind}")
    whole, part = int(found[1]), found[2] or ""
    if kind == "money":
        return whole * MILLION + int(part.ljust(6, "0"))
    return whole * _SECONDS[part]


def _acting(word: str, text: str, act: Callable[[int, int, int], int]) -> click.Command:
    """`act` makes of the amount, what is left and what was spent how much is to be moved."""

    @click.pass_obj
    def run(session: Session, name: str, kind: str, given: str, tier: str | None) -> None:
        left, spent = _own(session, name, kind, tier)
        wanted = act(written(kind, given), left, spent)
        if wanted:
            _said(
                session.change("allocate_budget", agent=name, kind=kind, amount=wanted, tier=tier)
            )

    arguments: list[click.Parameter] = [*_WHOSE, click.Argument(["given"], metavar="AMOUNT"), _TIER]
    return click.Command(word, callback=run, params=arguments, help=text)


def _own(session: Session, name: str, kind: str, tier: str | None) -> tuple[int, int]:
    """What is left of the agent's own budget, and what was spent; none is nothing of both."""
    for row in _rows(session.ask("get_usage", agent=name).get("budgets")):
        found = (row["agent"], row["kind"], row["tier"], row.get("task", ""))
        if found == (name, kind, tier or "", ""):
            left, spent = row["left"], row["spent"]
            if isinstance(left, int) and isinstance(spent, int):
                return left, spent
    return 0, 0


def _said(reply: Row) -> None:
    kind = str(reply["kind"])
    echo(f"{reply['agent']} has {amount(kind, reply['left'])} {kind} left,"
         f" {amount(kind, reply['spent'])} spent")  # fmt: skip


_TIER: Final = click.Option(["--tier"], type=click.Choice(TIERS), help="Only for this tier.")
_WHOSE: Final[tuple[click.Parameter, ...]] = (
    click.Argument(["name"], shell_complete=complete_agent),
    click.Argument(["kind"], type=click.Choice(KINDS)),
)
_MORE: Final = (
    "\n\nMoney is written 12.50, time in seconds or as 15m or 2h; calls are calls a minute, context"
    " is tokens."
)
budget.add_command(_acting(
    "top-up", f"Add AMOUNT to what NAME has.{_MORE}", lambda given, _, __: given
))  # fmt: skip
budget.add_command(_acting(
    "take", f"Take AMOUNT back from NAME, as far as it is not spent.{_MORE}",
    lambda given, _, __: -given,
))  # fmt: skip
budget.add_command(_acting(
    "set", "Give or take so much that what NAME spent and has left is AMOUNT together.\n\n"
    f"What was spent stays spent.{_MORE}",
    lambda given, left, spent: max(given - left - spent, -left),
))  # fmt: skip


@click.pass_obj
def _close(session: Session, name: str, kind: str, tier: str | None) -> None:
    _said(session.change("allocate_budget", agent=name, kind=kind, close=True, tier=tier))


budget.add_command(click.Command(
    "close", callback=_close, params=[*_WHOSE, _TIER],
    help="Take back all that NAME has not spent; it draws on its ancestors again.",
))  # fmt: skip


@budget.command
@click.argument("name", shell_complete=complete_agent)
@output_option
@click.pass_obj
def group(session: Session, name: str, style: str) -> None:
    """Show the group that NAME works in: machines with common bounds, and what pays for it.

    The bounds are those that `hive agent create --subtree-limit` gave NAME, or the nearest above it
    that has some; new children join by themselves. What is used now is what the kernel says; of CPU
    all that was used since the group began.
    """
    located = session.ask("locate", agent=name)
    rows = list(group_of(str(located.get("unit")))) if located.get("main_pid") else []
    for row in _rows(session.ask("get_usage", agent=name).get("budgets")):
        kind, tier = str(row["kind"]), f" ({row['tier']})" if row["tier"] else ""
        tier += f" of task {row['task']}" if row.get("task") else ""
        had = [row[each] for each in ("spent", "left")]
        rows.append({
            "what": f"{kind}{tier}", "used": amount(kind, had[0]),
            "most": amount(kind, sum(each for each in had if isinstance(each, int))),
            "group": f"budget of {row['agent']}",
        })  # fmt: skip
    _GROUP.show(rows, style)


_GROUP: Final = Listing(
    "what", tuple(map(Column, ("what", "used", "most", "group"))), "it does not run, and has none"
)


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
