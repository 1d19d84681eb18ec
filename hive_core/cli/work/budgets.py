"""`hive cost` and `hive budget`: usage and budgets of agents."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Final

import click

from hive_core.cli.core.lazy import ListGroup
from hive_core.cli.core.output import Column, Listing, Row, echo, output_option, say
from hive_core.cli.core.session import Session, complete_agent
from hive_core.cli.core.units import format_duration, parse_duration
from hive_core.cli.work.group_usage import group_of, machine_cells, seconds

KINDS: Final = (
    "tokens", "money", "time", "messages", "tasks", "children", "calls", "tokens_per_hour",
    "context",
)  # fmt: skip
TIERS: Final = ("strategic", "tactical", "operational")
BY: Final = ("agent", "subtree", "task", "day", "model", "tier", "user", "node")
# The columns with the highest number are omitted first on a narrow terminal.
_PRIORITIES: Final = {
    "tokens": 0, "money": 0, "tasks": 1, "time": 2, "cpu": 3, "agents": 4, "messages": 5,
    "tools": 6, "calls": 7,
}  # fmt: skip
MILLION: Final = 1_000_000
REPORTED: Final = "~"
_COLUMNS: Final = {
    "tokens": "tokens", "tokens_in": "tokens", "tokens_out": "tokens", "money": "money",
    "time": "time", "cpu": "cpu", "tool_calls": "tools", "messages": "messages", "tasks": "tasks",
    "children": "agents", "calls": "calls",
}  # fmt: skip


def clock(seconds: int) -> str:
    """Seconds with all units, as `12h3m4s`."""
    return format_duration(seconds, parts=4)


def money(amount: int) -> str:
    """Millionths as `1.50`, with at least two decimals and no further trailing zeros."""
    whole, part = divmod(abs(amount), MILLION)
    digits = f"{part:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{digits}"


def format_amount(kind: str, value: object) -> str:
    """An amount for people."""
    number = value if isinstance(value, int) else 0
    return {"money": money, "time": clock, "cpu": seconds}.get(kind, str)(number)


def pivot(sums: Iterable[Row]) -> list[Row]:
    """One row for each key. Figures that agents reported, wholly or partly, have a mark."""
    table: dict[str, dict[str, int]] = {}
    reported: set[tuple[str, str]] = set()
    for item in sums:
        key, column = str(item["key"]), _COLUMNS.get(str(item["kind"]))
        if column is None:
            continue
        row, value = table.setdefault(key, {}), item["amount"]
        row[column] = row.get(column, 0) + (value if isinstance(value, int) else 0)
        if item["source"] != "measured":
            reported.add((key, column))
    return [
        {"key": key, **{
            name: f"{REPORTED if (key, name) in reported else ''}{format_amount(name, value)}"
            for name, value in row.items()
        }}
        for key, row in table.items()
    ]  # fmt: skip


@click.command
@click.argument("name", required=False, shell_complete=complete_agent)
@click.option(
    "--by",
    type=click.Choice(BY),
    default="agent",
    show_default=True,
    help="Grouping of the sums.",
)
@click.option("--days", type=click.IntRange(1), help="Only the last N days (of UTC).")
@output_option
@click.pass_obj
def cost(session: Session, name: str | None, by: str, days: int | None, style: str) -> None:
    """Show what NAME and its descendants have used; without NAME, all agents.

    The daemon measures time, CPU, messages, tasks, agents, tools and calls, and tokens and money of
    calls through hive-model. Figures that agents report, or that are estimated, begin with ~.

    The order is: living agents, one line for all destroyed children of each, recently destroyed
    agents.
    """
    since = None if days is None else time.time() - (days - 1) * 86_400
    reply = session.ask("get_usage", agent=name, by=by, since=since)
    sums = _rows(reply.get("sums"))
    if not reply.get("whole"):
        say("the list is too long and incomplete; narrow it with NAME, --days or --by")
    if style != "table":
        _SUMS.show(sums, style)
        return
    heading = f"money {reply.get('currency')}"
    order = dict.fromkeys(_COLUMNS.values())
    columns = (
        Column(name, heading if name == "money" else "", priority=_PRIORITIES[name])
        for name in order
    )
    Listing("key", (Column("key", by), *columns), "nothing was used").show(pivot(sums), style)


_SUMS: Final = Listing(
    "key", (Column("key"), Column("kind"), Column("source"), Column("amount")), "nothing was used"
)


@click.group(cls=ListGroup, aliases={"rm": "close"})
def budget() -> None:
    """List, set and close budgets of agents."""


def _cells(row: Row, currency: object) -> Row:
    kind = str(row["kind"])
    mark = "" if row.get("source") == "measured" else REPORTED
    spent = {key: f"{mark}{format_amount(kind, row[key])}" for key in ("spent", "owed")}
    return {
        **row,
        **spent,
        "left": format_amount(kind, row["left"]),
        "task": row.get("task") or "-",
        "unit": currency if kind == "money" else row.get("unit"),
    }


_BALANCES: Final = Listing(
    "agent",
    (Column("agent"), Column("kind"), Column("tier", priority=2), Column("task", priority=1),
     Column("left"), Column("spent"), Column("owed", priority=4), Column("unit", priority=3)),
    "no budgets",
)  # fmt: skip


@budget.command
@click.argument("name", required=False, shell_complete=complete_agent)
@output_option
@click.pass_obj
def show(session: Session, name: str | None, style: str) -> None:
    """Show the budgets that pay for NAME: its own, or those of ancestors; without NAME, all.

    A task with its own budget has a line of its own. Figures that agents report, or that are
    estimated, begin with ~.
    """
    reply = session.ask("get_usage", agent=name)
    rows = _rows(reply.get("budgets"))
    if style == "table":
        rows = [_cells(row, reply.get("currency")) for row in rows]
    _BALANCES.show(rows, style)


budget.add_command(show, "list")


_MONEY: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)


def parse_amount(kind: str, text: str) -> int:
    """Read money as `12.50`, time as a duration such as `2h`, anything else as a number."""
    if kind == "time":
        try:
            return int(parse_duration(text))
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    if kind == "money" and (match := _MONEY.fullmatch(text)):
        return int(match[1]) * MILLION + int((match[2] or "").ljust(6, "0"))
    if kind == "money" or not _NUMBER.fullmatch(text):
        raise click.BadParameter(f"{text} is not an amount of {kind}")
    return int(text)


def _change_command(word: str, text: str, act: Callable[[int, int, int], int]) -> click.Command:
    """Make a command; `act` computes the change from the amount, the rest and the spent amount."""

    @click.pass_obj
    def run(session: Session, name: str, kind: str, quantity: str, tier: str | None) -> None:
        left, spent = _own_budget(session, name, kind, tier)
        change = act(parse_amount(kind, quantity), left, spent)
        if change:
            _print_balance(
                session.change("allocate_budget", agent=name, kind=kind, amount=change, tier=tier)
            )

    arguments: list[click.Parameter] = [
        *_WHOSE,
        click.Argument(["quantity"], metavar="AMOUNT"),
        _TIER,
    ]
    return click.Command(word, callback=run, params=arguments, help=text)


def _own_budget(session: Session, name: str, kind: str, tier: str | None) -> tuple[int, int]:
    """The rest of the agent's own budget, and the spent amount; 0 without a budget."""
    for row in _rows(session.ask("get_usage", agent=name).get("budgets")):
        identity = (row["agent"], row["kind"], row["tier"], row.get("task", ""))
        if identity == (name, kind, tier or "", ""):
            left, spent = row["left"], row["spent"]
            if isinstance(left, int) and isinstance(spent, int):
                return left, spent
    return 0, 0


