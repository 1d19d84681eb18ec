"""Processor time of machines: counted by the kernel, summed up by the daemon (row K25).

Each machine has a counter of its own that begins at 0. What a counter says beyond its last figure
is added to the sums of the agent: when the machine ended, and now and then while it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from hive_core.broker.call import Call, Ready, SlowReadSources
from hive_core.broker.hooks import AgentEnded, when
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.machine import Cpu
from hive_core.model.work.budget import CPU, UsageSource

_MILLI = 1000


@when(AgentEnded)
def _add_final_cpu(call: Call, what: AgentEnded) -> frozenset[str]:
    found = what.fields.get("cpu")
    if isinstance(found, Cpu):
        add_cpu(call, what.uuid, found)
    return frozenset()


def has_new_cpu(ledger: Ledger, uuid: str, found: Cpu) -> bool:
    """Whether it is more than what is written down."""
    return ledger.budgets.cpu.last_figure(uuid, found.group) < found.used


def add_cpu(call: Call, uuid: str, found: Cpu) -> None:
    """Write down what is new of it; the same figure again changes nothing, in whatever order."""
    counters = call.ledger.budgets.cpu
    if has_new_cpu(call.ledger, uuid, found):
        before = counters.last_figure(uuid, found.group)
        call.ledger.budgets.usage.add(_figure(call, uuid, before, found))
        counters.save(uuid, found)


def running_agents(call: Call, name: str) -> list[str]:
    """Whose machines run, of an agent and all below it; without a name, of all."""
    found = call.ledger.budgets.running_agents()
    below = call.hive.topology.subtree(name) if name else ()
    among = {call.hive.spec(each).id for each in below} if name else found
    return [uuid for uuid in found if uuid in among]


def read_cpu(uuids: list[str]) -> Callable[[SlowReadSources], Awaitable[Ready]]:
    """A slow read: what the kernel has counted of them up to now."""

    async def read(reads: SlowReadSources) -> Ready:
        return Ready(value=await reads.cpu(uuids))

    return read


def unsaved_cpu(call: Call) -> Iterator[UsageAmount]:
    """What machines have used beyond what is written down, as it was brought to this call."""
    brought: object = call.read_result
    measured: Mapping[str, Cpu] = brought if isinstance(brought, dict) else {}
    known = call.ledger.budgets.cpu.figures(measured) if measured else {}
    for uuid, found in measured.items():
        yield _figure(call, uuid, known.get((uuid, found.group), 0), found)


def _figure(call: Call, uuid: str, before: int, found: Cpu) -> UsageAmount:
    more = max(0, found.used // _MILLI - before // _MILLI)
    return UsageAmount(day_of(call.now), uuid, CPU, UsageSource.MEASURED.value, "", "", more)
