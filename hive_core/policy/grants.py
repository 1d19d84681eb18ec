"""What an agent may be given: by its creator, and when it is restored.

The principle: an agent gives only what it has itself. The operator is bound by the structure of the
tree and the closed lists alone, and may give more than a creator has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.model.agents.agent import AgentSpec, Limits, Role
from hive_core.model.agents.capability import (
    OPERATOR_ONLY,
    check_capabilities,
    check_grantable,
    missing_capabilities,
    no_effect_reason,
)
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import ROLE_DEFAULTS, TIER_RANK
from hive_core.model.wire.record import OPERATOR
from hive_core.model.work.tools import missing_entries
from hive_core.model.work.tools import normalized_entries as allow_list
from hive_core.policy.decide import decide
from hive_core.policy.remainder import (
    CEILINGS,
    SUMMED,
    ceiling,
    claim,
    default_limit,
    limit_of,
    remainder,
)
from hive_core.policy.rules import ROUTE

_NO_DEFAULTS = Limits()


def check_spawn(
    hive: Hive, creator: str, parent: str | None, spec: AgentSpec, images: Container[str]
) -> None:
    """Refuse what the creator may not create there.

    Raises InvalidArgument, NotAllowed or LimitReached. The rule SPAWN decides whether the creator
    may create agents under `parent` at all, and `check_child_quota` how many; this function decides
    what kind. With `parent` None the agent is a root, which only the operator creates.
    """
    check_capabilities(spec.capabilities)
    if TIER_RANK[spec.tier] > TIER_RANK[ROLE_DEFAULTS[spec.role].most]:
        raise InvalidArgument(f"{_with_article(spec.role)} is never {spec.tier}", field="tier")
    if "/" not in spec.image and spec.image not in images:
        raise InvalidArgument(
            f"no image {spec.image}; [images] in hive.toml names the images of this host",
            field="image",
        )
    if creator == OPERATOR:
        check_grantable(spec.capabilities)
        return
    if parent is None:
        raise NotAllowed("cannot spawn a root: only the operator may create roots")
    giver = hive.spec(creator)
    _check_role(hive, (creator, parent), spec)
    _check_capabilities(giver, spec)
    _check_tools(giver, spec)
    _check_allow_list_image_and_children(giver, spec)
    _check_limits_are_set(hive, creator, spec)
    _check_limits(hive, creator, parent, spec)


def check_move(hive: Hive, caller: str, name: str, parent: str | None) -> None:
    """Refuse a move to a place where the agent could not have been created.

    The rule MOVE decides who may move. The operator may move any agent to any place in the tree.
    """
    if caller == OPERATOR or parent is None or hive.topology.parent(name) == parent:
        return
    spec = hive.spec(name)
    _check_role(hive, (parent,), spec, "move")
    check_child_quota(hive, parent, moved=name)
    for field in SUMMED:
        rest, wanted = remainder(hive, parent, field), claim(spec, field)
        if rest is not None and wanted is not None and wanted > rest:
            raise LimitReached(f"cannot move {name}: {parent} has {rest} of {field} left")


def initial_capabilities(
    hive: Hive, creator: str, usual: tuple[str, ...], asked: Iterable[str] | None = None
) -> tuple[str, ...]:
    """What a new agent will hold: as requested, or the `usual` ones that the creator holds.

    Of the defaults the agent gets those that its creator holds. What the caller requests by name
    the creator must hold (`check_spawn` refuses the rest).
    """
    if asked is not None:
        return check_capabilities(asked)
    if creator == OPERATOR:
        return usual
    lacking = missing_capabilities(hive.spec(creator).capabilities, usual)
    return tuple(capability for capability in usual if capability not in lacking)


def with_network(held: tuple[str, ...], profile: str | None) -> tuple[str, ...]:
    """The capabilities with this network profile as the only one; None changes nothing."""
    if profile is None:
        return held
    rest = (capability for capability in held if not capability.startswith("network:"))
    return check_capabilities((*rest, *(() if profile == "none" else (f"network:{profile}",))))


def initial_max_children(hive: Hive, creator: str, asked: int | None, usual: int) -> int:
    """How many children a new agent may have: as requested, or at most as many as its creator."""
    if asked is not None or creator == OPERATOR:
        return usual if asked is None else asked
    return min(usual, hive.spec(creator).max_children)


def inherit_limits(
    hive: Hive, creator: str, parent: str | None, spec: AgentSpec, defaults: Limits = _NO_DEFAULTS
) -> AgentSpec:
    """The spec with its unset limits filled in from the creator, so that it stays within them.

    `defaults` are the host's limits for agents that set none, so a creator without a limit of its
    own has those. LimitReached when the spec asks for more than is left.
    """
    if creator == OPERATOR or parent is None:
        return spec
    _check_limits(hive, creator, parent, spec, defaults)
    fields = spec.limits.model_dump()
    for field in (*SUMMED, *CEILINGS):
        if fields[field] is None:
            fields[field] = default_limit(hive, creator, parent, field, defaults)
    return spec.model_copy(update={"limits": Limits(**fields)})


def _check_role(hive: Hive, givers: tuple[str, ...], spec: AgentSpec, verb: str = "spawn") -> None:
    """Check the role table for creator and parent, so that a third agent cannot bypass it."""
    for name in dict.fromkeys(givers):
        giver = hive.spec(name)
        if spec.role not in ROLE_DEFAULTS[giver.role].creates:
            raise NotAllowed(
                f"cannot {verb} {_with_article(spec.role)}: {name} is {_with_article(giver.role)}"
            )
        if TIER_RANK[spec.tier] > TIER_RANK[giver.tier]:
            raise NotAllowed(f"cannot {verb} at tier {spec.tier}: {name} is {giver.tier}")


def _with_article(role: Role) -> str:
    return f"an {role}" if role[0] == "a" else f"a {role}"


def _check_capabilities(giver: AgentSpec, spec: AgentSpec) -> None:
    if lacking := missing_capabilities(giver.capabilities, sorted(spec.capabilities)):
        raise NotAllowed(f"cannot spawn with {', '.join(lacking)}: you do not hold it")
    if reserved := OPERATOR_ONLY & set(spec.capabilities):
        raise NotAllowed(f"cannot spawn with {', '.join(reserved)}: only the operator may grant it")
    check_grantable(spec.capabilities)


def initial_tools(hive: Hive, creator: str, asked: Iterable[str] | None) -> tuple[str, ...] | None:
    """The tools of a new agent: as requested, or its creator's; None: those of its role."""
    if asked is not None:
        return allow_list(asked)
    return None if creator == OPERATOR else hive.spec(creator).tools


