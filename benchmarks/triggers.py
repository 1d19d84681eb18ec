"""Ten thousand triggers in a hived of its own: how late they fire, and what a look costs.

    python -m benchmarks.triggers [count] [seconds]

The daemon's own parts, in one process and on the real clock: agenda, broker, a ledger on disk that
syncs each COMMIT. Lateness is from the time of the rule to the time of the fire that stands in the
ledger, which is read before its COMMIT; the COMMIT is in the figure beside it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from uuid import uuid4

from hive_core.broker.batch import Services
from hive_core.broker.call import Call, Change, Record
from hive_core.broker.core import Broker
from hive_core.broker.operation import Result
from hive_core.broker.timers import DUES
from hive_core.host.storage.stores import Stores
from hive_core.host.systemd.clock import SystemClock
from hive_core.ledger.triggers.storage import NewTrigger
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.hive import Hive
from hive_core.model.config.settings import Settings
from hive_core.model.work.trigger import Missed, TriggerAction, TriggerKind, TriggerRule, next_time
from hive_core.operations import load
from hive_core.reconcile.observed import ObservedState
from hive_core.reconcile.timers.agenda import Agenda

AGENTS = 100
Row = dict[str, float]
Act_ = Callable[[Call], Record[Result] | Change[Result]]


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def crowd(broker: Broker) -> list[str]:
    """Agents without machines: triggers ask the tree for them, and mail waits."""
    hive = Hive()
    values = []
    for number in range(AGENTS):
        spec = AgentSpec(uuid=uuid4(), capabilities=("trigger",))
        hive = hive.with_agent(f"a{number}", None, spec)
        values.append(spec.id)
    broker.hive = hive
    return values


def rules(number: int, now: float, *, at_once: bool) -> TriggerRule:
    """Half of them crons of each minute, half intervals; or all at the same second."""
    if at_once:
        return TriggerRule(TriggerKind.AT, at=now)
    if number % 2:
        return TriggerRule(TriggerKind.CRON, cron=f"{number % 60} * * * * *", zone="Europe/Berlin")
    return TriggerRule(TriggerKind.EVERY, every=60.0)


def fill(stores: Stores, agents: list[str], count: int, rule: Callable[[int], TriggerRule]) -> None:
    now = time.time()
    with stores.ledger.transaction():
        for number in range(count):
            made = rule(number)
            since = now - 60 + 60 * number / count if made.kind is TriggerKind.EVERY else now
            new = NewTrigger("operator", agents[number % len(agents)], f"t{number}", made,
                      TriggerAction.MESSAGE, {"kind": "message", "text": "look"}, Missed.LATEST,
                      enabled=True)  # fmt: skip
            stores.ledger.triggers.put(new, since, next_time(made, since))


def settings(folder: str) -> Settings:
    """Without the bounds that keep one agent from having so many."""
    tables = {
        "triggers": {"fires": 1_000_000, "each": 1_000_000},
        "limits": {"inbox_count": 1_000_000, "inbox_bytes": 1 << 40},
        "paths": {"state": folder, "runtime": f"{folder}/run"},
        "root": {"autostart": False},
    }
    return Settings.model_validate(tables)


async def fire(broker: Broker, seconds: float) -> float:
    """Let them fire for a while; seconds spent on it."""
    spent = [0.0]

    def perform(name: str, act: Act_) -> Result:
        before = time.perf_counter()
        try:
            return broker.perform(name, act)
        finally:
            spent[0] += time.perf_counter() - before

    agenda = Agenda(broker.services.clock, broker.services.ledger, perform, DUES)  # type: ignore[arg-type]
    broker.listeners.append(agenda.on_topics)
    agenda.start()
    await asyncio.sleep(seconds)
    return spent[0]


async def lateness(folder: str, count: int, seconds: float, *, at_once: bool) -> Row:
    wanted = settings(folder)
    stores, clock = Stores.open(wanted), SystemClock()
    look = ObservedState.build(stores.ledger, wanted, stores.hive, clock)
    broker = Broker(
        Services(stores.ledger, stores.repo, wanted, look, clock), stores.hive, load(), {}
    )
    # Setting them takes a while, in which some become due: those do not count.
    start = time.time() + 3.0 + count / 500
    fill(stores, crowd(broker), count, lambda number: rules(number, start, at_once=at_once))
    begun = time.time() + 2.0
    spent = await fire(broker, max(seconds, start - time.time() + 3.0))
    rows = stores.ledger.connection.rows(
        "SELECT at - due FROM fires WHERE state = 'done' AND due > ?", (begun,)
    )
    late = [1000 * value for (value,) in rows]
    fired = stores.ledger.connection.value("SELECT COUNT(*) FROM fires")
    return {
        "triggers": count, "fires": len(late), "median_ms": round(median(late), 2),
        "p99_ms": round(share(late, 0.99), 2), "most_ms": round(max(late), 2),
        "us_a_fire": round(1e6 * spent / max(1, fired)),
    }  # fmt: skip


def main() -> None:
    load()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 30.0
    for name, at_once in (("spread over a minute", False), ("all at one second", True)):
        with tempfile.TemporaryDirectory(prefix="hive-triggers-") as folder:
            result = asyncio.run(lateness(folder, count, seconds, at_once=at_once))
        print(json.dumps({"name": name, **result}))


if __name__ == "__main__":
    main()
