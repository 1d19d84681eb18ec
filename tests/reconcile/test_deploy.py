"""The deploy road on a host in memory: asked, approved, in place, healthy or back."""

from __future__ import annotations

import asyncio

from fixtures.deploys import SEED, WINDOW, DeployHarness, play
from fixtures.proposed_commits import LIVE, proposal

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Result
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.agent_config import Reload
from hive_core.model.config.approval import ApprovalState as S
from hive_core.model.config.approval import Effect
from hive_core.operations.agents.archive import destroy
from hive_core.operations.lifecycle.operations import ScopeParams
from hive_core.reconcile.deploy.deployer import AT_ONCE
from hive_core.reconcile.deploy.effects import config_in


def test_a_deploy_restarts_is_watched_and_is_confirmed() -> None:
    """H9; attack 49: every step is written down before the next one."""

    async def story(harness: DeployHarness) -> None:
        proposed, before = proposal({"agent.toml": ""}), harness.host.units[harness.uuid("bob")]
        approval = await harness.deploy("bob", proposed)
        assert harness.state_of(approval) is S.WATCHING
        after = harness.host.units[harness.uuid("bob")]
        assert after.invocation != before.invocation
        assert harness.shown_commit("bob") == harness.spec("bob").config == proposed.binding.commit
        assert harness.job(approval) == ("running", "")
        await harness.advance(WINDOW - 1)
        assert harness.state_of(approval) is S.WATCHING
        await harness.advance(2)
        assert harness.state_of(approval) is S.DEPLOYED
        assert harness.job(approval) == ("done", "")
        assert harness.tags("bob") == {"approved", "building", "deployed"}
        assert harness.git("bob").ref("refs/heads/main") == proposed.binding.commit
        assert [generation.commit for generation in harness.generations("bob")] == [
            proposed.binding.commit,
            SEED,
        ]
        assert [letter.kind for letter in harness.mail("ann")] == ["config"]
        assert harness.ledger.deploys.all() == []
        log = harness.log()
        assert f"deploy bob {proposed.binding.commit[:12]} (generation 2)" in log
        assert f"Hive-Approval: {approval}\nHive-Requested-By: ann" in log
        assert "Hive-Approved-By: uid:0\nHive-Effect: restart" in log

    play(story)


def test_a_request_that_waits_for_the_operator_is_an_event() -> None:
    async def story(harness: DeployHarness) -> None:
        approval = harness.request("bob", proposal({"agent.toml": ""}))
        await harness.settle()
        assert harness.state_of(approval) is S.PENDING
        log = harness.ledger.events.page(0, 1000)
        (event,) = [event for event in log if event.kind == "approval"]
        assert event.fields == {
            "caller_name": "daemon", "approval": approval, "target_name": "bob",
        }  # fmt: skip

    play(story)


def test_the_first_generation_began_when_the_agent_was_made() -> None:
    """`hive history` showed one time for generations 1 and 2: that of the first deploy."""

    async def story(harness: DeployHarness) -> None:
        made = harness.clock.now()
        await harness.advance(3600)
        await harness.deploy("bob", proposal({"agent.toml": ""}))
        second, first = harness.generations("bob")
        assert (first.at, second.at - first.at >= 3600) == (made, True)

    play(story)


def test_of_an_agent_of_an_older_hive_the_first_generation_began_before_the_request() -> None:
    async def story(harness: DeployHarness) -> None:
        with harness.ledger.transaction():
            harness.ledger.connection.run("UPDATE ranges SET given = NULL")
        approval = harness.request("bob", proposal({"agent.toml": ""}))
        await harness.settle()
        asked = harness.approval(approval).created
        await harness.advance(60)
        harness.decide(approval)
        await harness.settle()
        second, first = harness.generations("bob")
        assert (first.at, second.at - first.at >= 60) == (asked, True)

    play(story)


def test_a_live_change_is_shown_while_the_agent_runs_on() -> None:
    async def story(harness: DeployHarness) -> None:
        first = await harness.deploy("bob", proposal({"agent.toml": LIVE}))
        await harness.advance(WINDOW + 1)
        assert harness.state_of(first) is S.DEPLOYED
        before = harness.host.units[harness.uuid("bob")]
        proposed = proposal({"agent.toml": LIVE, "AGENTS.md": "Be kind.\n"})
        approval = await harness.deploy("bob", proposed)
        assert harness.state_of(approval) is S.WATCHING
        assert harness.shown_commit("bob") == proposed.binding.commit
        await harness.advance(WINDOW + 1)
        assert harness.state_of(approval) is S.DEPLOYED
        assert harness.host.units[harness.uuid("bob")] == before

    play(story)


