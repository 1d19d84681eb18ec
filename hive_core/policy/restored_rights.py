"""What an agent that was destroyed comes back with: no more than its parent could give it now."""

from __future__ import annotations

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.capability import OPERATOR_ONLY, missing_capabilities, no_effect_reason
from hive_core.model.agents.hive import Hive
from hive_core.policy.decide import decide
from hive_core.policy.rules import ROUTE


def restored_spec(hive: Hive, parent: str | None, spec: AgentSpec) -> AgentSpec:
    """The spec without what was taken from the family while its agent was gone.

    A root has nobody above it: what the operator gave it, it keeps, as far as it still leads
    anywhere.
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
    """Which agents, by UUID, hold which capabilities no more."""
    found = {}
    for uuid, name in before.names.items():
        old, now = before.specs[name], after.specs.get(after.names.get(uuid, ""))
        if now is not None and now is not old:
            found[uuid] = frozenset(old.capabilities) - frozenset(now.capabilities)
    return {uuid: lost for uuid, lost in found.items() if lost}


def _can_write_to(hive: Hive, sender: str, uuid: str) -> bool:
    """Whether the parent may write to it itself, by its place or by its own list."""
    name = hive.names[uuid]
    return decide(ROUTE, hive, sender, name).allowed
