"""A deployed configuration on trial: what confirms it and what takes it back."""

from __future__ import annotations

from fixtures.deploys import SEED, WINDOW, DeployHarness, play
from fixtures.proposed_commits import proposal

from hive_core.errors import Internal
from hive_core.model.agents.agent import Role
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.approval import ApprovalState as S


def test_a_crash_in_the_window_takes_it_back_with_the_last_lines() -> None:
    """H9: the requester and the parent get notice; the failed generation is kept."""

    async def story(harness: DeployHarness) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await harness.deploy("bob", proposed, by="root")
        await harness.advance(10)
        harness.journal.write(harness.uuid("bob"), "no such prompt")
        harness.host.crash(harness.uuid("bob"), "7")
        await harness.settle()
        assert harness.state_of(approval) is S.FAILED
        assert harness.approval(approval).reason == "the agent crashed: ended with 7"
        assert harness.spec("bob").config == harness.shown_commit("bob") == SEED
        assert harness.state("bob") is State.RUNNING
        assert [generation.failed for generation in harness.generations("bob")] == [
            "the agent crashed: ended with 7", "",
        ]  # fmt: skip
        state, error = harness.job(approval)
        assert state == "failed"
        assert "the agent crashed: ended with 7" in error
        for name in ("ann", "root"):
            (letter,) = (letter for letter in harness.mail(name) if letter.kind == "config")
            assert "the agent crashed: ended with 7" in letter.body
            assert "no such prompt" in letter.body
        assert harness.tags("bob") == {"approved", "building", "failed"}
        assert harness.git("bob").ref("refs/heads/main") == SEED
        assert "take back bob" in harness.log()
        assert harness.ledger.deploys.all() == []

    play(story)


def test_an_agent_that_is_stopped_gets_it_without_a_start_and_without_a_window() -> None:
    async def story(harness: DeployHarness) -> None:
        await harness.want("bob", DesiredState.STOPPED)
        proposed = proposal({"agent.toml": ""})
        approval = await harness.deploy("bob", proposed)
        assert harness.state_of(approval) is S.DEPLOYED
        assert harness.state("bob") is State.STOPPED
        await harness.want("bob", DesiredState.RUNNING)
        assert harness.shown_commit("bob") == proposed.binding.commit

    play(story)


def test_a_stop_in_the_window_keeps_what_is_new_and_ends_the_watch() -> None:
    """An operator or ancestor who stops it does not say that it is bad."""

    async def story(harness: DeployHarness) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await harness.deploy("bob", proposed)
        await harness.advance(3)
        await harness.want("bob", DesiredState.STOPPED)
        assert harness.state_of(approval) is S.DEPLOYED
        assert harness.spec("bob").config == proposed.binding.commit
        assert harness.state("bob") is State.STOPPED

    play(story)


def test_a_start_in_the_window_begins_the_watch_anew() -> None:
    async def story(harness: DeployHarness) -> None:
        approval = await harness.deploy("bob", proposal({"agent.toml": ""}))
        await harness.advance(WINDOW - 5)
        await harness.want("bob", DesiredState.RUNNING, fresh=True)
        await harness.advance(WINDOW - 1)
        assert harness.state_of(approval) is S.WATCHING
        await harness.advance(2)
        assert harness.state_of(approval) is S.DEPLOYED

    play(story)


def test_a_restart_that_takes_away_access_is_not_held_against_it() -> None:
    """The window begins again, on the generation that is tried; also when it takes long."""

    async def story(harness: DeployHarness) -> None:
        await harness.grow({"cat": "ann"}, cat={"uuid": "000000ca-0000-4000-8000-000000000000"})
        approval = await harness.deploy("bob", proposal({"agent.toml": ""}))
        await harness.advance(WINDOW - 5)
        harness.jobs.refused = Internal("no room")
        harness.change(harness.broker.hive.with_parent("cat", "root"))
        await harness.settle()
        assert harness.state("bob") is State.STARTING
        assert harness.uuid("bob") not in harness.host.units
        for _ in range(10):
            await harness.advance(WINDOW)
        assert harness.state_of(approval) is S.WATCHING
        harness.jobs.refused = None
        await harness.advance(WINDOW)
        assert harness.state("bob") is State.RUNNING
        await harness.advance(WINDOW - 1)
        assert harness.state_of(approval) is S.WATCHING
        await harness.advance(2)
        assert harness.state_of(approval) is S.DEPLOYED
        assert [generation.failed for generation in harness.generations("bob")] == ["", ""]

    play(story)


