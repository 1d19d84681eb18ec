"""A deployed configuration on trial: what confirms it and what takes it back."""

from __future__ import annotations

from fixtures.deploys import SEED, WINDOW, Stage, play
from fixtures.proposed_commits import proposal

from hive_core.errors import Internal
from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.approval import ApprovalState as S


def test_a_crash_in_the_window_takes_it_back_with_the_last_lines() -> None:
    """H9: who asked and the parent are told; the generation that failed is kept."""

    async def story(stage: Stage) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", proposed, by="root")
        await stage.advance(10)
        stage.journal.write(stage.uuid("bob"), "no such prompt")
        stage.host.crash(stage.uuid("bob"), "7")
        await stage.settle()
        assert stage.state_of(approval) is S.FAILED
        assert stage.approval(approval).reason == "the agent crashed: ended with 7"
        assert stage.spec("bob").config == stage.shown_commit("bob") == SEED
        assert stage.state("bob") is State.RUNNING
        assert [generation.failed for generation in stage.generations("bob")] == [
            "the agent crashed: ended with 7", "",
        ]  # fmt: skip
        state, error = stage.job(approval)
        assert state == "failed"
        assert "the agent crashed: ended with 7" in error
        for name in ("ann", "root"):
            (letter,) = (letter for letter in stage.mail(name) if letter.kind == "config")
            assert "the agent crashed: ended with 7" in letter.body
            assert "no such prompt" in letter.body
        assert stage.tags("bob") == {"approved", "building", "failed"}
        assert stage.git("bob").ref("refs/heads/main") == SEED
        assert "take back bob" in stage.log()
        assert stage.ledger.deploys.all() == []

    play(story)


def test_an_agent_that_is_stopped_gets_it_without_a_start_and_without_a_window() -> None:
    async def story(stage: Stage) -> None:
        await stage.want("bob", DesiredState.STOPPED)
        proposed = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", proposed)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.state("bob") is State.STOPPED
        await stage.want("bob", DesiredState.RUNNING)
        assert stage.shown_commit("bob") == proposed.binding.commit

    play(story)


def test_who_stops_it_in_the_window_keeps_what_is_new_and_nobody_watches() -> None:
    """An operator or ancestor who stops it does not say that it is bad."""

    async def story(stage: Stage) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", proposed)
        await stage.advance(3)
        await stage.want("bob", DesiredState.STOPPED)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.spec("bob").config == proposed.binding.commit
        assert stage.state("bob") is State.STOPPED

    play(story)


def test_who_starts_it_again_in_the_window_has_it_watched_from_then_on() -> None:
    async def story(stage: Stage) -> None:
        approval = await stage.deploy("bob", proposal({"agent.toml": ""}))
        await stage.advance(WINDOW - 5)
        await stage.want("bob", DesiredState.RUNNING, fresh=True)
        await stage.advance(WINDOW - 1)
        assert stage.state_of(approval) is S.WATCHING
        await stage.advance(2)
        assert stage.state_of(approval) is S.DEPLOYED

    play(story)


def test_a_restart_that_takes_away_access_is_not_held_against_it() -> None:
    """The window begins again, on the generation that is tried; also when it takes long."""

    async def story(stage: Stage) -> None:
        await stage.grow({"cat": "ann"}, cat={"uuid": "000000ca-0000-4000-8000-000000000000"})
        approval = await stage.deploy("bob", proposal({"agent.toml": ""}))
        await stage.advance(WINDOW - 5)
        stage.jobs.refused = Internal("no room")
        stage.change(stage.broker.hive.with_parent("cat", "root"))
        await stage.settle()
        assert stage.state("bob") is State.STARTING
        assert stage.uuid("bob") not in stage.host.units
        for _ in range(10):
            await stage.advance(WINDOW)
        assert stage.state_of(approval) is S.WATCHING
        stage.jobs.refused = None
        await stage.advance(WINDOW)
        assert stage.state("bob") is State.RUNNING
        await stage.advance(WINDOW - 1)
        assert stage.state_of(approval) is S.WATCHING
        await stage.advance(2)
        assert stage.state_of(approval) is S.DEPLOYED
        assert [generation.failed for generation in stage.generations("bob")] == ["", ""]

    play(story)