def test_one_deploy_at_a_time_for_each_agent_and_the_second_is_void() -> None:
    """Attack 21: the decision was made against a configuration that has been replaced."""

    async def story(harness: DeployHarness) -> None:
        first = harness.request("bob", proposal({"agent.toml": "", "AGENTS.md": "1"}))
        second = harness.request("bob", proposal({"agent.toml": "", "AGENTS.md": "2"}))
        other = harness.request("ann", proposal({"agent.toml": "", "AGENTS.md": "3"}), "root")
        await harness.settle()
        for id_ in (first, second, other):
            harness.decide(id_)
        await harness.settle()
        assert [harness.state_of(id_) for id_ in (first, second, other)] == [
            S.WATCHING, S.APPROVED, S.WATCHING,
        ]  # fmt: skip
        await harness.advance(WINDOW + 1)
        assert [harness.state_of(id_) for id_ in (first, second, other)] == [
            S.DEPLOYED, S.VOID, S.DEPLOYED,
        ]  # fmt: skip
        assert "denied" in harness.tags("bob")

    play(story)


def test_the_second_has_its_turn_when_the_first_went_back() -> None:
    async def story(harness: DeployHarness) -> None:
        first = harness.request("bob", proposal({"agent.toml": "", "AGENTS.md": "1"}))
        proposed = proposal({"agent.toml": "", "AGENTS.md": "2"})
        second = harness.request("bob", proposed)
        await harness.settle()
        harness.decide(first)
        await harness.settle()
        harness.decide(second)
        await harness.advance(1)
        harness.host.crash(harness.uuid("bob"))
        await harness.settle()
        await harness.advance(WINDOW + 1)
        assert (harness.state_of(first), harness.state_of(second)) == (S.FAILED, S.DEPLOYED)
        assert harness.shown_commit("bob") == proposed.binding.commit

    play(story)


def test_an_undecided_request_expires_and_a_refused_one_leaves_no_ref() -> None:
    async def story(harness: DeployHarness) -> None:
        waits = harness.request("bob", proposal({"agent.toml": ""}))
        await harness.advance(86_401)
        assert harness.state_of(waits) is S.EXPIRED
        assert harness.tags("bob") == {"denied"}
        proposed = proposal({"agent.toml": "", "AGENTS.md": "x"})
        refused = harness.request("bob", proposed)
        harness.known.clear()
        await harness.settle()
        assert harness.state_of(refused) is S.REFUSED
        assert harness.job(refused)[0] == "failed"
        assert not harness.git("bob").has_proposal(refused)

    play(story)


def test_a_way_back_is_a_new_generation_and_only_so_many_are_kept() -> None:
    async def story(harness: DeployHarness) -> None:
        made = [proposal({"agent.toml": LIVE, "AGENTS.md": str(number)}) for number in range(5)]
        for proposed in made:
            await harness.deploy("bob", proposed)
            await harness.advance(WINDOW + 1)
        assert [generation.number for generation in harness.generations("bob")] == [6, 5, 4]
        back = harness.roll_back("bob", 5)
        await harness.advance(0)
        await harness.advance(WINDOW + 1)
        assert harness.state_of(back) is S.DEPLOYED
        newest = harness.generations("bob")[0]
        assert (newest.number, newest.commit) == (7, made[3].binding.commit)
        assert harness.approval(back).effect is Effect.LIVE
        assert harness.shown_commit("bob") == made[3].binding.commit
        refs = {
            name for name in harness.git("bob").refs() if name.startswith("refs/hive/proposals/")
        }
        assert len(refs) <= 6

    play(story, deploy={"generations": 3})


def test_an_agent_that_is_destroyed_meanwhile_ends_it_all() -> None:
    async def story(harness: DeployHarness) -> None:
        approval = await harness.deploy("bob", proposal({"agent.toml": ""}))
        uuid = harness.uuid("bob")
        harness.decide(approval, "fail", "the agent was destroyed")
        harness.destroy("bob")
        await harness.settle()
        await harness.advance(WINDOW + 1)
        assert harness.ledger.deploys.all() == []
        assert harness.applied.repo(uuid).path.parent.name == ".archive"

    play(story)


