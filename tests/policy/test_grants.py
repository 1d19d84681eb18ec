"""What a creator may give: never more than it has."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.topologies import hive_of, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from hive_core.errors import HiveError, InvalidArgument, LimitReached, NotAllowed
from hive_core.model.agents.agent import AgentSpec, Limits, Role, Tier
from hive_core.model.agents.capability import missing_capabilities
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import ROLE_DEFAULTS, default_capabilities
from hive_core.policy.grants import (
    check_child_quota,
    check_move,
    check_spawn,
    inherit_limits,
    initial_capabilities,
    initial_max_children,
)
from hive_core.policy.remainder import SUMMED, claim, remainder

MIB = 1 << 20
TREE = {"root": None, "bob": "root", "carl": "bob"}
IMAGES = frozenset({"host", "tools"})


def child(role: Role = Role.AGENT, **fields: object) -> AgentSpec:
    return spec(99, role, **({"capabilities": ()} | fields))


def spawn(hive: Hive, creator: str, parent: str | None, new: AgentSpec) -> Hive:
    """Everything that stands between the wish and the commit, in the order of the operation."""
    filled = inherit_limits(hive, creator, parent, new)
    check_spawn(hive, creator, parent, filled, IMAGES)
    if creator != "operator" and parent is not None:
        check_child_quota(hive, parent)
    return hive.with_agent("kid", parent, filled)


@for_each("giver, role", [(giver, role) for giver in Role for role in Role])
def test_the_matrix_of_roles_holds_for_creators_and_for_parents(giver: Role, role: Role) -> None:
    """K1: worker creates task only, task and architect nothing, and no detour helps."""
    hive = hive_of(TREE, {"bob": spec(2, giver)})
    for creator, parent in (("bob", "bob"), ("root", "bob"), ("bob", "carl")):
        if role in ROLE_DEFAULTS[giver].creates:
            spawn(hive, creator, parent, child(role))
        else:
            with pytest.raises(NotAllowed, match=f"cannot spawn an? {role}: bob is an? {giver}"):
                spawn(hive, creator, parent, child(role))


@for_each("giver, tier", [(g, t) for g in Tier for t in Tier])
def test_a_child_is_never_of_a_higher_tier_than_its_creator(giver: Tier, tier: Tier) -> None:
    """K2."""
    rank = [Tier.OPERATIONAL, Tier.TACTICAL, Tier.STRATEGIC]
    hive = hive_of(TREE, {"bob": spec(2, tier=giver)})
    if rank.index(tier) <= rank.index(giver):
        spawn(hive, "bob", "bob", child(tier=tier))
    else:
        with pytest.raises(NotAllowed, match=f"at tier {tier}: bob is {giver}"):
            spawn(hive, "bob", "bob", child(tier=tier))


def test_a_task_is_never_strategic_for_any_caller() -> None:
    """K2."""
    with pytest.raises(InvalidArgument, match="never strategic"):
        spawn(hive_of(TREE), "operator", "bob", child(Role.TASK, tier=Tier.STRATEGIC))


def test_a_child_holds_no_capability_that_its_creator_does_not_hold() -> None:
    hive = hive_of(TREE, {"bob": spec(2, capabilities=("spawn", "meta.update"))})
    spawn(hive, "bob", "bob", child(capabilities=("spawn", "meta.update:nixpkgs")))
    with pytest.raises(NotAllowed, match="cannot spawn with broadcast, kill: you do not hold"):
        spawn(hive, "bob", "bob", child(capabilities=("kill", "spawn", "broadcast")))


def test_the_network_of_the_host_is_handed_on_by_no_agent() -> None:
    """H29."""
    hive = hive_of(TREE, {"bob": spec(2, capabilities=("spawn", "network:host", "secret:a"))})
    spawn(hive, "bob", "bob", child(capabilities=("secret:a",)))
    with pytest.raises(NotAllowed, match="network:host"):
        spawn(hive, "bob", "bob", child(capabilities=("network:host",)))


def test_a_word_off_the_list_is_no_capability_for_the_operator_either() -> None:
    with pytest.raises(InvalidArgument, match="'root' is not a capability"):
        spawn(hive_of(TREE), "operator", None, child(capabilities=("root",)))


def test_without_a_wish_an_agent_gets_the_defaults_of_the_role_that_its_creator_holds() -> None:
    """K26."""
    hive = hive_of(TREE, {"bob": spec(2, capabilities=("spawn", "escalate", "broadcast"))})
    usual, task = default_capabilities(Role.AGENT), default_capabilities(Role.TASK)
    assert initial_capabilities(hive, "bob", usual) == ("escalate", "spawn")
    assert initial_capabilities(hive, "root", task) == ("escalate",)
    assert initial_capabilities(hive, "operator", usual) == usual
    assert initial_capabilities(hive, "bob", usual, ["spawn", "kill"]) == ("kill", "spawn")
    assert initial_capabilities(hive, "bob", usual, []) == ()


def test_images_are_names_for_agents_and_also_paths_for_the_operator() -> None:
    hive = hive_of(TREE)
    spawn(hive, "bob", "bob", child(image="tools"))
    spawn(hive, "operator", "bob", child(image="/srv/trees/debian"))
    with pytest.raises(NotAllowed, match="cannot spawn from a path"):
        spawn(hive, "bob", "bob", child(image="/srv/trees/debian"))
    for creator in ("bob", "operator"):
        with pytest.raises(InvalidArgument, match="no image other"):
            spawn(hive, creator, "bob", child(image="other"))


def test_allow_lists_and_roots_are_the_operator_s_to_give() -> None:
    hive = hive_of(TREE)
    with pytest.raises(NotAllowed, match="allow-list"):
        spawn(hive, "bob", "bob", child(allow=[spec(1).uuid]))
    with pytest.raises(NotAllowed, match="a root"):
        spawn(hive, "bob", None, child())
    assert spawn(hive, "operator", None, child()).topology.parent("kid") is None


def test_seats_run_out_for_agents_and_not_for_the_operator() -> None:
    """H8: quota."""
    hive = hive_of(TREE, {"bob": spec(2, max_children=2)})
    full = spawn(hive, "bob", "bob", child(max_children=2))
    with pytest.raises(LimitReached, match=r"max_children \(2\) of bob reached"):
        check_child_quota(full, "bob")
    check_child_quota(full, "bob", besides=frozenset({"carl"}))
    check_child_quota(full, "bob", besides=frozenset({"kid"}))
    with pytest.raises(LimitReached, match=r"max_children \(2\) of bob reached"):
        check_child_quota(full, "bob", besides=frozenset({"root"}))
    with pytest.raises(LimitReached, match="max_children 3: yours is 2"):
        check_spawn(hive, "bob", "bob", child(max_children=3), IMAGES)


def test_default_seats_are_no_more_than_the_creator_s() -> None:
    hive = hive_of(TREE, {"bob": spec(2, max_children=2)})
    assert initial_max_children(hive, "bob", None, 10) == 2
    assert initial_max_children(hive, "root", None, 10) == 10
    assert initial_max_children(hive, "operator", None, 10) == 10
    assert initial_max_children(hive, "bob", 3, 10) == 3  # which check_spawn refuses


def test_a_bound_on_a_subtree_counts_every_generation_below_it() -> None:
    """H8: subtree total."""
    hive = hive_of(TREE, {"root": spec(1, subtree={"agents": 3})})
    full = spawn(hive, "carl", "carl", child())
    with pytest.raises(LimitReached, match=r"limit on descendants \(3\) of root reached"):
        check_child_quota(full, "carl")
    check_child_quota(full, "carl", besides=frozenset({"kid"}))


def test_children_together_are_given_no_more_than_their_parent_has() -> None:
    hive = hive_of(TREE, {"bob": spec(2, limits={"memory_max": 512 * MIB})})
    hive = spawn(hive, "bob", "bob", child(limits={"memory_max": 300 * MIB}))
    assert remainder(hive, "bob", "memory_max") == 212 * MIB
    check_spawn(hive, "bob", "bob", child(limits={"memory_max": 212 * MIB}), IMAGES)
    for creator in ("bob", "root"):
        with pytest.raises(LimitReached, match=f"you have {212 * MIB} left"):
            check_spawn(hive, creator, "bob", child(limits={"memory_max": 213 * MIB}), IMAGES)
    check_spawn(hive, "operator", "bob", child(limits={"memory_max": 1 << 40}), IMAGES)


def test_a_child_that_asks_for_no_limit_gets_an_equal_share() -> None:
    hive = hive_of(TREE, {"bob": spec(2, max_children=5, limits={"memory_max": 512 * MIB})})
    assert inherit_limits(hive, "bob", "bob", child()).limits.memory_max == 512 * MIB // 4
    with pytest.raises(InvalidArgument, match="memory_max is required"):
        check_spawn(hive, "bob", "bob", child(max_children=5), IMAGES)
    assert inherit_limits(hive, "root", "root", child()).limits == Limits()


def test_without_a_limit_of_its_own_a_creator_has_the_host_s_default() -> None:
    hive, usual = hive_of(TREE), Limits(memory_max=256 * MIB)
    inherit_limits(hive, "bob", "bob", child(limits={"memory_max": 256 * MIB}), usual)
    with pytest.raises(LimitReached, match="memory_max"):
        inherit_limits(hive, "bob", "bob", child(limits={"memory_max": 257 * MIB}), usual)


def test_weights_are_bounded_by_the_creator_s_and_do_not_add_up() -> None:
    hive = hive_of(TREE, {"bob": spec(2, limits={"cpu_weight": 50})})
    hive = spawn(hive, "bob", "bob", child(limits={"cpu_weight": 50}))
    assert inherit_limits(hive, "bob", "bob", child()).limits.cpu_weight == 50
    with pytest.raises(LimitReached, match="cpu_weight"):
        inherit_limits(hive, "bob", "bob", child(limits={"cpu_weight": 51}))


def test_a_subtree_limit_pays_for_the_agent_itself_too() -> None:
    bob = spec(2, limits={"tasks_max": 100}, subtree={"tasks_max": 300})
    hive = hive_of(TREE, {"bob": bob, "carl": spec(3, limits={"tasks_max": 50})})
    assert remainder(hive, "bob", "tasks_max") == 150


def test_a_move_by_an_agent_ends_only_where_a_spawn_could_have() -> None:
    """A quota must also hold for a subtree that is made elsewhere and moved."""
    tree = {**TREE, "dora": "root", "eve": "dora"}
    hive = hive_of(tree, {"carl": spec(3, limits={"memory_max": 300 * MIB})})
    check_move(hive, "root", "carl", "dora")
    bounds: list[dict[str, object]] = [
        {"max_children": 1},
        {"subtree": {"agents": 1}},
        {"role": Role.WORKER},
        {"limits": {"memory_max": 299 * MIB}},
    ]
    for bound in bounds:
        full = hive.with_spec("dora", spec(4, **bound))  # type: ignore[arg-type]
        with pytest.raises((LimitReached, NotAllowed)):
            check_move(full, "root", "carl", "dora")
        check_move(full, "operator", "carl", "dora")
        check_move(full, "root", "eve", "dora")


Step = tuple[str, str, int | None, frozenset[str]]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(["root", "bob", "k0", "k1", "k2"]),
        st.sampled_from(["root", "bob", "k0", "k1", "k2"]),
        st.one_of(st.none(), st.integers(8, 400)),
        st.frozensets(st.sampled_from(["spawn", "kill", "broadcast", "meta.update"])),
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(steps)
def test_no_sequence_of_spawns_makes_more_out_of_less(wishes: list[Step]) -> None:
    """Agents together never hold more than was granted, nor anything that no ancestor holds."""
    hive = hive_of(
        {"root": None, "bob": "root"},
        {
            "root": spec(1, capabilities=("spawn", "kill"), max_children=4),
            "bob": spec(2, limits={"tasks_max": 300}, capabilities=("spawn",), max_children=3),
        },
    )
    for number, (creator, parent, tasks, held) in enumerate(wishes):
        if creator not in hive.topology or parent not in hive.topology.subtree(creator):
            continue
        new = spec(
            10 + number,
            max_children=initial_max_children(hive, creator, None, 10),
            limits={"tasks_max": tasks},
            capabilities=tuple(held),
        )
        try:
            filled = inherit_limits(hive, creator, parent, new)
            check_spawn(hive, creator, parent, filled, IMAGES)
            check_child_quota(hive, parent)
        except HiveError:
            continue
        hive = hive.with_agent(f"k{number}", parent, filled).validate()
    for name, value in hive.specs.items():
        kids = [hive.spec(kid) for kid in hive.topology.children(name)]
        assert len(kids) <= value.max_children
        assert not missing_capabilities(hive.spec("root").capabilities, value.capabilities)
        for field in SUMMED:
            if (own := claim(value, field)) is not None:
                assert sum(claim(kid, field) or own + 1 for kid in kids) <= own
