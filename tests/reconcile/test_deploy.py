"""The deploy road on a host in memory: asked, approved, in place, healthy or back."""

from __future__ import annotations

import asyncio

from fixtures.deploys import SEED, WINDOW, Stage, play
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

    async def story(stage: Stage) -> None:
        proposed, before = proposal({"agent.toml": ""}), stage.host.units[stage.uuid("bob")]
        approval = await stage.deploy("bob", proposed)
        assert stage.state_of(approval) is S.WATCHING
        after = stage.host.units[stage.uuid("bob")]
        assert after.invocation != before.invocation
        assert stage.shown_commit("bob") == stage.spec("bob").config == proposed.binding.commit
        assert stage.job(approval) == ("running", "")
        await stage.advance(WINDOW - 1)
        assert stage.state_of(approval) is S.WATCHING
        await stage.advance(2)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.job(approval) == ("done", "")
        assert stage.tags("bob") == {"approved", "building", "deployed"}
        assert stage.git("bob").ref("refs/heads/main") == proposed.binding.commit
        assert [generation.commit for generation in stage.generations("bob")] == [
            proposed.binding.commit,
            SEED,
        ]
        assert [letter.kind for letter in stage.mail("ann")] == ["config"]
        assert stage.ledger.deploys.all() == []
        log = stage.log()
        assert f"deploy bob {proposed.binding.commit[:12]} (generation 2)" in log
        assert f"Hive-Approval: {approval}\nHive-Requested-By: ann" in log
        assert "Hive-Approved-By: uid:0\nHive-Effect: restart" in log

    play(story)


def test_the_first_generation_began_when_the_agent_was_made() -> None:
    """`hive history` showed one time for generations 1 and 2: that of the first deploy."""

    async def story(stage: Stage) -> None:
        made = stage.clock.now()
        await stage.advance(3600)
        await stage.deploy("bob", proposal({"agent.toml": ""}))
        second, first = stage.generations("bob")
        assert (first.at, second.at - first.at >= 3600) == (made, True)

    play(story)


def test_of_an_agent_of_an_older_hive_the_first_generation_began_before_the_request() -> None:
    async def story(stage: Stage) -> None:
        with stage.ledger.transaction():
            stage.ledger.connection.run("UPDATE ranges SET given = NULL")
        approval = stage.request("bob", proposal({"agent.toml": ""}))
        await stage.settle()
        asked = stage.approval(approval).created
        await stage.advance(60)
        stage.decide(approval)
        await stage.settle()
        second, first = stage.generations("bob")
        assert (first.at, second.at - first.at >= 60) == (asked, True)

    play(story)


def test_a_live_change_is_shown_while_the_agent_runs_on() -> None:
    async def story(stage: Stage) -> None:
        first = await stage.deploy("bob", proposal({"agent.toml": LIVE}))
        await stage.advance(WINDOW + 1)
        assert stage.state_of(first) is S.DEPLOYED
        before = stage.host.units[stage.uuid("bob")]
        proposed = proposal({"agent.toml": LIVE, "AGENTS.md": "Be kind.\n"})
        approval = await stage.deploy("bob", proposed)
        assert stage.state_of(approval) is S.WATCHING
        assert stage.shown_commit("bob") == proposed.binding.commit
        await stage.advance(WINDOW + 1)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.host.units[stage.uuid("bob")] == before

    play(story)


def test_one_deploy_at_a_time_for_each_agent_and_the_second_is_void() -> None:
    """Attack 21: it was judged against what is not there any more."""

    async def story(stage: Stage) -> None:
        first = stage.request("bob", proposal({"agent.toml": "", "AGENTS.md": "1"}))
        second = stage.request("bob", proposal({"agent.toml": "", "AGENTS.md": "2"}))
        other = stage.request("ann", proposal({"agent.toml": "", "AGENTS.md": "3"}), "root")
        await stage.settle()
        for id_ in (first, second, other):
            stage.decide(id_)
        await stage.settle()
        assert [stage.state_of(id_) for id_ in (first, second, other)] == [
            S.WATCHING, S.APPROVED, S.WATCHING,
        ]  # fmt: skip
        await stage.advance(WINDOW + 1)
        assert [stage.state_of(id_) for id_ in (first, second, other)] == [
            S.DEPLOYED, S.VOID, S.DEPLOYED,
        ]  # fmt: skip
        assert "denied" in stage.tags("bob")

    play(story)


