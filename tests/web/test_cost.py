"""Cost: a table in money, budgets that burn down, and the sums behind them."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from fixtures.dashboard import FakeBrowser, RunningDashboard
from fixtures.tasks import take

from hive_core.web.event_history import Event
from hive_core.web.rendering import format_amount, format_money
from hive_core.web.spending import HOUR, Spending, Use, burn_down
from hive_core.web.usage_table import tabulate_usage

NOW = 10_000.0


def use(ago: float, agent: str = "A", tokens: int = 10, money: int = 0) -> Use:
    return Use(1, NOW - ago, agent, "m", tokens, 0, money, is_measured=False)


def event(seq: int, kind: str, operation: str, **fields: object) -> Event:
    return {"seq": seq, "time": float(seq), "kind": kind, "operation": operation,
            "caller_uuid": "A", "fields": fields}  # fmt: skip


def row_of(page: str, key: str) -> list[str]:
    """The cells of the row of the key in the table of what was used."""
    rows = page.partition("<h2>Used</h2>")[2].partition("</table>")[0].split("<tr")
    words = [[" ".join(re.sub("<[^>]+>", " ", cell).split()) for cell in row.split("<td")[1:]]
             for row in rows]  # fmt: skip
    return next([cell.rpartition(">")[2].strip() for cell in row] for row in words
                if row and row[0].rpartition(">")[2].strip() == key)  # fmt: skip


def budget_of_lead(page: str) -> str:
    return page.partition("<h2>Used</h2>")[0].partition("lead")[2].partition("</tr>")[0]


def test_money_is_written_in_the_currency_of_the_host() -> None:
    assert format_money(410_000) == "0.41"
    assert format_money(1_220_000_000) == "1,220.00"
    assert format_money(4_200) == "0.0042"
    assert format_money(0) == "0.00"
    assert format_amount(410_000, "tokens_in") == "410k"
    assert format_amount(90, "time") == "1 min"


def test_the_sums_of_a_key_are_one_row() -> None:
    sums = [
        {"key": "a", "kind": "tokens_in", "source": "reported", "amount": 5},
        {"key": "a", "kind": "tokens_in", "source": "measured", "amount": 7},
        {"key": "a", "kind": "calls", "source": "measured", "amount": 3},
        {"key": "b", "kind": "money", "source": "estimated", "amount": 9},
    ]
    rows = tabulate_usage({"sums": sums})

    assert [row.key for row in rows] == ["b", "a"]
    assert rows[1].amounts == {"tokens_in": 12, "calls": 3}
    assert rows[1].sources == {"reported", "measured"}


def test_days_stand_with_the_newest_first() -> None:
    sums = [
        {"key": f"2026-01-0{day}", "kind": "money", "source": "reported", "amount": amount}
        for day, amount in ((1, 5), (3, 1), (2, 9))
    ]

    rows = tabulate_usage({"sums": sums}, by_key=True)

    assert [row.key[-1] for row in rows] == ["3", "2", "1"]


def test_a_budget_is_empty_when_the_last_hour_goes_on() -> None:
    uses = [
        use(1800, tokens=300),
        use(600, tokens=300),
        use(600, "B", 9999),
        use(HOUR, tokens=9999),
    ]

    burn = burn_down(uses, {"A"}, "tokens", 300, NOW)

    assert burn.used == 600
    assert burn.empty == NOW + HOUR / 2
    assert burn.points[0] == 900
    assert burn.points[-1] == 300
    assert list(burn.points) == sorted(burn.points, reverse=True)
    assert burn_down(uses, {"C"}, "tokens", 300, NOW).empty is None
    assert burn_down([use(60, money=7)], {"A"}, "money", 7, NOW).empty == NOW + HOUR


def test_calls_of_models_and_reports_are_uses() -> None:
    spending = Spending()
    spending.take([
        event(1, "model", "call", alias="opus", tokens_in=5, tokens_out=2, cost=11),
        event(2, "record", "report_usage", tokens_in=3),
        event(3, "record", "send", tokens_in=3),
    ])  # fmt: skip

    first, second = spending.facts
    assert (first.model, first.amount("tokens"), first.amount("money")) == ("opus", 7, 11)
    assert (second.amount("tokens"), second.is_measured) == (3, False)
    assert spending.calls_of("A", 0.0, 5.0) == [first]
    assert spending.calls_of("A", 1.0, 5.0) == []


@pytest.fixture
def clocked(web: RunningDashboard) -> RunningDashboard:
    """The dashboard with the clock of its hive."""
    web.app.web = replace(web.app.web, clock=lambda: web.hived.do(lambda world: world.clock.now()))
    return web


def test_the_page_sums_up_by_what_was_used(browser: FakeBrowser, clocked: RunningDashboard) -> None:
    hived = clocked.hived
    hived.call("operator", "allocate_budget", agent="lead", kind="tokens", amount=100_000)
    before = hived.do(lambda world: world.clock.now())
    report = {"model": "small-1", "tokens_in": 50_000, "tokens_out": 10_000, "cost": 410_000}
    hived.call("w-9", "report_usage", **report)

    page = browser.get_when(
        "/cost", lambda page: re.search(r">\d\d:\d\d<", budget_of_lead(page)) is not None
    )
    assert page.index("<h2>Budgets</h2>") < page.index("<h2>Used</h2>")
    assert row_of(page, "w-9")[1:4] == ["50k", "10k", "0.41"]
    assert row_of(page, "w-9")[-1] == "reported"
    assert 'href="/agents/w-9"' in page
    budget = budget_of_lead(page)
    after = hived.do(lambda world: world.clock.now())
    empties = {
        time.strftime("%H:%M", time.gmtime(at + 2400)) for at in range(int(before), int(after) + 60)
    }
    assert any(f">{empty}<" in budget for empty in empties)
    assert row_of(browser.get("/cost?by=subtree").text, "root")[1:4] == ["50k", "10k", "0.41"]
    assert row_of(browser.get("/cost?by=account").text, "operator")[3] == "0.41"
    assert row_of(browser.get("/cost?by=model").text, "small-1")[1] == "50k"


def test_a_budget_below_takes_its_agents_out_of_the_one_above(
    browser: FakeBrowser, clocked: RunningDashboard
) -> None:
    hived = clocked.hived
    for agent, amount in (("root", 9_000_000), ("carl", 1_000_000)):
        hived.call("operator", "allocate_budget", agent=agent, kind="money", amount=amount)
    hived.pass_time(HOUR)
    hived.call("carl", "report_usage", cost=500_000)

    page = browser.get("/cost").text.partition("<h2>Used</h2>")[0]
    rows = {re.sub("<[^>]+>", " ", row).split()[0]: row for row in page.split("<tr>")[1:]
            if "USD" in row}  # fmt: skip

    assert ">0.50</td><td>" in rows["carl"]
    assert ">0.00</td><td>-" in rows["root"]


def test_a_task_is_named_by_its_title(browser: FakeBrowser, clocked: RunningDashboard) -> None:
    hived = clocked.hived
    made = hived.call("operator", "assign_task", agent="w-10", title="Dig <deep>", description="x")
    hived.do(lambda world: take(world, "w-10"))
    hived.call("w-10", "report_usage", task=made["task"], tokens_in=1000)

    assert "Dig &lt;deep&gt;" in browser.get("/cost?by=task").text