def test_an_end_of_its_own_is_no_health_but_for_one_that_is_done_after_its_task() -> None:
    async def story(stage: Stage) -> None:
        stage.change(stage.broker.hive.with_spec(
            "bob", stage.spec("bob").model_copy(update={"role": Role.TASK})
        ))  # fmt: skip
        approval = await stage.deploy("bob", proposal({"agent.toml": ""}))
        await stage.advance(1)
        stage.host.crash(stage.uuid("bob"), "0")
        await stage.settle()
        assert stage.state_of(approval) is S.DEPLOYED
        approval = await stage.deploy("ann", proposal({"agent.toml": "", "AGENTS.md": "x"}), "root")
        await stage.advance(1)
        stage.host.crash(stage.uuid("ann"), "0")
        await stage.settle()
        assert stage.state_of(approval) is S.FAILED
        assert "exited by itself" in stage.approval(approval).reason
        assert stage.state("ann") is State.RUNNING

    play(story)


def test_one_with_a_harness_has_to_say_hello_with_what_is_deployed() -> None:
    async def story(stage: Stage) -> None:
        first = proposal({"agent.toml": "", "AGENTS.md": "1"}, harness=True)
        approval = await stage.deploy("bob", first)
        await stage.advance(WINDOW + 1)
        assert stage.state_of(approval) is S.FAILED
        assert stage.approval(approval).reason == "the agent has not called hello"
        second = proposal({"agent.toml": "", "AGENTS.md": "2"}, harness=True)
        approval = await stage.deploy("bob", second)
        await stage.advance(1)
        stage.hello("bob", second.binding.commit)
        await stage.advance(WINDOW + 1)
        assert stage.state_of(approval) is S.DEPLOYED

    play(story)


def test_a_fault_that_the_agent_tells_takes_it_back_at_once() -> None:
    async def story(stage: Stage) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", proposed)
        await stage.advance(1)
        stage.hello("bob", proposed.binding.commit, "2 units failed")
        await stage.settle()
        assert stage.approval(approval).reason == "the agent reports: 2 units failed"
        assert stage.spec("bob").config == stage.shown_commit("bob") == SEED

    play(story)


def test_what_does_not_come_up_goes_back_and_what_goes_back_is_started_again() -> None:
    async def story(stage: Stage) -> None:
        stage.host.slow = True
        approval = await stage.deploy("bob", proposal({"agent.toml": ""}))
        assert stage.state_of(approval) is S.DEPLOYING
        for _ in range(4):
            await stage.advance(40)
        assert stage.state_of(approval) is S.FAILED
        assert "did not come up" in stage.approval(approval).reason
        stage.host.slow = False
        for _ in range(5):
            await stage.advance(40)
        assert stage.state("bob") is State.RUNNING
        assert stage.shown_commit("bob") == SEED
        assert stage.ledger.deploys.all() == []

    play(story)


def test_going_back_keeps_what_others_did_and_gives_no_capability_back() -> None:
    async def story(stage: Stage) -> None:
        proposed = proposal({"agent.toml": ""}, capabilities=["escalate", "spawn"])
        approval = await stage.deploy("bob", proposed)
        assert set(stage.spec("bob").capabilities) == {"escalate", "spawn"}
        spec = stage.spec("bob")
        stage.change(stage.broker.hive.with_spec(
            "bob", spec.model_copy(update={"title": "Baker", "capabilities": ("spawn", "kill")})
        ))  # fmt: skip
        stage.host.crash(stage.uuid("bob"), "1")
        await stage.advance(1)
        assert stage.state_of(approval) is S.FAILED
        assert stage.spec("bob").title == "Baker"
        assert set(stage.spec("bob").capabilities) == {"kill"}

    play(story)
