"""Changes that touch many agents: one, some, the rest; and no further after a failure."""

from __future__ import annotations

from collections.abc import Callable

from fixtures.deploys import DeployHarness, Done, play

from hive_core.broker.call import Call, Record
from hive_core.errors import Conflict
from hive_core.ledger.approvals.rollouts import DONE, FAILED, RUNNING, STOPPED, WAITING
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.approval import ApprovalState
from hive_core.operations.approvals.history import roll_out

MANY = 20
TREE: dict[str, str | None] = {"root": None, **{f"kid{n:02}": "root" for n in range(MANY)}}
SYSTEM = "/nix/store/11111111111111111111111111111111-nixos"


async def run_rollout(harness: DeployHarness) -> str:
    """The update of all of them; its job. They are stopped, so that each deploy is over at once."""
    names = [name for name in TREE if name != "root"]
    for name in names:
        await harness.want(name, DesiredState.STOPPED)
    hive = harness.broker.hive
    for name in names:
        spec = hive.spec(name).model_copy(update={"image": "nix", "system": SYSTEM})
        hive = hive.with_spec(name, spec)
    harness.change(hive)

    def handler(call: Call) -> Record[Done]:
        goals = {harness.uuid(name): "approval:rollout" for name in names}
        job = call.ledger.jobs.create("update", "operator", goals, call.now)
        roll_out(call, names, job.id)
        return Record(Done(id=job.id))

    return harness.broker.perform("update", handler).id


def states(harness: DeployHarness, rollout: str) -> list[tuple[int, str]]:
    return [(row.wave, row.state) for row in harness.ledger.rollouts.agents(rollout)]


def _play(story: Callable[[DeployHarness], object]) -> None:
    play(story, TREE, images={"nix": ""})  # type: ignore[arg-type]


def test_attack_51_each_wave_waits_for_the_one_before() -> None:
    """Attack 51: the first agent alone, then a tenth, then the rest."""

    async def story(harness: DeployHarness) -> None:
        rollout = await run_rollout(harness)
        seen: list[list[int]] = []

        def step(name: str) -> None:
            if name == "rolled out":
                begun = [wave for wave, state in states(harness, rollout) if state != WAITING]
                seen.append(begun)

        harness.step = step
        await harness.settle()
        assert seen[0] == [0]
        assert [0, 1, 1] in seen
        assert {state for _, state in states(harness, rollout)} == {DONE}
        assert harness.builder.builds == MANY
        job = harness.ledger.jobs.get(rollout)
        assert job is not None
        assert (job.state, job.error) == ("done", "")

    _play(story)


def test_attack_51_a_failure_stops_the_rest_and_says_so() -> None:
    async def story(harness: DeployHarness) -> None:
        rollout = await run_rollout(harness)
        harness.builder.fault = Conflict("it does not evaluate")
        await harness.settle()
        outcomes = states(harness, rollout)
        assert outcomes[0] == (0, FAILED)
        assert {state for _, state in outcomes[1:]} == {STOPPED}
        assert harness.builder.builds == 1
        job = harness.ledger.jobs.get(rollout)
        assert job is not None
        assert job.state == "failed"
        assert "kid00 failed" in job.error
        assert {harness.spec(name).system for name in TREE if name != "root"} == {SYSTEM}

    _play(story)


def test_attack_51_a_daemon_that_starts_again_goes_on_with_the_wave() -> None:
    async def story(harness: DeployHarness) -> None:
        rollout = await run_rollout(harness)

        def step(name: str) -> None:
            if name == "built" and harness.builder.builds == 3:
                raise SystemExit

        harness.step = step
        try:
            await harness.settle()
        except SystemExit:
            await harness.kill()
        assert RUNNING in {state for _, state in states_of_fresh(harness, rollout)}
        await harness.settle()
        assert {state for _, state in states(harness, rollout)} == {DONE}
        ended = [harness.approval(row.approval) for row in harness.ledger.rollouts.agents(rollout)]
        assert {approval.state for approval in ended} == {ApprovalState.DEPLOYED}

    def states_of_fresh(harness: DeployHarness, rollout: str) -> list[tuple[int, str]]:
        harness.step = lambda _: None
        harness.open()
        return states(harness, rollout)

    _play(story)


def test_a_destroyed_agent_delays_no_other() -> None:
    async def story(harness: DeployHarness) -> None:
        rollout = await run_rollout(harness)
        harness.destroy("kid05")
        await harness.settle()
        outcomes = [state for _, state in states(harness, rollout)]
        assert outcomes.count(STOPPED) == 1
        assert outcomes.count(DONE) == MANY - 1

    _play(story)