def test_an_agent_destroyed_on_trial_comes_back_with_what_it_had_before() -> None:
    def destroy_bob(call: Call) -> Change[Result]:
        outcome = destroy(call, ScopeParams(agent="bob"))
        assert isinstance(outcome, Change)
        return outcome

    async def story(harness: DeployHarness) -> None:
        before = harness.spec("bob")
        await harness.deploy("bob", proposal({"agent.toml": ""}, capabilities=["kill"]))
        assert harness.spec("bob").config != before.config
        harness.broker.perform("destroy", destroy_bob)
        await harness.settle()
        archive = harness.ledger.archives.get(before.id)
        assert archive is not None
        assert AgentSpec.model_validate_json(archive.spec) == before
        assert harness.ledger.generations.all(before.id)[0].failed

    play(story)


def test_a_file_is_read_as_the_job_reads_it_dates_and_all() -> None:
    """Else what was shown as live would be deployed by a restart."""
    text = f"{LIVE}[settings]\nborn = 2020-01-01\n"
    assert config_in({"agent.toml": (False, text.encode())}).harness.reload is Reload.LIVE
    assert config_in({"agent.toml": (False, b"= broken")}).harness.reload is Reload.RESTART


def test_attack_21_what_was_revoked_since_the_check_is_not_given_back() -> None:
    """The operator was shown that the agent holds it already, not that it would be given."""

    async def story(harness: DeployHarness) -> None:
        spec = harness.spec("bob").model_copy(update={"capabilities": ("kill", "spawn")})
        harness.change(harness.broker.hive.with_spec("bob", spec))
        asked = harness.request("bob", proposal({"agent.toml": ""}, capabilities=["kill", "spawn"]))
        await harness.settle()

        def step(name: str) -> None:
            if name == "built":
                less = harness.spec("bob").model_copy(update={"capabilities": ("spawn",)})
                harness.change(harness.broker.hive.with_spec("bob", less))

        harness.step = step
        harness.decide(asked)
        await harness.settle()
        assert harness.state_of(asked) is S.VOID
        assert harness.approval(asked).reason == "kill was revoked since the check"
        assert harness.spec("bob").capabilities == ("spawn",)

    play(story)


def test_an_approved_request_waits_for_no_hostile_proposal_and_checks_have_their_turn() -> None:
    """Attack 18: checks that hang take the places of checks, and of nothing else."""

    async def story(harness: DeployHarness) -> None:
        asked = harness.request("bob", proposal({"agent.toml": ""}))
        await harness.settle()
        harness.intake.gate = asyncio.Event()
        hanging = [
            harness.request("ann", proposal({"AGENTS.md": str(number)}), "root")
            for number in range(6)
        ]
        await harness.deploys.run_once()
        assert len(harness.deploys.tasks.busy) == AT_ONCE
        harness.decide(asked)
        while harness.state_of(asked) is not S.WATCHING:
            await harness.reconciler.converge()
            await harness.deploys.run_once()
            await asyncio.sleep(0)
        harness.intake.gate.set()
        await harness.settle()
        assert {harness.state_of(id_) for id_ in hanging} == {S.PENDING}

    play(story)


def test_a_disk_that_cannot_be_read_is_told_and_tried_again_and_ends_nothing() -> None:
    async def story(harness: DeployHarness) -> None:
        asked = harness.request("bob", proposal({"agent.toml": ""}))
        left = [OSError(5, "Input/output error")] * 2

        def step(name: str) -> None:
            if name in ("built", "settled") and left:
                raise left.pop()

        harness.step = step
        await harness.settle()
        harness.decide(asked)
        await harness.settle()
        assert "Input/output error" in harness.observed.troubles[asked]
        assert harness.state_of(asked) is S.BUILDING
        for _ in range(4):
            await harness.advance(WINDOW)
        assert harness.state_of(asked) is S.DEPLOYED
        assert asked not in harness.observed.troubles

    play(story)


def test_an_agent_with_damaged_files_can_be_stopped_and_does_not_start() -> None:
    """R8: fail closed, and stopping works whatever is broken."""

    async def story(harness: DeployHarness) -> None:
        proposed = proposal({"agent.toml": ""})
        await harness.deploy("bob", proposed)
        await harness.advance(WINDOW + 1)
        repo = harness.git("bob").path
        for path in (*repo.glob("hive/*.nar"), *repo.glob("objects/pack/*")):
            path.unlink()
        await harness.kill()
        harness.open()
        harness.host.storage.configs.clear()
        await harness.settle()
        assert harness.state("bob") is State.RUNNING
        await harness.want("bob", DesiredState.STOPPED)
        assert harness.state("bob") is State.STOPPED
        await harness.want("bob", DesiredState.RUNNING)
        assert harness.uuid("bob") not in harness.host.units
        assert "cannot reconcile agent bob" in harness.observed.troubles[harness.uuid("bob")]

    play(story)
