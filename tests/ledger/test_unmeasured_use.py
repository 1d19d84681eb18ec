"""What the daemon has not measured itself: new reports are known at once, looks are rare."""

from __future__ import annotations

from hive_core.ledger.budgets.usage import UsageAmount
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.work.budget import UsageSource


def report(ledger: Ledger, agent: str, amount: int, source: str = UsageSource.ESTIMATED) -> None:
    with ledger.transaction():
        ledger.budgets.usage.add(UsageAmount(1, agent, "tokens", source, "", "", amount))


def test_a_new_report_is_known_at_once_and_a_correction_within_a_minute(ledger: Ledger) -> None:
    """Attack 61: a look at all use takes long, so it is taken once a minute at most."""
    usage = ledger.budgets.usage
    assert set(usage.unmeasured_use(1000.0)) == set()
    report(ledger, "a", 5)
    report(ledger, "b", 7, UsageSource.MEASURED)
    assert set(usage.unmeasured_use(1001.0)) == {("a", "tokens", "estimated")}
    report(ledger, "a", -5)
    assert set(usage.unmeasured_use(1030.0)) == {("a", "tokens", "estimated")}
    assert set(usage.unmeasured_use(1061.0)) == set()


def test_a_clock_that_is_set_back_makes_it_look_anew(ledger: Ledger) -> None:
    usage = ledger.budgets.usage
    report(ledger, "a", 5)
    assert len(usage.unmeasured_use(1000.0)) == 1
    report(ledger, "a", -5)
    assert set(usage.unmeasured_use(10.0)) == set()
