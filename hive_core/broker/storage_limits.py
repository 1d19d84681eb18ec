"""Limits on the bytes of an agent, and of its branch, in the ledger (attack 62).

They are checked before an operation stores bytes. Operations that end, remove or answer something
are always allowed, so that an agent at its limit can get below it again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from hive_core.broker.branches import branch_in
from hive_core.broker.call import Call
from hive_core.broker.operation import Operation
from hive_core.errors import LimitReached
from hive_core.ledger.core.storage_use import HISTORY
from hive_core.model.agents.hive import branch_top

# Operations that store bytes. A test asks a reason of each other operation with a text.
BRINGS: Final = frozenset({
    "ask", "ask_user", "assign_task", "create_colony", "create_plan", "escalate", "inject_message",
    "keep_turn", "note_event", "publish", "put", "remind", "report_expired_credential",
    "run_agent_with_input", "run_parallel_workers", "send", "set_trigger", "spawn",
    "spawn_agent_and_assign_task", "wait_for", "wake", "write_pipe",
})  # fmt: skip
# Of a ledger that is half full or more, one branch has an eighth at most.
EIGHTH, HALF = 8, 2
# What one call can bring at most, and after how many calls at most a party is looked at again.
CALL_MOST: Final = 2 << 20
_SELDOM: Final = 64
_PARTIES: Final = 20_000
# Seconds between two looks at how full the ledger is.
_AGAIN: Final = 1.0


class StorageLimiter:
    def __init__(self) -> None:
        # Calls that a party can make without reaching a limit, whatever they store.
        self._safe = defaultdict[str, int](int)
        # When the ledger's size was last read, the size, and each branch's part of it.
        self._looked, self._used, self._shares = -1.0, 0, Counter[str]()

    def check(self, call: Call, operation: Operation) -> None:
        """Raise LimitReached if the ledger lacks room for the bytes of a call."""
        safe = self._safe[call.uuid]
        if safe > 0:
            self._safe[call.uuid] = safe - 1
        else:
            self._check_one(call, operation)
        if operation.name not in BRINGS:
            return
        most = call.settings.limits.ledger
        if not -_AGAIN < call.now - self._looked < _AGAIN:
            self._look(call, most)
        if self._used * HALF >= most:
            self._check_all(call, operation, most)

    def _check_one(self, call: Call, operation: Operation) -> None:
        """Check the bytes of the agent.

        Not at each call, since the check costs more than most calls.
        """
        limits, ledger = call.settings.limits, call.ledger
        held, past = ledger.stored.sums_of(call.uuid)
        if past > limits.history:
            past = ledger.history.shorten(call.uuid, limits.history)
        room, room_past = limits.stored - held, limits.history - past
        calls = (room if room < room_past else room_past) // CALL_MOST
        self._safe[call.uuid] = _SELDOM if calls > _SELDOM else calls if calls > 0 else 0
        if operation.name not in BRINGS:
            return
        if past > limits.history:
            reason = f"more than {limits.history} bytes hang on tasks of yours that are open"
            raise _full(operation, reason, "history")
        if held > limits.stored:
            sizes = ledger.stored.of(call.uuid)
            noun = max(sizes.keys() - HISTORY, key=sizes.__getitem__)
            reason = f"you have {limits.stored} bytes in the ledger, most of it {noun}"
            raise _full(operation, reason, "stored")

    def _check_all(self, call: Call, operation: Operation, most: int) -> None:
        """Any agent may use the first half of the ledger.

        Beyond it a branch has at most an eighth.
        """
        if self._used >= most:
            raise _full(operation, f"the ledger of this host is full ({most} bytes)", "ledger")
        mine = branch_top(call.hive, call.caller)
        if self._shares[mine] * EIGHTH >= most:
            reason = f"the ledger is half full, and an eighth of it is of {mine} and below"
            raise _full(operation, reason, "ledger")

    def _look(self, call: Call, most: int) -> None:
        self._looked, self._used = call.now, call.ledger.stored.bytes_in_use()
        self._shares.clear()
        if len(self._safe) > _PARTIES:
            self._safe.clear()
        if self._used * HALF >= most:
            # Bytes of destroyed agents count for their branch, or respawning would have no bound.
            parent = call.ledger.archives.parents().get
            for party, size in call.ledger.stored.all().items():
                self._shares[branch_in(call.hive, party, parent)] += size


def _full(operation: Operation, reason: str, setting: str) -> LimitReached:
    return LimitReached(
        f"cannot {operation.verb}: {reason}; the bound is [limits] {setting}",
        setting=f"limits.{setting}",
    )
