"""What an agent reports about its configuration, and what the daemon tells it to load.

These are both sides of a change without a restart. The daemon treats a report as a claim: it
decides by the unit and by the clock whether the agent is healthy.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict
from hive_core.ledger.machines.check_ins import CheckIn
from hive_core.model.agents.agent import Commit, StorePath
from hive_core.model.agents.machine import DesiredRun, Machine
from hive_core.operations.fields import WAIT_MOST
from hive_core.policy.rules import SELF

FAULT_MOST: Final = 2000
_LIVES: Final = ("active", "reloading", "deactivating")


class HelloParams(Mutation):
    commit: Commit | None = Field(
        None, description="The commit that it has read in /run/hive/config."
    )
    system: StorePath | None = Field(None, description="The system that it runs (image `nix`).")
    fault: str = Field("", max_length=FAULT_MOST, description="What went wrong; empty: no fault.")


class Greeted(Result):
    commit: str = Field(description="The deployed configuration; empty: none.")
    system: str = Field(description="The system that should run (image `nix`).")


class WatchConfigParams(Params):
    after: str | None = Field(
        None,
        max_length=128,
        description="`next` of the previous answer: answer only when something changed.",
    )
    wait: float = Field(
        0.0, ge=0, le=WAIT_MOST, description="Maximum time to wait for a change, in seconds."
    )


class DeployedConfig(Result):
    commit: str = Field(description="The deployed configuration; empty: none.")
    system: str = Field(description="The system to switch to, if another one runs (image `nix`).")
    next: str = Field(description="`after` of the next call.")


@operation(action="work", allow=SELF)
def hello(call: Call, params: HelloParams) -> Record[Greeted]:
    """Tell the daemon that the caller is up, and with which configuration.

    An agent whose spec says `harness` is healthy only after this. A `fault` reports a failure: a
    deploy that is being watched is rolled back then.
    """
    uuid = _agent_uuid(call, "say hello")
    check_in = CheckIn(
        uuid, call.now, _caller_nonce(call.ledger.runs.get(uuid), call.states.machine(uuid)),
        params.commit or "", params.system or "", params.fault,
    )  # fmt: skip
    call.ledger.hellos.put(check_in)
    spec = call.hive.spec(call.caller)
    result = Greeted(commit=spec.config or "", system=spec.system or "")
    fields = {"commit": check_in.commit[:12], "fault": check_in.fault[:200]}
    recorded = {key: value for key, value in fields.items() if value}
    call.notify(f"hello:{uuid}")
    return Record(result, fields=recorded)


@operation(action="work", allow=SELF)
def watch_config(call: Call, params: WatchConfigParams) -> DeployedConfig | Wait[DeployedConfig]:
    """Show which configuration is deployed; with `wait` or `more`, when it changes.

    The daemon does not answer while it is about to restart the caller: a caller that restarts does
    not have to switch.
    """
    uuid = _agent_uuid(call, "watch a configuration")
    spec = call.hive.spec(call.caller)
    mark = f"{(spec.config or '-')[:40]}.{(spec.system or '-')[11:43]}"
    due = DeployedConfig(commit=spec.config or "", system=spec.system or "", next=mark)
    if params.after != mark and not _is_restarting(call, uuid):
        return due
    if not call.more and not params.wait:
        return due.model_copy(update={"next": params.after or mark})
    deadline = None if call.more else call.now + params.wait
    same = due.model_copy(update={"next": params.after or mark})
    return Wait(frozenset({f"config:{uuid}", f"run:{uuid}"}), deadline, same)


def _agent_uuid(call: Call, action: str) -> str:
    if call.by_operator:
        raise Conflict(f"cannot {action}: the operator is not an agent")
    return call.uuid


def _caller_nonce(run: DesiredRun | None, machine: Machine | None) -> int:
    """The nonce of the start that the caller belongs to.

    While the old unit runs, not that of the wanted start.
    """
    if machine is not None and machine.active in _LIVES:
        return machine.nonce
    return run.nonce if run else 0


def _is_restarting(call: Call, uuid: str) -> bool:
    """Whether the daemon wants another start than the running one."""
    run, machine = call.ledger.runs.get(uuid), call.states.machine(uuid)
    if run is None or machine is None or machine.active not in _LIVES:
        return False
    return machine.nonce != run.nonce
