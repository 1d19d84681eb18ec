"""What a task has cost: measured by the daemon, reported by its agent, or both."""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.broker.call import Call
from hive_core.model.work.budget import UsageSource, least_certain
from hive_core.model.work.task import Task

_TOKENS: Final = frozenset({"tokens", "tokens_in", "tokens_out"})
_MONEY: Final = "money"
_MILLION: Final = 1_000_000


class TaskSpend(NamedTuple):
    """`tokens` and `cost` (in millionths) of a task; None: unknown. `source`: of both."""

    tokens: int | None
    cost: int | None
    source: str

    @property
    def fields(self) -> dict[str, object]:
        """What an event has of it."""
        if not self.source:
            return {}
        return {"tokens": self.tokens or 0, "cost": self.cost or 0, "source": self.source}

    def text(self, currency: str) -> str:
        """The spend in words, for letters; empty: unknown."""
        if not self.source:
            return ""
        whole, part = divmod(self.cost or 0, _MILLION)
        money = f", {whole}.{f'{part:06}'.rstrip('0').ljust(2, '0')} {currency}"
        return f"{self.tokens or 0} tokens{money if self.cost else ''}, {self.source}"


def task_spend(call: Call, task: Task) -> TaskSpend:
    """All that was used for the task so far, with what its report names.

    Once the usage is older than the daemon keeps it, what the report names is left.
    """
    tokens = cost = 0
    sources = set[str]()
    for kind, source, amount in call.ledger.budgets.usage.parts_of_task(task.id):
        if amount and (kind in _TOKENS or kind == _MONEY):
            tokens += amount if kind in _TOKENS else 0
            cost += amount if kind == _MONEY else 0
            sources.add(source)
    if sources:
        is_known = sources != {UsageSource.REPORTED}
        return TaskSpend(
            tokens if tokens or is_known else None,
            cost if cost or is_known else None,
            least_certain(sources),
        )
    result = task.result
    if result is None or (result.tokens is None and result.cost is None):
        return TaskSpend(None, None, "")
    return TaskSpend(result.tokens, result.cost, UsageSource.REPORTED)
