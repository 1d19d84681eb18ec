"""The rights of a restored agent: at most what its parent could give it now."""

from __future__ import annotations

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.capability import OPERATOR_ONLY, missing_capabilities, no_effect_reason
from hive_core.model.agents.hive import Hive
from hive_core.policy.decide import decide
from hive_core.policy.rules import ROUTE


def restored_spec(hive: Hive, parent: str | None, spec: AgentSpec) -> AgentSpec:
    """The spec without the rights that its family lost while the agent was destroyed.

    A root has no parent: it keeps what the operator gave it, as far as that still has an effect.
    """
    allow = tuple(each for each in spec.allow if hive.name(str(each)) is not None)
    held = tuple(each for each in spec.capabilities if not no_effect_reason(each))
    if parent is None:
        return spec.model_copy(update={"allow": allow, "capabilities": held})
    lacking = {
        *missing_capabilities(hive.spec(parent).capabilities, spec.capabilities),
        *OPERATOR_ONLY,
    }
    return spec.model_copy(
        update={
            "capabilities": tuple(each for each in held if each not in lacking),
            "allow": tuple(each for each in allow if _can_write_to(hive, parent, str(each))),
        }
    )


def revoked_capabilities(before: Hive, after: Hive) -> dict[str, frozenset[str]]:
    """The capabilities that agents lost between two snapshots, by UUID."""
    lost_by_uuid = {}
    for uuid, name in before.names.items():
        old, now = before.specs[name], after.specs.get(after.names.get(uuid, ""))
        if now is not None and now is not old:
            lost_by_uuid[uuid] = frozenset(old.capabilities) - frozenset(now.capabilities)
    return {uuid: lost for uuid, lost in lost_by_uuid.items() if lost}


def _can_write_to(hive: Hive, sender: str, uuid: str) -> bool:
    """Whether the parent may write to it, by its place or by its own allow-list."""
    name = hive.names[uuid]
    return decide(ROUTE, hive, sender, name).allowed
