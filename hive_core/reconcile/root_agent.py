"""The root agent: created at the first start; runs unless the operator stops it."""

from __future__ import annotations

from uuid import uuid4

from hive_core.broker.call import Call, Change, EventTarget
from hive_core.broker.operation import Result
from hive_core.model.agents.agent import AgentSpec, Role, Tier
from hive_core.model.agents.machine import DesiredState
from hive_core.model.agents.roles import ROOT_AGENT_EXTRA, default_capabilities
from hive_core.model.config.seed import seed_for

NAME = "ensure_root"


class RootCreated(Result):
    """The created root agent."""

    name: str
    uuid: str


def create_root_agent(call: Call) -> Change[RootCreated]:
    """Create the root agent (row H16)."""
    settings = call.settings
    root = settings.root
    image = root.image or settings.default_image
    config, nar = seed_for(image)
    spec = AgentSpec(
        uuid=uuid4(), role=Role.AGENT, tier=Tier.STRATEGIC,
        capabilities=default_capabilities(Role.AGENT, ROOT_AGENT_EXTRA),
        image=image, boot=root.boot, command=root.command,
        max_children=settings.limits.children, config=config, nar=nar,
    )  # fmt: skip
    hive = call.hive.with_agent(root.name, None, spec)
    call.ledger.ranges.allocate(spec.id, settings.uid_start, call.now)
    call.ledger.runs.want(spec.id, DesiredState.RUNNING, call.now, reason="the root agent")
    made = RootCreated(name=root.name, uuid=spec.id)
    call.notify(f"run:{spec.id}")
    target = EventTarget(spec.id, root.name)
    return Change(made, hive, f"create the root agent {root.name}", target=target)
