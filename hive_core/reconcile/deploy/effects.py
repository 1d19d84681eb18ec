"""The effect of a deploy on an agent: compares its current with its next spec and files."""

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

HELD: Final = "held"  # in the review: the agent's capabilities at the time of the check
Files = Mapping[str, tuple[bool, bytes]]
V = TypeVar("V")


def config_in(files: Files) -> AgentConfig:
    """The parsed `agent.toml`; the defaults if it cannot be read (the intake checked it)."""
    try:
        return parse_agent_config(toml.parse(files[FILE][1]))
    except (KeyError, ValueError, HiveError):
        return AgentConfig()


def changed_paths(before: Mapping[str, V], after: Mapping[str, V]) -> frozenset[str]:
    """The paths whose values differ."""
    paths = before.keys() | after.keys()
    return frozenset(path for path in paths if before.get(path) != after.get(path))


def files_of(applied: AppliedRepoSource, spec: AgentSpec) -> Files:
    """The files of the agent's configuration; empty if it has none."""
    if not spec.config:
        return {}
    return nar.unpack(applied.nar(spec.id, spec.config, spec.nar or ""))


def next_spec(spec: AgentSpec, approval: Approval, built: BuiltSystem, then: tuple[Generation, ...]
) -> AgentSpec:  # fmt: skip
    """The approved spec. `then`: for a rollback, the target generation and the current one."""
    if approval.kind is ApprovalKind.ROLLBACK:
        target, current = then
        return roll_back(spec, target.fields, current.fields)
    system = built.system or spec.system
    if approval.kind is ApprovalKind.UPDATE:
        return spec.model_copy(update={"system": system})
    request = ConfigRequest.model_validate(dict(approval.requested))
    files = {"config": approval.binding.commit, "nar": approval.binding.nar, "system": system}
    return grant(spec, request).model_copy(update=files)


def revoked_capabilities(now: AgentSpec, after: AgentSpec, approval: Approval) -> str:
    """Why an approval cannot grant capabilities that were revoked since its check.

    At the check the agent still held them, so the approver did not see that they would be granted.
    Empty if there are none.
    """
    held = approval.review.get(HELD)
    then = {str(name) for name in held} if isinstance(held, list) else set[str]()
    lost = sorted(then & set(after.capabilities) - set(now.capabilities))
    return f"{', '.join(lost)} was revoked since the check" if lost else ""


def effect_between(applied: AppliedRepoSource, before: AgentSpec, after: AgentSpec) -> Effect:
    """The effect of a deploy that changes `before` to `after`."""
    old, new = files_of(applied, before), files_of(applied, after)
    shown = ConfiguredAgent(before, config_in(old)), ConfiguredAgent(after, config_in(new))
    return effect(*shown, changed_paths(old, new))
