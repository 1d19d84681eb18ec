"""spawn: who may create which agents, and the result."""

from __future__ import annotations

import pytest
from each import for_each
from fixtures.world import World, fields, names, rows, world

from hive_core.errors import AlreadyExists, Conflict, InvalidArgument, LimitReached
from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState
from hive_core.model.agents.roles import default_capabilities
from hive_core.model.config.settings import HostLimits, Settings


def test_a_new_agent_hangs_under_its_creator_and_is_wanted_running(world: World) -> None:
    """Rows H3 and H8."""
    reply = world.call("a", "spawn", name="new", title="Scout", command=["/bin/true"])
    spec = world.hive.spec("new")
    assert reply["uuid"] == spec.id
    assert world.hive.topology.parent("new") == "a"
    assert (spec.title, spec.command, spec.image) == ("Scout", ("/bin/true",), "host")
    run = world.ledger.runs.get(spec.id)
    assert run is not None
    assert run.wanted is DesiredState.RUNNING
    assert world.ledger.ranges.base(spec.id) is not None
    job = world.call("a", "get_job", id=reply["job"])
    assert (job["operation"], job["agents"], job["state"]) == ("spawn", ["new"], "running")


def test_a_capability_may_be_added_to_those_of_the_role(world: World) -> None:
    """`--capability broadcast` left the agent with nothing else (`capabilities` replaces)."""
    usual = default_capabilities(Role.LEAD)
    world.call("operator", "spawn", name="new", role="lead", add_capabilities=["broadcast"])
    assert world.hive.spec("new").capabilities == tuple(sorted((*usual, "broadcast")))
    world.call("operator", "spawn", name="bare", capabilities=[], add_capabilities=["escalate"])
    assert world.hive.spec("bare").capabilities == ("escalate",)
    assert world.fault("a", "spawn", name="no", add_capabilities=["meta.read"]) == "NotAllowed"


def test_the_operators_agents_hang_under_the_root_agent_unless_told(world: World) -> None:
    """Row H16."""
    world.call("operator", "spawn", name="new")
    world.call("operator", "spawn", name="second", parent="")
    assert world.hive.topology.parent("new") == "root"
    assert world.hive.topology.parent("second") is None


@pytest.mark.parametrize("name", ["request_spawn", "request_init_config"])
def test_the_names_of_the_seed_are_spawn(world: World, name: str) -> None:
    """Row H17."""
    reply = world.call("a", name, name="new")
    assert set(reply) == {"name", "uuid", "job"}
    assert world.hive.topology.parent("new") == "a"


def test_the_name_of_the_seed_reseeds_an_agent_that_is_there(world: World) -> None:
    """`request_init_config` with an `agent` is `init_config`, and judged as that."""
    reply = world.call("a", "request_init_config", agent="a1")
    assert set(reply) == {"agent", "job"}
    assert reply["agent"] == "a1"
    job = world.ledger.jobs.get(str(reply["job"]))
    assert job is not None
    assert job.goals == {world.uuid("a1"): "seed"}
    assert world.events()[-1]["operation"] == "init_config"
    assert world.fault("a2", "request_init_config", agent="a1") == "NotAllowed"
    assert world.fault("b1", "request_init_config", agent="a1") == "NotFound"
    assert world.fault("a", "request_init_config", agent="a1", name="x") == "InvalidParameter"
    assert world.fault("a", "request_spawn", agent="a1") == "InvalidParameter"
    assert world.fault("a", "request_init_config") == "InvalidParameter"


@pytest.mark.parametrize(
    ("caller", "parent", "error"),
    [
        ("a", "a", ""), ("a", "a1", ""), ("root", "a11", ""), ("operator", "b1", ""),
        ("a", "root", "NotAllowed"), ("a", "b", "NotAllowed"), ("a1", "a2", "NotAllowed"),
        ("a", "b1", "NotFound"), ("a", "nobody", "NotFound"), ("a", "", "NotAllowed"),
    ],
)  # fmt: skip
def test_an_agent_creates_under_itself_or_a_descendant(
    world: World, caller: str, parent: str, error: str
) -> None:
    """Row H8."""
    assert world.fault(caller, "spawn", name="new", parent=parent) == error
    assert ("new" in world.hive.topology) is (error == "")


ROLES = ("daemon", "agent", "architect", "lead", "worker", "task")
CREATES = {role: set(ROLES) for role in ("daemon", "agent", "lead")} | {
    "worker": {"task"}, "architect": set(), "task": set(),
}  # fmt: skip