def test_the_second_has_its_turn_when_the_first_went_back() -> None:
    async def story(stage: Stage) -> None:
        first = stage.request("bob", proposal({"agent.toml": "", "AGENTS.md": "1"}))
        proposed = proposal({"agent.toml": "", "AGENTS.md": "2"})
        second = stage.request("bob", proposed)
        await stage.settle()
        stage.decide(first)
        await stage.settle()
        stage.decide(second)
        await stage.advance(1)
        stage.host.crash(stage.uuid("bob"))
        await stage.settle()
        await stage.advance(WINDOW + 1)
        assert (stage.state_of(first), stage.state_of(second)) == (S.FAILED, S.DEPLOYED)
        assert stage.shown_commit("bob") == proposed.binding.commit

    play(story)


def test_what_nobody_decides_expires_and_what_is_refused_leaves_no_ref() -> None:
    async def story(stage: Stage) -> None:
        waits = stage.request("bob", proposal({"agent.toml": ""}))
        await stage.advance(86_401)
        assert stage.state_of(waits) is S.EXPIRED
        assert stage.tags("bob") == {"denied"}
        proposed = proposal({"agent.toml": "", "AGENTS.md": "x"})
        refused = stage.request("bob", proposed)
        stage.known.clear()
        await stage.settle()
        assert stage.state_of(refused) is S.REFUSED
        assert stage.job(refused)[0] == "failed"
        assert not stage.git("bob").has_proposal(refused)

    play(story)


def test_a_way_back_is_a_new_generation_and_only_so_many_are_kept() -> None:
    async def story(stage: Stage) -> None:
        made = [proposal({"agent.toml": LIVE, "AGENTS.md": str(number)}) for number in range(5)]
        for proposed in made:
            await stage.deploy("bob", proposed)
            await stage.advance(WINDOW + 1)
        assert [generation.number for generation in stage.generations("bob")] == [6, 5, 4]
        back = stage.roll_back("bob", 5)
        await stage.advance(0)
        await stage.advance(WINDOW + 1)
        assert stage.state_of(back) is S.DEPLOYED
        newest = stage.generations("bob")[0]
        assert (newest.number, newest.commit) == (7, made[3].binding.commit)
        assert stage.approval(back).effect is Effect.LIVE
        assert stage.shown_commit("bob") == made[3].binding.commit
        refs = {name for name in stage.git("bob").refs() if name.startswith("refs/hive/proposals/")}
        assert len(refs) <= 6

    play(story, deploy={"generations": 3})


def test_an_agent_that_is_destroyed_meanwhile_ends_it_all() -> None:
    async def story(stage: Stage) -> None:
        approval = await stage.deploy("bob", proposal({"agent.toml": ""}))
        uuid = stage.uuid("bob")
        stage.decide(approval, "fail", "the agent was destroyed")
        stage.destroy("bob")
        await stage.settle()
        await stage.advance(WINDOW + 1)
        assert stage.ledger.deploys.all() == []
        assert stage.applied.repo(uuid).path.parent.name == ".archive"

    play(story)


def test_who_is_destroyed_on_trial_comes_back_with_what_it_had_before() -> None:
    def destroy_bob(call: Call) -> Change[Result]:
        outcome = destroy(call, ScopeParams(agent="bob"))
        assert isinstance(outcome, Change)
        return outcome

    async def story(stage: Stage) -> None:
        before = stage.spec("bob")
        await stage.deploy("bob", proposal({"agent.toml": ""}, capabilities=["kill"]))
        assert stage.spec("bob").config != before.config
        stage.broker.perform("destroy", destroy_bob)
        await stage.settle()
        archive = stage.ledger.archives.get(before.id)
        assert archive is not None
        assert AgentSpec.model_validate_json(archive.spec) == before
        assert stage.ledger.generations.all(before.id)[0].failed

    play(story)


