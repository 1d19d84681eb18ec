"""The deploy road on a host in memory: asked, approved, in place, healthy or back."""

from __future__ import annotations

from reconcile.deploying import LIVE, Stage, play, proposal

from hive_core.model.approval import ApprovalState as S
from hive_core.model.machine import State, Wanted
from hive_core.model.seed import seed_of

WINDOW = 30.0
SEED = seed_of("host").commit


def test_a_deploy_restarts_is_watched_and_is_confirmed() -> None:
    """H9; attack 49: every step is written down before the next one."""

    async def story(stage: Stage) -> None:
        found, before = proposal({"agent.toml": ""}), stage.host.units[stage.uuid("bob")]
        approval = await stage.deploy("bob", found)
        assert stage.state_of(approval) is S.WATCHING
        after = stage.host.units[stage.uuid("bob")]
        assert after.invocation != before.invocation
        assert stage.shown("bob") == stage.spec("bob").config == found.binding.commit
        assert stage.job(approval) == ("running", "")
        await stage.advance(WINDOW - 1)
        assert stage.state_of(approval) is S.WATCHING
        await stage.advance(2)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.job(approval) == ("done", "")
        assert stage.tags("bob") == {"approved", "building", "deployed"}
        assert stage.git("bob").ref("refs/heads/main") == found.binding.commit
        assert [each.commit for each in stage.generations("bob")] == [found.binding.commit, SEED]
        assert [each.kind for each in stage.mail("ann")] == ["config"]
        assert stage.ledger.deploys.all() == []
        log = stage.log()
        assert f"deploy bob {found.binding.commit[:12]} (generation 2)" in log
        assert f"Hive-Approval: {approval}\nHive-Requested-By: ann" in log
        assert "Hive-Approved-By: uid:0\nHive-Effect: restart" in log

    play(story)


def test_a_live_change_is_shown_while_the_agent_runs_on() -> None:
    async def story(stage: Stage) -> None:
        first = await stage.deploy("bob", proposal({"agent.toml": LIVE}))
        await stage.advance(WINDOW + 1)
        assert stage.state_of(first) is S.DEPLOYED
        before = stage.host.units[stage.uuid("bob")]
        found = proposal({"agent.toml": LIVE, "AGENTS.md": "Be kind.\n"})
        approval = await stage.deploy("bob", found)
        assert stage.state_of(approval) is S.WATCHING
        assert stage.shown("bob") == found.binding.commit
        await stage.advance(WINDOW + 1)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.host.units[stage.uuid("bob")] == before

    play(story)


def test_a_crash_in_the_window_takes_it_back_with_the_last_lines() -> None:
    """H9: who asked and the parent are told; the generation that failed is kept."""

    async def story(stage: Stage) -> None:
        found = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", found, by="root")
        await stage.advance(10)
        stage.journal.write(stage.uuid("bob"), "no such prompt")
        stage.host.crash(stage.uuid("bob"), "7")
        await stage.settle()
        assert stage.state_of(approval) is S.FAILED
        assert stage.approval(approval).reason == "it crashed: ended with 7"
        assert stage.spec("bob").config == stage.shown("bob") == SEED
        assert stage.state("bob") is State.RUNNING
        assert [each.failed for each in stage.generations("bob")] == [
            "it crashed: ended with 7", "",
        ]  # fmt: skip
        state, error = stage.job(approval)
        assert state == "failed"
        assert "it crashed: ended with 7" in error
        for name in ("ann", "root"):
            (told,) = (each for each in stage.mail(name) if each.kind == "config")
            assert "it crashed: ended with 7" in told.body
            assert "no such prompt" in told.body
        assert stage.tags("bob") == {"approved", "building", "failed"}
        assert stage.git("bob").ref("refs/heads/main") == SEED
        assert "take back bob" in stage.log()
        assert stage.ledger.deploys.all() == []

    play(story)


def test_an_agent_that_is_stopped_gets_it_without_a_start_and_without_a_window() -> None:
    async def story(stage: Stage) -> None:
        await stage.want("bob", Wanted.STOPPED)
        found = proposal({"agent.toml": ""})
        approval = await stage.deploy("bob", found)
        assert stage.state_of(approval) is S.DEPLOYED
        assert stage.state("bob") is State.STOPPED
        await stage.want("bob", Wanted.RUNNING)
        assert stage.shown("bob") == found.binding.commit

    play(story)