@pytest.mark.parametrize("creator", ROLES)
def test_the_role_matrix_holds(world: World, creator: str) -> None:
    """Row K1: a worker creates tasks, tasks and architects create nothing."""
    world.grow(f"root/maker:{creator}")
    made = {
        role for role in ROLES
        if not world.fault("maker", "spawn", name=f"made-{role}", role=role)
    }  # fmt: skip
    assert made == CREATES[creator]


def test_no_agent_spawns_a_kernel(world: World) -> None:
    """Row K1: the daemon itself is the only one."""
    assert world.fault("operator", "spawn", name="new", role="kernel") == "InvalidParameter"


def test_the_matrix_cannot_be_got_around_through_a_descendant(world: World) -> None:
    """Row K1: the parent's role counts as well as the creator's."""
    world.grow("a/plan:architect")
    assert world.fault("a", "spawn", name="new", parent="plan") == "NotAllowed"


@pytest.mark.parametrize(
    ("role", "tier", "error"),
    [("agent", "tactical", "NotAllowed"), ("task", "strategic", "InvalidArgument")],
)
def test_a_child_is_of_no_higher_tier_and_a_task_never_strategic(
    world: World, role: str, tier: str, error: str
) -> None:
    """Row K2."""
    caller = "a" if role == "agent" else "operator"
    assert world.fault(caller, "spawn", name="new", role=role, tier=tier) == error


def test_a_second_root_does_not_see_the_trees_of_others(world: World) -> None:
    """`/meta` and `/applied` show every agent, whose names are hidden from it otherwise."""
    world.call("operator", "spawn", name="other", parent="")
    world.call("operator", "spawn", name="eyes", parent="", capabilities=["meta.read"])
    held = {name: set(world.hive.spec(name).capabilities) for name in ("root", "other", "eyes")}
    assert {"applied.read", "meta.read", "meta.update"} <= held["root"]
    assert held["other"] & {"applied.read", "meta.read", "meta.update"} == {"meta.update"}
    assert held["eyes"] == {"meta.read"}


def test_a_creator_gives_only_what_it_holds(world: World) -> None:
    world.call("operator", "revoke_capability", agent="a", capability="escalate")
    assert world.fault("a", "spawn", name="no", capabilities=["escalate"]) == "NotAllowed"
    assert world.fault("a", "spawn", name="no", capabilities=["meta.read"]) == "NotAllowed"
    world.call("a", "spawn", name="new")
    assert "escalate" not in world.hive.spec("new").capabilities
    world.call("a", "spawn", name="bare", capabilities=[])
    assert world.hive.spec("bare").capabilities == ()
    assert world.fault("bare", "spawn", name="no") == "NotAllowed"


def test_an_unknown_capability_is_named(world: World) -> None:
    with pytest.raises(InvalidArgument) as caught:
        world.call("operator", "spawn", name="new", capabilities=["fly"])
    assert caught.value.field == "capabilities"


def test_an_image_is_one_of_those_offered_and_a_path_is_the_operators(world: World) -> None:
    assert world.fault("a", "spawn", name="no", image="other") == "InvalidArgument"
    assert world.fault("a", "spawn", name="no", image="/srv/tree") == "NotAllowed"


@for_each(
    "name",
    ["", "A", "a_b", "a--b", "-a", "a-", "1a", "a" * 33, "operator", "hive", "self", "host",
     "system", "../x", "a\n", "\uff41", "a.b", "a@b", "%i"],
)  # fmt: skip
def test_a_bad_name_is_refused_before_anything_is_created(world: World, name: str) -> None:
    """Attack 14."""
    with pytest.raises(InvalidArgument) as caught:
        world.call("operator", "spawn", name=name)
    assert caught.value.field == "name"


def test_a_name_that_is_taken_is_said_to_be(world: World) -> None:
    """Row K3: names are unique among the living, seen or not."""
    with pytest.raises(AlreadyExists):
        world.call("a11", "spawn", name="b1")


def test_a_name_may_be_used_again_and_inherits_nothing(world: World) -> None:
    """Attack 40."""
    world.call("operator", "allow", agent="a2", other="b1")
    world.call("operator", "send", to="b1", body="for the old one")
    old = world.uuid("b1")
    world.call("operator", "destroy", agent="b1")
    world.call("b", "spawn", name="b1")
    assert world.uuid("b1") != old
    assert world.mail("b1") == []
    assert world.fault("a2", "send", to="b1", body="hello") == "NotFound"
    assert world.ledger.ranges.base(world.uuid("b1")) != world.ledger.ranges.base(old)