def test_a_file_is_read_as_the_job_reads_it_dates_and_all() -> None:
    """Else what was shown as live would be deployed by a restart."""
    text = f"{LIVE}[settings]\nborn = 2020-01-01\n"
    assert config_in({"agent.toml": (False, text.encode())}).harness.reload is Reload.LIVE
    assert config_in({"agent.toml": (False, b"= broken")}).harness.reload is Reload.RESTART


def test_attack_21_what_was_revoked_since_the_check_is_not_given_back() -> None:
    """The operator was shown that the agent holds it already, not that it would be given."""

    async def story(stage: Stage) -> None:
        spec = stage.spec("bob").model_copy(update={"capabilities": ("kill", "spawn")})
        stage.change(stage.broker.hive.with_spec("bob", spec))
        asked = stage.request("bob", proposal({"agent.toml": ""}, capabilities=["kill", "spawn"]))
        await stage.settle()

        def step(name: str) -> None:
            if name == "built":
                less = stage.spec("bob").model_copy(update={"capabilities": ("spawn",)})
                stage.change(stage.broker.hive.with_spec("bob", less))

        stage.step = step
        stage.decide(asked)
        await stage.settle()
        assert stage.state_of(asked) is S.VOID
        assert stage.approval(asked).reason == "kill was revoked since the check"
        assert stage.spec("bob").capabilities == ("spawn",)

    play(story)


def test_who_is_approved_waits_for_no_hostile_proposal_and_checks_have_their_turn() -> None:
    """Attack 18: checks that hang take the places of checks, and of nothing else."""

    async def story(stage: Stage) -> None:
        asked = stage.request("bob", proposal({"agent.toml": ""}))
        await stage.settle()
        stage.intake.gate = asyncio.Event()
        hanging = [
            stage.request("ann", proposal({"AGENTS.md": str(number)}), "root")
            for number in range(6)
        ]
        await stage.deploys.run_once()
        assert len(stage.deploys.tasks.busy) == AT_ONCE
        stage.decide(asked)
        while stage.state_of(asked) is not S.WATCHING:
            await stage.road.converge()
            await stage.deploys.run_once()
            await asyncio.sleep(0)
        stage.intake.gate.set()
        await stage.settle()
        assert {stage.state_of(id_) for id_ in hanging} == {S.PENDING}

    play(story)


def test_a_disk_that_cannot_be_read_is_told_and_tried_again_and_ends_nothing() -> None:
    async def story(stage: Stage) -> None:
        asked = stage.request("bob", proposal({"agent.toml": ""}))
        left = [OSError(5, "Input/output error")] * 2

        def step(name: str) -> None:
            if name in ("built", "settled") and left:
                raise left.pop()

        stage.step = step
        await stage.settle()
        stage.decide(asked)
        await stage.settle()
        assert "Input/output error" in stage.look.troubles[asked]
        assert stage.state_of(asked) is S.BUILDING
        for _ in range(4):
            await stage.advance(WINDOW)
        assert stage.state_of(asked) is S.DEPLOYED
        assert asked not in stage.look.troubles

    play(story)


def test_who_has_files_that_are_damaged_can_be_stopped_and_does_not_start() -> None:
    """R8: fail closed, and stopping works whatever is broken."""

    async def story(stage: Stage) -> None:
        proposed = proposal({"agent.toml": ""})
        await stage.deploy("bob", proposed)
        await stage.advance(WINDOW + 1)
        repo = stage.git("bob").path
        for path in (*repo.glob("hive/*.nar"), *repo.glob("objects/pack/*")):
            path.unlink()
        await stage.kill()
        stage.open()
        stage.host.storage.configs.clear()
        await stage.settle()
        assert stage.state("bob") is State.RUNNING
        await stage.want("bob", DesiredState.STOPPED)
        assert stage.state("bob") is State.STOPPED
        await stage.want("bob", DesiredState.RUNNING)
        assert stage.uuid("bob") not in stage.host.units
        assert "cannot reconcile agent bob" in stage.look.troubles[stage.uuid("bob")]

    play(story)
