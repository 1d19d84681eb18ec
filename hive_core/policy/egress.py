"""Where an agent may connect to: its network profile, the rules of the host, and its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.subagent import INHERIT, SubAgent
from hive_core.model.wire.egress import (
    ANY,
    HOST,
    EgressTarget,
    allowing_rule,
    network_profile,
)

NO_PROFILE: Final = "profile"
NOT_ALLOWED: Final = "allow-list"


@dataclass(frozen=True, slots=True)
class EgressDecision:
    """Whether a connection is allowed; `rule` is what decided."""

    allowed: bool
    rule: str
    reason: str = ""


def decide_egress(
    name: str, spec: AgentSpec, allow: Sequence[str], target: EgressTarget
) -> EgressDecision:
    """Whether the agent may connect to the target; `allow` are the rules of the host.

    The service refuses addresses outside of the internet, whatever is decided here.
    """
    profile = network_profile(spec.capabilities)
    if profile is None:
        reason = f"{name} has no network profile; the operator can grant one"
        return EgressDecision(allowed=False, rule=NO_PROFILE, reason=reason)
    if profile == HOST:
        return EgressDecision(allowed=True, rule=ANY)
    rule = allowing_rule(target, allow)
    own = rule if rule is None or not spec.egress else allowing_rule(target, spec.egress)
    if own is not None:
        return EgressDecision(allowed=True, rule=own)
    whose = "[egress] in hive.toml" if rule is None else name
    reason = f"no egress rule of {whose} allows {target}"
    return EgressDecision(allowed=False, rule=NOT_ALLOWED, reason=reason)


def decide_subagent_egress(line: Sequence[SubAgent], target: EgressTarget) -> EgressDecision:
    """Whether the rules of a sub-agent and of all above it allow the target; `line` begins with it.

    Those of their agent decide too.
    """
    rule = INHERIT
    for sub in line:
        allowing = INHERIT if INHERIT in sub.network else allowing_rule(target, sub.network)
        if allowing is None:
            reason = f"no egress rule of sub-agent {sub.id} allows {target}"
            return EgressDecision(allowed=False, rule=NOT_ALLOWED, reason=reason)
        rule = allowing if rule == INHERIT else rule
    return EgressDecision(allowed=True, rule=rule)


def egress_policy(spec: AgentSpec, allow: Sequence[str], *, held: bool) -> str:
    """A word for all that decides on connections of the agent; empty: it has no network.

    `held`: it is in quarantine. Where the word changes, its connections end.
    """
    profile = network_profile(spec.capabilities)
    if profile is None:
        return ""
    rules = [] if profile == HOST else [list(allow), list(spec.egress)]
    return sha256(json.dumps([profile, rules, held]).encode()).hexdigest()[:32]