def _print_balance(reply: Row) -> None:
    kind = str(reply["kind"])
    echo(f"{reply['agent']} has {format_amount(kind, reply['left'])} {kind} left,"
         f" {format_amount(kind, reply['spent'])} spent")  # fmt: skip


_TIER: Final = click.Option(
    ["--tier"], type=click.Choice(TIERS), help="Tier that the budget is for."
)
_WHOSE: Final[tuple[click.Parameter, ...]] = (
    click.Argument(["name"], shell_complete=complete_agent),
    click.Argument(["kind"], type=click.Choice(KINDS)),
)
_MORE: Final = (
    "\n\nWrite money as 12.50 and time as 90, 15m or 2h; calls are calls a minute, context is in "
    "tokens."
)
budget.add_command(_change_command(
    "top-up", f"Add AMOUNT to the budget of NAME.{_MORE}", lambda quantity, _, __: quantity
))  # fmt: skip
budget.add_command(_change_command(
    "take", f"Take AMOUNT, or the unspent rest if that is less, from the budget of NAME.{_MORE}",
    lambda quantity, _, __: -quantity,
))  # fmt: skip
budget.add_command(_change_command(
    "set", f"Set the total budget of NAME to AMOUNT, including what it has spent.{_MORE}",
    lambda quantity, left, spent: max(quantity - left - spent, -left),
))  # fmt: skip


@click.pass_obj
def _close(session: Session, name: str, kind: str, tier: str | None) -> None:
    _print_balance(session.change("allocate_budget", agent=name, kind=kind, close=True, tier=tier))


budget.add_command(click.Command(
    "close", callback=_close, params=[*_WHOSE, _TIER],
    help="Close the budget of NAME: return the rest; the budgets of its ancestors pay from then"
    " on.",
))  # fmt: skip


@budget.command
@click.argument("name", shell_complete=complete_agent)
@output_option
@click.pass_obj
def group(session: Session, name: str, style: str) -> None:
    """Show the group of NAME: machines with common bounds, and the budgets that pay for them.

    `hive agent create --subtree-limit` set the limits for NAME or an ancestor; new children join
    the group. The kernel measures the usage; CPU time counts from the start of the group.
    """
    located = session.ask("locate", agent=name)
    machines = list(group_of(str(located.get("unit")))) if located.get("main_pid") else []
    budgets = [
        _group_row(row) for row in _rows(session.ask("get_usage", agent=name).get("budgets"))
    ]
    if style == "table":
        machines, budgets = [*map(machine_cells, machines)], [*map(_budget_cells, budgets)]
    _GROUP.show([*machines, *budgets], style)


def _group_row(row: Row) -> Row:
    """A budget as a row of the group, in the unit of the daemon."""
    tier = f" ({row['tier']})" if row["tier"] else ""
    task = f" of task {row['task']}" if row.get("task") else ""
    figures = (row["spent"], row["left"])
    return {
        "what": f"{row['kind']}{tier}{task}", "kind": row["kind"], "used": row["spent"],
        "most": sum(number for number in figures if isinstance(number, int)),
        "unit": row.get("unit"), "group": f"budget of {row['agent']}",
    }  # fmt: skip


def _budget_cells(row: Row) -> Row:
    """A row of `_group_row` for people."""
    kind = str(row["kind"])
    return {**row, **{key: format_amount(kind, row[key]) for key in ("used", "most")}}


_GROUP: Final = Listing(
    "what",
    tuple(map(Column, ("what", "used", "most", "group"))),
    "the agent does not run, and has no budget",
)


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
