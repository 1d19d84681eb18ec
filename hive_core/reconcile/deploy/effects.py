"""What a deploy does to an agent, by what it has and what it would have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from hive_core.errors import HiveError
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.agent_config import FILE, AgentConfig, ConfigRequest, parse_agent_config
from hive_core.model.config.approval import Approval, ApprovalKind, Effect, Generation
from hive_core.plan import nar, toml
from hive_core.plan.effect import ConfiguredAgent, effect, grant, roll_back
from hive_core.reconcile.deploy.context import AppliedRepoSource, BuiltSystem

HELD: Final = "held"  # in the review: what the agent held when it was checked
Files = Mapping[str, tuple[bool, bytes]]
V = TypeVar("V")


def config_in(files: Files) -> AgentConfig:
    """What `agent.toml` says; nothing where it cannot be read, for it was checked when it came."""
    try:
        return parse_agent_config(toml.parse(files[FILE][1]))
    except (KeyError, ValueError, HiveError):
        return AgentConfig()


def changed_paths(before: Mapping[str, V], after: Mapping[str, V]) -> frozenset[str]:
    """Paths that differ."""
    paths = before.keys() | after.keys()
    return frozenset(path for path in paths if before.get(path) != after.get(path))


def files_of(applied: AppliedRepoSource, spec: AgentSpec) -> Files:
    """What an agent runs with; nothing for one that was given none."""
    if not spec.config:
        return {}
    return nar.unpack(applied.nar(spec.id, spec.config, spec.nar or ""))


def next_spec(spec: AgentSpec, approval: Approval, built: BuiltSystem, then: tuple[Generation, ...]
) -> AgentSpec:  # fmt: skip
    """The spec that was approved. `then`: for a way back, the generation and the current one."""
    if approval.kind is ApprovalKind.ROLLBACK:
        target, current = then
        return roll_back(spec, target.fields, current.fields)
    system = built.system or spec.system
    if approval.kind is ApprovalKind.UPDATE:
        return spec.model_copy(update={"system": system})
    wishes = ConfigRequest.model_validate(dict(approval.requested))
    files = {"config": approval.binding.commit, "nar": approval.binding.nar, "system": system}
    return grant(spec, wishes).model_copy(update=files)


def revoked_capabilities(now: AgentSpec, after: AgentSpec, approval: Approval) -> str:
    """Why an approval may not give what was taken from the agent since it was checked.

    Then the agent held it, so nobody was shown that it would be given; empty: nothing is.
    """
    held = approval.review.get(HELD)
    then = {str(name) for name in held} if isinstance(held, list) else set[str]()
    lost = sorted(then & set(after.capabilities) - set(now.capabilities))
    return f"{', '.join(lost)} was revoked since it was checked" if lost else ""


def effect_between(applied: AppliedRepoSource, before: AgentSpec, after: AgentSpec) -> Effect:
    """What it takes to run with `after` in place of `before`."""
    old, new = files_of(applied, before), files_of(applied, after)
    shown = ConfiguredAgent(before, config_in(old)), ConfiguredAgent(after, config_in(new))
    return effect(*shown, changed_paths(old, new))
