"""Parks agents of the image `nix` that have no system to run, with the reason."""

from __future__ import annotations

from dataclasses import replace

from hive_core.broker.call import Call
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import FailureHistory
from hive_core.model.config.settings import NIX_IMAGE


def lacks_system(spec: AgentSpec) -> bool:
    return spec.image == NIX_IMAGE and spec.system is None


def park(call: Call, uuid: str, why: str) -> None:
    """Park an agent until it is started again. Call inside a transaction."""
    ledger = call.ledger
    run = ledger.runs.get(uuid)
    if run is None:
        return
    ledger.starts.put(uuid, replace(
        ledger.starts.get(uuid) or FailureHistory(), failures=(call.now,), next_at=0.0, parked=True,
        nonce=run.nonce, why=why, returns=False,
    ))  # fmt: skip
    call.notify(f"run:{uuid}")
