"""Calls a minute: counted for every agent, and limited where a budget says so.

A limit applies to an agent with its descendants. The check runs for each call, so it is a look-up
in a table in memory, and only a counter when no limit is set.
"""

from __future__ import annotations

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation
from hive_core.errors import LimitReached
from hive_core.model.wire.window import MinuteWindow
from hive_core.model.work.budget import BudgetKind

_Chain = tuple[tuple[str, int, MinuteWindow], ...]


class RateLimiter:
    def __init__(self) -> None:
        self._windows: dict[str, MinuteWindow] = {}

    def check(self, call: Call, operation: Operation) -> None:
        """Count one call of an agent; LimitReached when it or an ancestor has used its limit.

        Operations that end something are always allowed.
        """
        budgets = call.ledger.budgets
        budgets.usage.count(call.uuid, BudgetKind.CALLS, call.now)
        if not budgets.caps or operation.urgent:
            return
        second, chain = int(call.now), self._chain(call)
        for uuid, bound, window in chain:
            window.roll(second)
            if window.total >= bound:
                raise _too_many(call, operation, uuid, window.seconds_until(bound))
        for _, _, window in chain:
            budgets.usage.on_rollback(window.take_back, window.add())

    def _chain(self, call: Call) -> _Chain:
        """The limits from the agent upward; computed once for each state of hive and budgets."""
        key = f"pace {call.uuid}"
        known = call.hive.identity_cache.get(key)
        version = call.ledger.budgets.version
        if isinstance(known, tuple) and known[0] == version:
            chain: _Chain = known[1]
            return chain
        caps, tree = call.ledger.budgets.caps, call.hive.topology
        names = (call.caller, *tree.lineage(call.caller))
        uuids = (call.hive.spec(name).id for name in names)
        chain = tuple(
            (uuid, caps[uuid], self._windows.setdefault(uuid, MinuteWindow()))
            for uuid in uuids if uuid in caps
        )  # fmt: skip
        call.hive.identity_cache[key] = (version, chain)
        return chain


def _too_many(call: Call, operation: Operation, uuid: str, wait: float) -> LimitReached:
    whose = call.hive.name(uuid) or uuid
    return LimitReached(
        f"cannot {operation.verb}: {whose} and those below it have used their calls of this minute,"
        f" try again in {wait:.0f} s",
        rule="budget", budget=whose, of=BudgetKind.CALLS.value, retry_after=wait,
    )  # fmt: skip
