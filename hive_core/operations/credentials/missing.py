"""Which credentials of an agent cannot be used now, and for which tools (rows Q19, Q37)."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from hive_core.broker.call import Call
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.credential import StoredCredential, secret_keys


@dataclass(frozen=True, slots=True)
class MissingCredential:
    """A credential that the agent may read. `why`: it has no value, or it has expired."""

    key: str
    why: str
    tools: tuple[str, ...] = ()

    @override
    def __str__(self) -> str:
        return f"{self.key}, which {self.why}"


def missing_credentials(call: Call, spec: AgentSpec) -> list[MissingCredential]:
    """Those without a value, and those that were reported as expired since it was set."""
    stored, known = set(call.vault.keys(spec.id)), call.ledger.credentials.of_agent(spec.id)
    rows: list[MissingCredential] = []
    for key in sorted(secret_keys(spec.capabilities)):
        row = known.get(key, StoredCredential(key))
        why = "has no value" if key not in stored else "has expired" if row.expired else ""
        if why:
            rows.append(MissingCredential(key, why, row.label.tools))
    return rows


def unusable_tools(call: Call, spec: AgentSpec) -> tuple[str, ...]:
    """The tools whose credentials are all missing."""
    missing = {row.key: row for row in missing_credentials(call, spec)}
    known = call.ledger.credentials.of_agent(spec.id)
    usable = set(call.vault.keys(spec.id)) & secret_keys(spec.capabilities) - set(missing)
    served = {tool for key in usable if key in known for tool in known[key].label.tools}
    return tuple(sorted({tool for row in missing.values() for tool in row.tools} - served))
