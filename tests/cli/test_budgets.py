"""`hive cost` and `hive budget`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from cli.run import Hive
from each import for_each

from hive_core.cli.work.budgets import clock, money, parse_amount
from hive_core.cli.work.group_usage import NOT_MEASURED, machine_cells, machines, with_cpu_time
from hive_core.varlink import Message

SUMS = [
    {"key": "a", "kind": "tokens_in", "source": "reported", "amount": 1000},
    {"key": "a", "kind": "tokens_out", "source": "reported", "amount": 24},
    {"key": "a", "kind": "money", "source": "reported", "amount": 1_250_000},
    {"key": "a", "kind": "time", "source": "measured", "amount": 3725},
    {"key": "a", "kind": "cpu", "source": "measured", "amount": 12_346},
    {"key": "b", "kind": "messages", "source": "measured", "amount": 3},
    {"key": "b", "kind": "iterations", "source": "reported", "amount": 9},
]
BUDGETS = [
    {"agent": "a", "kind": "money", "tier": "", "unit": "millionths", "left": 750_000,
     "spent": 1_250_000, "owed": 0, "source": "reported", "task": ""},
    {"agent": "root", "kind": "tokens", "tier": "", "unit": "tokens", "left": 10, "spent": 5,
     "owed": 0, "source": "measured", "task": ""},
    {"agent": "a", "kind": "time", "tier": "", "unit": "seconds", "left": 60, "spent": 5,
     "owed": 0, "source": "measured", "task": ""},
    {"agent": "a", "kind": "tokens", "tier": "", "unit": "tokens", "left": 7, "spent": 1,
     "owed": 0, "source": "reported", "task": "3c5fd05d96ef"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _usage(hive: Hive) -> None:
    reply: Message = {"sums": SUMS, "budgets": BUDGETS, "currency": "EUR", "whole": True}
    hive.peer.answers["GetUsage"] = lambda _: reply


def allocations(hive: Hive) -> list[Message]:
    """Have every allocation done; the amounts that were asked for."""
    asked: list[Message] = []

    def allocate(parameters: Message) -> Message:
        asked.append(parameters)
        return {"agent": "a", "kind": parameters["kind"], "left": 1_000_000, "spent": 2_500_000}

    hive.peer.answers["AllocateBudget"] = allocate
    return asked


def test_sums_reported_by_agents_are_marked(hive: Hive) -> None:
    done = hive("cost")
    assert done.out.splitlines() == [
        "AGENT  TOKENS  MONEY EUR  TIME    CPU      TOOLS  MESSAGES  TASKS  AGENTS  CALLS",
        "a      ~1024   ~1.25      1h2m5s  12.346s  -      -         -      -       -",
        "b      -       -          -       -        -      3         -      -       -",
    ]


def test_json_output_has_every_sum_with_its_source(hive: Hive) -> None:
    assert json.loads(hive("cost", "a", "--by", "day", "--days", "7", "-o", "json").out) == SUMS
    asked = hive.peer.calls[-1][1]
    assert (asked["agent"], asked["by"]) == ("a", "day")


def test_budgets_are_shown_in_readable_units(hive: Hive) -> None:
    done = hive("budget", "show", "a")
    assert [line.split() for line in done.out.splitlines()] == [
        ["AGENT", "KIND", "TIER", "TASK", "LEFT", "SPENT", "OWED", "UNIT"],
        ["a", "money", "-", "-", "0.75", "~1.25", "~0.00", "EUR"],
        ["root", "tokens", "-", "-", "10", "5", "0", "tokens"],
        ["a", "time", "-", "-", "1m", "5s", "0s", "seconds"],
        ["a", "tokens", "-", "3c5fd05d96ef", "7", "~1", "~0", "tokens"],
    ]


@for_each(
    "words, moved",
    [
        (("top-up", "a", "money", "0.5"), 500_000),
        (("take", "a", "money", "0.5"), -500_000),
        (("set", "a", "money", "3"), 1_000_000),
        (("set", "a", "money", "1"), -750_000),
        (("set", "a", "tokens", "30"), 30),
        (("set", "a", "context", "30"), 30),
        (("top-up", "a", "time", "15m"), 900),
    ],
)
def test_the_commands_make_the_expected_calls(
    hive: Hive, words: tuple[str, ...], moved: int
) -> None:
    asked = allocations(hive)
    assert hive("budget", *words).status == 0
    assert [parameters["amount"] for parameters in asked] == [moved]


def test_a_budget_already_at_its_value_is_unchanged(hive: Hive) -> None:
    asked = allocations(hive)
    assert hive("budget", "set", "a", "money", "2").status == 0
    assert asked == []


def test_a_budget_is_closed(hive: Hive) -> None:
    asked = allocations(hive)
    assert "a has 1.00 money left, 2.50 spent" in hive("budget", "close", "a", "money").out
    assert asked[0]["close"] is True


@for_each(
    "kind, text",
    [("money", "1.1234567"), ("money", "-1"), ("time", "5y"), ("tokens", "1.5"), ("tokens", "٣x")],
)
def test_invalid_amounts_are_refused(kind: str, text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not an? (amount of|duration)"):
        parse_amount(kind, text)


def test_money_and_time_are_printed_in_the_form_they_are_entered() -> None:
    assert [money(amount) for amount in (0, 1_500_000, 1_234_567, -20_000)] == [
        "0.00", "1.50", "1.234567", "-0.02",
    ]  # fmt: skip
    assert parse_amount("money", money(1_234_567)) == 1_234_567
    assert clock(3725) == "1h2m5s"
    assert parse_amount("time", clock(93_784)) == 93_784


def test_the_group_of_a_stopped_agent_is_its_payer(hive: Hive) -> None:
    hive.peer.answers["Locate"] = lambda _: {"main_pid": 0}
    rows = json.loads(hive("budget", "group", "a", "-o", "json").out)
    assert [(row["what"], row["used"], row["most"]) for row in rows] == [
        ("money", 1_250_000, 2_000_000), ("tokens", 5, 15), ("time", 5, 65),
        ("tokens of task 3c5fd05d96ef", 1, 8),
    ]  # fmt: skip
    lines = hive("budget", "group", "a").out.splitlines()
    assert [line.split()[-5:-3] for line in lines[1:]] == [
        ["1.25", "2.00"], ["5", "15"], ["5s", "1m5s"], ["1", "8"],
    ]  # fmt: skip


def test_figures_of_a_group_are_numbers_for_programs_and_words_for_people() -> None:
    result = {
        "MemoryCurrent": "1536", "MemoryMax": "536870912", "TasksCurrent": "8",
        "TasksMax": "infinity", "CPUUsageNSec": "1500000000", "CPUQuotaPerSecUSec": "1min 500ms",
    }  # fmt: skip
    rows = list(machines("hive-x.slice", result))
    assert [(row["what"], row["used"], row["most"], row["unit"]) for row in rows] == [
        ("memory", 1536, 536_870_912, "bytes"), ("processes", 8, None, "processes"),
        ("cpu", 1.5, 60.5, "seconds"),
    ]  # fmt: skip
    cells = map(machine_cells, rows)
    assert [(row["used"], row["most"]) for row in cells] == [
        ("1.5K", "512M"), ("8", "-"), ("1.500s", "60.500s a second"),
    ]  # fmt: skip


@for_each(
    "group, used, most",
    [
        ({"CPUUsageNSec": "12345678901", "CPUQuotaPerSecUSec": "2s"}, "12.346s", "2.000s a second"),
        ({"CPUUsageNSec": "0", "CPUQuotaPerSecUSec": "infinity"}, "0.000s", "-"),
        ({"CPUUsageNSec": str(2**64 - 1)}, NOT_MEASURED, "-"),
        ({"CPUUsageNSec": "[not set]"}, NOT_MEASURED, "-"),
        ({}, NOT_MEASURED, "-"),
    ],
)
def test_cpu_of_a_group_is_unknown_where_it_is_not_counted(
    group: dict[str, str], used: str, most: str
) -> None:
    rows = map(machine_cells, machines("hive-x.slice", group))
    row = next(row for row in rows if row["what"] == "cpu")
    assert (row["used"], row["most"], row["group"]) == (used, most, "hive-x.slice")


def test_cpu_of_a_group_comes_from_the_kernel_where_systemd_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "unified/hive.slice/hive-x.slice"
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1000000\n")
    result = {"CPUUsageNSec": "[not set]", "ControlGroup": "/hive.slice/hive-x.slice"}
    assert _cpu(with_cpu_time(result, tmp_path)) == "1.500s"
    assert _cpu(with_cpu_time({**result, "CPUUsageNSec": "2000000000"}, tmp_path)) == "2.000s"
    assert _cpu(with_cpu_time({**result, "ControlGroup": ""}, tmp_path)) == NOT_MEASURED


def _cpu(group: Mapping[str, str]) -> object:
    rows = map(machine_cells, machines("hive-x.slice", group))
    return next(row["used"] for row in rows if row["what"] == "cpu")
