"""Processor time of machines: the kernel counts it, the daemon sums it up (row K25).

Each machine has a counter of its own that begins at 0. The growth of a counter since its last
figure is added to the sums of the agent: when the machine ends, and regularly while it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping

from hive_core.broker.call import Call, Ready, SlowReadSources
from hive_core.broker.hooks import AgentEnded, on
from hive_core.ledger.budgets.usage import UsageAmount, day_of
from hive_core.ledger.core.ledger import Ledger
from hive_core.model.agents.machine import Cpu
from hive_core.model.work.budget import CPU, UsageSource

_MILLI = 1000


@on(AgentEnded)
def _add_final_cpu(call: Call, event: AgentEnded) -> None:
    cpu = event.fields.get("cpu")
    if isinstance(cpu, Cpu):
        add_cpu(call, event.uuid, cpu)


def has_new_cpu(ledger: Ledger, uuid: str, cpu: Cpu) -> bool:
    """Whether the counter shows more than what is recorded."""
    return ledger.budgets.cpu.last_figure(uuid, cpu.group) < cpu.used


def add_cpu(call: Call, uuid: str, cpu: Cpu) -> None:
    """Record the growth of a counter; the same figure again, in any order, changes nothing."""
    counters = call.ledger.budgets.cpu
    if has_new_cpu(call.ledger, uuid, cpu):
        before = counters.last_figure(uuid, cpu.group)
        call.ledger.budgets.usage.add(_growth(call, uuid, before, cpu))
        counters.save(uuid, cpu)


def running_agents(call: Call, name: str) -> list[str]:
    """UUIDs of an agent and its descendants whose machines run; without a name, of all agents."""
    running = call.ledger.budgets.running_agents()
    subtree = call.hive.topology.subtree(name) if name else ()
    among = {call.hive.spec(agent).id for agent in subtree} if name else running
    return [uuid for uuid in running if uuid in among]


def read_cpu(uuids: list[str]) -> Callable[[SlowReadSources], Awaitable[Ready]]:
    """A slow read of the processor time that the kernel has counted for these machines."""

    async def read(sources: SlowReadSources) -> Ready:
        return Ready(value=await sources.cpu(uuids))

    return read


def unsaved_cpu(call: Call) -> Iterator[UsageAmount]:
    """The processor time of machines beyond the records, from the slow read of this call."""
    result: object = call.read_result
    measured: Mapping[str, Cpu] = result if isinstance(result, dict) else {}
    figures = call.ledger.budgets.cpu.figures(measured) if measured else {}
    for uuid, cpu in measured.items():
        yield _growth(call, uuid, figures.get((uuid, cpu.group), 0), cpu)


def _growth(call: Call, uuid: str, before: int, cpu: Cpu) -> UsageAmount:
    more = max(0, cpu.used // _MILLI - before // _MILLI)
    return UsageAmount(day_of(call.now), uuid, CPU, UsageSource.MEASURED.value, "", "", more)