def test_children_are_bounded() -> None:
    """Rows H8 and K4."""
    with world(Settings(limits=HostLimits(children=2)), "root/a") as small:
        small.grow("a/x", "a/y")
        with pytest.raises(LimitReached):
            small.call("a", "spawn", name="z")
        small.call("operator", "spawn", name="z", parent="a")


def test_agents_of_a_host_are_bounded() -> None:
    with (
        world(Settings(limits=HostLimits(agents=2)), "root/a") as small,
        pytest.raises(LimitReached),
    ):
        small.call("operator", "spawn", name="b")


def test_a_subtree_is_bounded(world: World) -> None:
    world.call("operator", "spawn", name="team", subtree={"agents": 2})
    world.grow("team/x", "x/y")
    with pytest.raises(LimitReached):
        world.call("y", "spawn", name="z")


def test_depth_is_bounded() -> None:
    """Attack 39."""
    with world(Settings(limits=HostLimits(depth=3)), "root/a", "a/b") as small:
        assert small.fault("b", "spawn", name="c") == "InvalidArgument"


def test_limits_come_out_of_what_the_creator_has(world: World) -> None:
    gib = 1 << 30
    world.call("operator", "spawn", name="rich", limits={"memory_max": gib})
    world.call("rich", "spawn", name="x", limits={"memory_max": gib // 2})
    with pytest.raises(LimitReached):
        world.call("rich", "spawn", name="y", limits={"memory_max": gib // 2 + 1})


@for_each(
    "command",
    [["a\0b"], ["", "x"], ["x" * 40_000], [str(n) for n in range(1025)]],
)
def test_a_command_that_cannot_run_or_be_stored_is_refused(
    world: World, command: list[str]
) -> None:
    assert world.fault("operator", "spawn", name="new", command=command) == "InvalidArgument"


def test_the_longest_command_can_be_read_back(world: World) -> None:
    world.call("operator", "spawn", name="new", command=["x" * 32_000, *["y"] * 100])
    assert world.repo.read(world.hive.commit).spec("new") == world.hive.spec("new")


def test_a_repeat_with_the_same_key_makes_no_second_agent(world: World) -> None:
    """Attack 42."""
    first = world.call("a", "spawn", name="new", idempotency_key="k")
    assert world.call("a", "spawn", name="new", idempotency_key="k") == first
    with pytest.raises(Conflict):
        world.call("a", "spawn", name="other", idempotency_key="k")
    world.call("root", "spawn", name="other", idempotency_key="k")


def test_the_commit_has_the_creator_and_the_created_agent(world: World) -> None:
    """Row H27."""
    world.call("a", "spawn", name="new")
    event = world.events()[-1]
    assert (event["caller"], event["operation"], event["kind"]) == ("a", "spawn", "change")
    assert event["commit"] == world.hive.commit == world.repo.head()
    assert fields(event).items() >= {"uuid": world.uuid("new"), "role": "agent"}.items()


def test_a_refused_spawn_leaves_nothing_behind(world: World) -> None:
    before = (world.hive, world.ledger.runs.all(), world.ledger.ranges.all())
    world.fault("a", "spawn", name="new", capabilities=["meta.read"])
    assert (world.hive, world.ledger.runs.all(), world.ledger.ranges.all()) == before
    assert world.events()[-1]["allowed"] is False


def test_a_waiting_spawn_is_answered_when_its_job_ends(world: World) -> None:
    asked = world.ask("a", "spawn", name="new", wait=10)
    assert not asked.replies
    (job,) = [entry for entry in world.ledger.jobs.open() if entry.operation == "spawn"][-1:]
    world.finish(job.id)
    assert asked.result()["name"] == "new"


def test_a_waiting_spawn_that_fails_is_an_error_and_the_agent_stays(world: World) -> None:
    asked = world.ask("a", "spawn", name="new", wait=10)
    world.finish(world.ledger.jobs.open()[-1].id, error="NotRunning: it ends at once")
    assert asked.replies[-1]["error"] == "org.hive.Broker.NotRunning"
    assert "new" in names(rows(world.call("a", "list_agents")["agents"]))