def test_an_end_of_its_own_is_no_health_but_for_one_that_is_done_after_its_task() -> None:
    async def story(harness: DeployHarness) -> None:
        harness.change(harness.broker.hive.with_spec(
            "bob", harness.spec("bob").model_copy(update={"role": Role.TASK})
        ))  # fmt: skip
        approval = await harness.deploy("bob", proposal({"agent.toml": ""}))
        await harness.advance(1)
        harness.host.crash(harness.uuid("bob"), "0")
        await harness.settle()
        assert harness.state_of(approval) is S.DEPLOYED
        approval = await harness.deploy(
            "ann", proposal({"agent.toml": "", "AGENTS.md": "x"}), "root"
        )
        await harness.advance(1)
        harness.host.crash(harness.uuid("ann"), "0")
        await harness.settle()
        assert harness.state_of(approval) is S.FAILED
        assert "exited by itself" in harness.approval(approval).reason
        assert harness.state("ann") is State.RUNNING

    play(story)


def test_one_with_a_harness_has_to_say_hello_with_what_is_deployed() -> None:
    async def story(harness: DeployHarness) -> None:
        first = proposal({"agent.toml": "", "AGENTS.md": "1"}, harness=True)
        approval = await harness.deploy("bob", first)
        await harness.advance(WINDOW + 1)
        assert harness.state_of(approval) is S.FAILED
        assert harness.approval(approval).reason == "the agent has not called hello"
        second = proposal({"agent.toml": "", "AGENTS.md": "2"}, harness=True)
        approval = await harness.deploy("bob", second)
        await harness.advance(1)
        harness.hello("bob", second.binding.commit)
        await harness.advance(WINDOW + 1)
        assert harness.state_of(approval) is S.DEPLOYED

    play(story)


def test_a_fault_that_the_agent_tells_takes_it_back_at_once() -> None:
    async def story(harness: DeployHarness) -> None:
        proposed = proposal({"agent.toml": ""})
        approval = await harness.deploy("bob", proposed)
        await harness.advance(1)
        harness.hello("bob", proposed.binding.commit, "2 units failed")
        await harness.settle()
        assert harness.approval(approval).reason == "the agent reports: 2 units failed"
        assert harness.spec("bob").config == harness.shown_commit("bob") == SEED

    play(story)


def test_what_does_not_come_up_goes_back_and_what_goes_back_is_started_again() -> None:
    async def story(harness: DeployHarness) -> None:
        harness.host.slow = True
        approval = await harness.deploy("bob", proposal({"agent.toml": ""}))
        assert harness.state_of(approval) is S.DEPLOYING
        for _ in range(4):
            await harness.advance(40)
        assert harness.state_of(approval) is S.FAILED
        assert "did not come up" in harness.approval(approval).reason
        harness.host.slow = False
        for _ in range(5):
            await harness.advance(40)
        assert harness.state("bob") is State.RUNNING
        assert harness.shown_commit("bob") == SEED
        assert harness.ledger.deploys.all() == []

    play(story)


def test_going_back_keeps_what_others_did_and_gives_no_capability_back() -> None:
    async def story(harness: DeployHarness) -> None:
        proposed = proposal({"agent.toml": ""}, capabilities=["escalate", "spawn"])
        approval = await harness.deploy("bob", proposed)
        assert set(harness.spec("bob").capabilities) == {"escalate", "spawn"}
        spec = harness.spec("bob")
        harness.change(harness.broker.hive.with_spec(
            "bob", spec.model_copy(update={"title": "Baker", "capabilities": ("spawn", "kill")})
        ))  # fmt: skip
        harness.host.crash(harness.uuid("bob"), "1")
        await harness.advance(1)
        assert harness.state_of(approval) is S.FAILED
        assert harness.spec("bob").title == "Baker"
        assert set(harness.spec("bob").capabilities) == {"kill"}

    play(story)