def _check_tools(giver: AgentSpec, spec: AgentSpec) -> None:
    """A manager uses no tool itself; its list states which tools it may give to others."""
    if giver.tools is None:
        return
    wanted = ROLE_DEFAULTS[spec.role].tools if spec.tools is None else spec.tools
    if beyond := missing_entries(giver.tools, wanted):
        raise NotAllowed(f"cannot spawn with {', '.join(beyond)}: it is not in your list of tools")


def _check_allow_list_image_and_children(giver: AgentSpec, spec: AgentSpec) -> None:
    if spec.allow:
        raise NotAllowed("cannot spawn with an allow-list: only the operator may grant one")
    if "/" in spec.image:
        raise NotAllowed("cannot spawn from a path: only the operator may name one")
    if spec.max_children > giver.max_children:
        raise LimitReached(
            f"cannot spawn with max_children {spec.max_children}: yours is {giver.max_children}"
        )


def check_child_quota(
    hive: Hive, parent: str, moved: str | None = None, besides: frozenset[str] = frozenset()
) -> None:
    """Refuse one more child, or one more subtree, where a quota is used up.

    `besides`: agents that do not count, such as zombies (row K4). Adoption does not check the
    quota: it may exceed it (row K9), and then new children are refused.
    """
    tree = hive.topology
    most = hive.spec(parent).max_children
    if len(tree.children(parent)) - len(besides.intersection(tree.children(parent))) >= most:
        raise LimitReached(f"max_children ({most}) of {parent} reached")
    coming = 1 if moved is None else tree.size(moved)
    for name in (parent, *tree.lineage(parent)):
        bound = limit_of(hive.spec(name).subtree, "agents")
        if bound is None or (moved is not None and tree.is_ancestor(name, moved)):
            continue
        free = sum(tree.is_ancestor(name, agent) for agent in besides)
        if tree.size(name) - 1 - free + coming > bound:
            raise LimitReached(f"limit on descendants ({bound}) of {name} reached")
    _check_depth(hive, parent, moved)


def _check_depth(hive: Hive, parent: str, moved: str | None) -> None:
    """Refuse an agent that would exceed `max_depth` of one of its ancestors."""
    tree = hive.topology
    below = 0
    if moved is not None:
        below = max(map(tree.level, tree.subtree(moved))) - tree.level(moved)
    lowest = tree.level(parent) + 1 + below
    for name in (parent, *tree.lineage(parent)):
        bound = hive.spec(name).max_depth
        if bound is not None and lowest - tree.level(name) > bound:
            raise LimitReached(f"max_depth ({bound}) of {name} reached")


def _check_limits(
    hive: Hive, creator: str, parent: str, spec: AgentSpec, defaults: Limits = _NO_DEFAULTS
) -> None:
    for field in (*SUMMED, *CEILINGS):
        wanted = claim(spec, field)
        rest = remainder(hive, parent, field) if field in SUMMED else None
        bounds = (ceiling(hive, creator, field, defaults), rest)
        most = min((bound for bound in bounds if bound is not None), default=None)
        if most is not None and wanted is not None and wanted > most:
            raise LimitReached(f"cannot give {wanted} of {field}: you have {most} left")


def _check_limits_are_set(hive: Hive, creator: str, spec: AgentSpec) -> None:
    """Require limits: the host's default of a child may be more than its creator has."""
    for field in SUMMED:
        if claim(hive.spec(creator), field) is not None and claim(spec, field) is None:
            raise InvalidArgument(f"{field} is required: you have a limit yourself", field="limits")


def restored_spec(hive: Hive, parent: str | None, spec: AgentSpec) -> AgentSpec:
    """The spec without the rights that its family lost while the agent was destroyed.

    A root has no parent: it keeps what the operator gave it, as far as that still has an effect.
    """
    allow = tuple(uuid for uuid in spec.allow if hive.name(str(uuid)) is not None)
    held = tuple(word for word in spec.capabilities if not no_effect_reason(word))
    if parent is None:
        return spec.model_copy(update={"allow": allow, "capabilities": held})
    lacking = {
        *missing_capabilities(hive.spec(parent).capabilities, spec.capabilities),
        *OPERATOR_ONLY,
    }
    return spec.model_copy(
        update={
            "capabilities": tuple(word for word in held if word not in lacking),
            "allow": tuple(uuid for uuid in allow if _can_write_to(hive, parent, str(uuid))),
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
