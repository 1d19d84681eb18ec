"""What runs inside and the daemon about its configuration: a word that it is up, and what is due.

Both sides of a change that needs no restart (RUNTIME 28): what an agent says is a claim. Whether it
is healthy the daemon finds out by its unit and by the clock.
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
    commit: Commit | None = Field(None, description="What it has read in /run/hive/config.")
    system: StorePath | None = Field(None, description="The system that it runs (image `nix`).")
    fault: str = Field(
        "", max_length=FAULT_MOST, description="What went wrong; empty when all is well."
    )


class Greeted(Result):
    commit: str = Field(description="The configuration that is deployed; empty: none yet.")
    system: str = Field(description="The system that should run (image `nix`).")


class WatchConfigParams(Params):
    after: str | None = Field(
        None, max_length=128, description="`next` of the answer before: only news is wanted."
    )
    wait: float = Field(0.0, ge=0, le=WAIT_MOST, description="Seconds to wait for news at most.")


class DeployedConfig(Result):
    commit: str = Field(description="The configuration that is deployed; empty: none yet.")
    system: str = Field(description="The system to switch to, where that is not running (`nix`).")
    next: str = Field(description="`after` for news.")


@operation(action="work", allow=SELF)
def hello(call: Call, params: HelloParams) -> Record[Greeted]:
    """Tell the daemon that the caller is up, and with what.

    An agent whose spec says `harness` is healthy only after this. `fault` says that something did
    not work: a deploy that is being watched is taken back then.
    """
    uuid = _agent_uuid(call, "say hello")
    said = CheckIn(
        uuid, call.now, _caller_nonce(call.ledger.runs.get(uuid), call.states.machine(uuid)),
        params.commit or "", params.system or "", params.fault,
    )  # fmt: skip
    call.ledger.hellos.put(said)
    spec = call.hive.spec(call.caller)
    result = Greeted(commit=spec.config or "", system=spec.system or "")
    fields = {"commit": said.commit[:12], "fault": said.fault[:200]}
    told = {key: value for key, value in fields.items() if value}
    return Record(result, frozenset({f"hello:{uuid}"}), told)


@operation(action="work", allow=SELF)
def watch_config(call: Call, params: WatchConfigParams) -> DeployedConfig | Wait[DeployedConfig]:
    """Tell the caller which configuration is deployed; with `wait` or `more`, when it changes.

    Nothing is told while the caller is about to be started again: it has not to switch then.
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


def _agent_uuid(call: Call, what: str) -> str:
    if call.by_operator:
        raise Conflict(f"cannot {what}: the operator is no agent")
    return call.uuid


def _caller_nonce(run: DesiredRun | None, machine: Machine | None) -> int:
    """The start that speaks: until the old one is seen to be down, that is not the wanted one."""
    if machine is not None and machine.active in _LIVES:
        return machine.nonce
    return run.nonce if run else 0


def _is_restarting(call: Call, uuid: str) -> bool:
    """Whether another start is wanted than the one that runs."""
    run, machine = call.ledger.runs.get(uuid), call.states.machine(uuid)
    if run is None or machine is None or machine.active not in _LIVES:
        return False
    return machine.nonce != run.nonce
