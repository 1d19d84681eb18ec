"""The built-in agents queen and maid: created at start if the settings enable them, one of each.

They are ordinary agents. To remove one, disable it in the settings and destroy it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final
from uuid import uuid4

from hive_core.broker.call import Call, Change, EventTarget, Record
from hive_core.broker.operation import Result
from hive_core.errors import HiveError
from hive_core.model.agents.agent import AgentSpec, Profile, Role, Tier
from hive_core.model.agents.capability import check_capabilities
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.model.agents.roles import default_capabilities
from hive_core.model.config.seed import seed_for
from hive_core.model.config.settings import Settings
from hive_core.reconcile.deps import BrokerHandle

log = logging.getLogger(__name__)
NAME: Final = "ensure_built_in"
# The maid may create agents only if the settings have checks for it to run.
_MAID: Final = ("artifact.write", "escalate")
_SPAWN: Final = "spawn"
_SPAWN_MARK: Final = "maid spawn"  # names the maid that got `spawn` from this module


class BuiltInCreated(Result):
    """The created built-in agent."""

    name: str
    uuid: str


def ensure_built_in_agents(broker: BrokerHandle, settings: Settings) -> Iterator[str]:
    """Create the enabled built-in agents that do not exist; yield a message for each failure."""
    for profile in missing_profiles(broker.hive(), settings):
        try:
            made = broker.perform(NAME, creation_of(profile))
        except HiveError as error:
            log.warning("Cannot create the %s: %s", profile.value, error)
            yield f"cannot create the {profile}: {error}"
        else:
            log.info("Created %s", made.name, extra={"HIVE_UUID": made.uuid})
    yield from _adjust_maid(broker, settings)


def _adjust_maid(broker: BrokerHandle, settings: Settings) -> Iterator[str]:
    """Grant `spawn` to an existing maid while the settings have checks, and revoke it afterwards.

    Other capabilities that the operator granted stay.
    """
    hive = broker.hive()
    name = hive.built_in_agent(Profile.MAID)
    if name is None or (_SPAWN in hive.spec(name).capabilities) == bool(settings.maid.checks):
        return
    try:
        broker.perform(NAME, _change_maid)
    except HiveError as error:
        log.warning("Cannot adjust the maid to the settings: %s", error)
        yield f"cannot adjust the maid to the settings: {error}"


def _change_maid(call: Call) -> Change[BuiltInCreated] | Record[BuiltInCreated]:
    """The commit that grants or revokes `spawn`; no commit if the operator granted it."""
    name = call.hive.built_in_agent(Profile.MAID) or Profile.MAID.value
    spec, marks = call.hive.spec(name), call.ledger.marks
    made = BuiltInCreated(name=name, uuid=spec.id)
    if call.settings.maid.checks:
        marks.put(_SPAWN_MARK, spec.id)
        held = check_capabilities((*spec.capabilities, _SPAWN))
        message = f"grant {name} spawn, for its checks"
    elif marks.get(_SPAWN_MARK) == spec.id:
        marks.drop(_SPAWN_MARK)
        held = tuple(capability for capability in spec.capabilities if capability != _SPAWN)
        message = f"revoke spawn from {name}: no checks are set"
    else:
        return Record(made, audited=True)
    hive = call.hive.with_spec(name, spec.model_copy(update={"capabilities": held}))
    return Change(made, hive, message, target=EventTarget(spec.id, name))


def missing_profiles(hive: Hive, settings: Settings) -> Iterator[Profile]:
    """The enabled profiles without an agent.

    The queen first, because the maid is created below it.
    """
    wanted = {Profile.QUEEN: settings.daemons.queen, Profile.MAID: settings.daemons.maid}
    for profile, enabled in wanted.items():
        if enabled and hive.built_in_agent(profile) is None:
            yield profile


def creation_of(profile: Profile) -> Callable[[Call], Change[BuiltInCreated]]:
    """A handler that creates this agent under the queen or the root agent."""

    def make(call: Call) -> Change[BuiltInCreated]:
        settings, image = call.settings, call.settings.default_image
        config, nar = seed_for(image)
        spec = AgentSpec(
            uuid=uuid4(), role=Role.DAEMON, tier=Tier.TACTICAL, profile=profile,
            title=f"The {profile} of this host", image=image, config=config, nar=nar,
            capabilities=_initial_capabilities(profile, settings),
            command=("hive-agent", profile.value), max_children=settings.limits.children,
        )  # fmt: skip
        parent = _initial_parent(call, profile)
        hive = call.hive.with_agent(profile.value, parent, spec)
        call.ledger.ranges.allocate(spec.id, settings.uid_start, call.now)
        if _SPAWN in spec.capabilities and profile is Profile.MAID:
            call.ledger.marks.put(_SPAWN_MARK, spec.id)
        call.ledger.runs.want(spec.id, DesiredState.RUNNING, call.now, reason=f"the {profile}")
        made = BuiltInCreated(name=profile.value, uuid=spec.id)
        call.notify(f"run:{spec.id}")
        target = EventTarget(spec.id, made.name)
        return Change(made, hive, f"create the {profile}", target=target)

    return make


def _initial_capabilities(profile: Profile, settings: Settings) -> tuple[str, ...]:
    if profile is not Profile.MAID:
        return default_capabilities(Role.DAEMON)
    return check_capabilities((*_MAID, _SPAWN) if settings.maid.checks else _MAID)


def _initial_parent(call: Call, profile: Profile) -> str | None:
    queen = call.hive.built_in_agent(Profile.QUEEN) if profile is Profile.MAID else None
    root = call.settings.root.name
    return queen or (root if root in call.hive.topology else None)
